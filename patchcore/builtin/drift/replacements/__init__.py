"""Reads the replacements of patches from their sources: copies of originals, calls they take, names they read."""
