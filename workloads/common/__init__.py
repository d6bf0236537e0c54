"""What every workload shares: events, ranks, one copy of the input a host, and the spread over Ray actors."""
