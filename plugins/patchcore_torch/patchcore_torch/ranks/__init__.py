"""Compares the patches of the ranks of a job, when their process group is initialised."""
