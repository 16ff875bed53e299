"""The plan: which patches are applied here, in which order, and why. Nothing here changes anything."""
