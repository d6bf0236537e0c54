"""Binary classification of a table: star or galaxy."""
