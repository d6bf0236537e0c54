"""Other ways in which the ranks of a training may share it than by exchanging gradients at each step."""
