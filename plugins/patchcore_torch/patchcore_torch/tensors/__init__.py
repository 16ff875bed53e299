"""How ``patchcore verify`` makes calls with tensors and arrays, and compares the results."""
