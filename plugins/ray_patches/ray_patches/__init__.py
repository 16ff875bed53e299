"""Workers that a Ray cluster starts take part in a run of patchcore."""
