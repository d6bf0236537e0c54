"""Image classification on CIFAR-10 by networks of the literature."""
