"""Searches: trials of a function with other values of its arguments, one after the other, in a pool, or by Ray Tune."""
