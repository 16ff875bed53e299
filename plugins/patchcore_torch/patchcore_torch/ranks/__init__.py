"""Compares what the ranks of a job patch, when their process group is initialised."""
