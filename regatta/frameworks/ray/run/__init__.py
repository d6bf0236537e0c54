"""What goes with a run to its nodes."""
