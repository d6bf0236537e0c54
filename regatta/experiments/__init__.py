"""What Regatta's own workloads are asked: their options, inputs and plans."""
