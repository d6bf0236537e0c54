"""The types of all that the controller, its side on nodes and workloads tell each other: the standard library only.

All three import it. Nodes get its modules as source, and those that a request or a supervisor loads run on Python 3.9.
"""
