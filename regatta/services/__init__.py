"""The services of a cluster, as the parts beside their roles declare them."""
