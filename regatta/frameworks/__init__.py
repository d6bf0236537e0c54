"""The differences between frameworks when a run starts and when it fails."""
