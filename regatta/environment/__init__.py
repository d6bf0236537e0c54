"""The environment of a run besides its program: packages of the project that the nodes' environment lacks, and
variables.
"""
