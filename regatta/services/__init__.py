"""The services of a cluster, as the parts next to their roles declare them."""
