"""The predefined patches of torch and torch_npu."""

from mx_driving_compat.predefined.classes import public_names

_names = public_names("torch_patch")
globals().update(_names)
__all__ = list(_names)
