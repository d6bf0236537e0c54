"""Parts under Spark: ranks that Spark's own TorchDistributor starts, and what they say to their driver."""
