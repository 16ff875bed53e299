"""Patches for transformers on Ascend NPUs. Importing this package imports neither transformers nor torch."""
