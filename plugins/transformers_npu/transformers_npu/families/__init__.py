"""Families: what the functions of modeling modules compute, and the kernels that compute the same."""
