"""Runnable examples; a sub-package is started with ``python -m examples.NAME``, ``adoption`` has a page."""
