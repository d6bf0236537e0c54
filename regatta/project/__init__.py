"""What a person's project is."""
