"""Output to a person, and questions."""
