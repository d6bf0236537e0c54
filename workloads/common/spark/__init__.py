"""Parts under Spark: ranks that its TorchDistributor starts, or the jobs of a part that only the driver has."""
