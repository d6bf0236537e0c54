"""The hosts of a cluster: its inventory, SSH, requests to nodes, and the routes that bytes take."""
