"""What runs on the nodes: workloads that say what they did in events, and never import fabric, ansible or regatta."""
