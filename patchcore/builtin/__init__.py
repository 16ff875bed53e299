"""What ships with patchcore and knows a library: the core names these modules as text, and imports none of them."""
