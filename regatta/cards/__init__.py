"""What a workload declares of itself: its card, read without its code."""
