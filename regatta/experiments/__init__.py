"""Options, inputs and plans of Regatta's own workloads."""
