"""Image classification of handwritten digits."""
