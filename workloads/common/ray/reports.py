"""Keys of what a trial reports to Tune, and the error of one whose process is lost."""

POINT, REPORT, SECONDS, KEPT = "point", "report", "seconds", "kept"
HOST = "hostname"
"""The fields that Tune itself adds to a report."""
LOST = "its process was lost"
