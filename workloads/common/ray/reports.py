"""Keys of what a trial reports to Tune, and what is said of one that reports no more."""

POINT, REPORT, SECONDS, KEPT = "point", "report", "seconds", "kept"
HOST = "hostname"
"""What Tune itself adds to a report."""
LOST = "its process was lost"
