"""What a run leaves: events, clocks, its record; and what records say side by side."""
