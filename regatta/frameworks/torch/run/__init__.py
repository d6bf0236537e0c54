"""Files that go with a run to its nodes."""
