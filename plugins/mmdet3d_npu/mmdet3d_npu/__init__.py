"""Patches for mmdet3d on Ascend NPUs. Importing this package imports neither mmdet3d nor torch."""
