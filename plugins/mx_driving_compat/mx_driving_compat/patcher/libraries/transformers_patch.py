"""The predefined patches of transformers."""

from mx_driving_compat.predefined.classes import public_names

_names = public_names("transformers_patch")
globals().update(_names)
__all__ = list(_names)
