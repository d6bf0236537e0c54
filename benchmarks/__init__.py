"""Commands that measure the figures in docs/results."""
