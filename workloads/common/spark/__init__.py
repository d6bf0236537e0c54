"""Parts under Spark."""
