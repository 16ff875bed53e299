"""What a team wants of patches on its cluster, as a plugin that implements every hook of patchcore."""
