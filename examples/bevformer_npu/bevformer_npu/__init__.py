"""Patches that move a BEVFormer to Ascend NPUs, besides those of the libraries. Importing it imports no library."""
