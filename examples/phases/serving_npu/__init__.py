"""The patches of :mod:`serving` for an NPU."""
