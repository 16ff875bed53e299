"""Patches for mmcv, mmengine and mmdet on Ascend NPUs. Importing this package imports none of them."""
