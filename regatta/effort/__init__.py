"""The effort that a framework takes: code beyond the plain loop, packages, services, steps, what one sees meanwhile."""
