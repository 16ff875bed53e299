"""Features that ship with patchcore, one plugin per folder. They use the hooks that third parties use."""
