"""The declaration of a workload: its card, read without its code."""
