"""The predefined patches of numpy."""

from mx_driving_compat.predefined.classes import public_names

_names = public_names("numpy_patch")
globals().update(_names)
__all__ = list(_names)
