"""Patches for torch and numpy on Ascend NPUs. Importing this package imports neither."""
