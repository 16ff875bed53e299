"""The kinds of patches that migrations declare, each carried out by a patch of patchcore."""
