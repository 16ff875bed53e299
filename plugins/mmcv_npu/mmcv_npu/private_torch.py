"""The private names of torch that mmcv-npu-patches uses, each looked up whenever it is used.

A release of torch may drop one. This module and the targets of patches are all that has to be read then; a test looks
each name up (tests/integration/test_private_names_of_torch.py).
"""

from __future__ import annotations

from patchcore.plugin import private_name_getter

#: Where each name is, by the name that this module has for it.
NAMES = {
    "get_stream": "torch.nn.parallel._functions:_get_stream",
}

__getattr__ = private_name_getter(NAMES, "mmcv-npu-patches")
