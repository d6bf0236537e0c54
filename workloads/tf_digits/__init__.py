"""The same two networks in TensorFlow and in torch, on the same samples in the same order."""
