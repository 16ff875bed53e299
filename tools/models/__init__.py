"""Which stock models train on the emulated NPU: ``python -m tools.models`` trains them and writes docs/models.md."""
