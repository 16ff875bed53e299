"""Running programs with patches applied."""
