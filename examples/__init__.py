"""Runnable examples; each sub-package is one, started with ``python -m examples.NAME``."""
