"""A search for the best training of the digits' network."""
