"""The records of runs: events, times, and comparisons."""
