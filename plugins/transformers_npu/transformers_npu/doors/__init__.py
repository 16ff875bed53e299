"""Attention and experts, through the interfaces in which transformers looks functions up by name."""
