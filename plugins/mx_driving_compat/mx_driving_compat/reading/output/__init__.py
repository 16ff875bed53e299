"""Writes what was read from a `patch.py` as the files of a plugin."""
