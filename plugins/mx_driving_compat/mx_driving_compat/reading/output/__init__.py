"""Writes the declarations that were read from a ``patch.py`` as the files of a plugin."""
