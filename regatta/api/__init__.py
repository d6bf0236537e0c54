"""The interface for programs: a cluster, runs on it, what they print, write and leave as records. Commands do
the same.
"""
