"""The tests of libraries themselves, on the CPU and on the emulated NPU: ``python -m tools.library_tests``."""
