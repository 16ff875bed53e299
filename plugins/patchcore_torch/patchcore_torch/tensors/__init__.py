"""Makes the calls of ``patchcore verify`` with tensors and arrays, and compares the results."""
