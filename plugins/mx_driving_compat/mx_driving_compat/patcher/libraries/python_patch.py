"""The predefined patches of the standard library."""

from mx_driving_compat.predefined.classes import public_names

_names = public_names("python_patch")
globals().update(_names)
__all__ = list(_names)
