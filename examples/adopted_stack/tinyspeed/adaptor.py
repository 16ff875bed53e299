"""Importing this module patches tinymegatron, as ``import mindspeed.megatron_adaptor`` patches Megatron."""

import tinymegatron.training  # noqa: F401  # all modules that the patches reach are loaded
from tinymegatron.arguments import get_args

from tinyspeed.features import FEATURES
from tinyspeed.patch_utils import PatchesManager

for feature in FEATURES:
    feature(get_args())
PatchesManager.apply_patches()
