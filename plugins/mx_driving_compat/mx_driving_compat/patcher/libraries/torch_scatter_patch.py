"""The predefined patches of torch_scatter."""

from mx_driving_compat.predefined.classes import public_names

_names = public_names("torch_scatter_patch")
globals().update(_names)
__all__ = list(_names)
