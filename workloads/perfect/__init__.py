"""Perfect numbers below a bound, by the sum of their divisors: see docs/reference/workloads/items.md."""
