"""PyTorch distributed."""
