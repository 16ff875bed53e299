"""Speed of patchcore against the alternatives, each pair measured side by side in one run: ``python -m benchmarks``."""
