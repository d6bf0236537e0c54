"""Networks for pictures and texts, as a published study of deep learning over cores and nodes has them."""
