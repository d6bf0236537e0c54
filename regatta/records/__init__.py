"""What a run leaves: events, times, its record; and what records say side by side."""
