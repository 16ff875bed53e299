"""The predefined patches of mmdet3d."""

from mx_driving_compat.predefined.classes import public_names

_names = public_names("mmdet3d_patch")
globals().update(_names)
__all__ = list(_names)
