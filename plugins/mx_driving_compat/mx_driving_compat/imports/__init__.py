"""Changes of imports that migrations make: stubs, other modules, and imports that wait for the first call."""
