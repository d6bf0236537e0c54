"""Runs on a node on the controller's behalf: standard library only, Python 3.9 or later.

The controller sends these modules over the connection with each request (`regatta.hosts.remote`); nothing is installed.
Only the supervisor is written into a run's folder, because it outlives the connection.
"""
