"""Stand-in for the package ``mx_driving`` (distribution mx-driving 26.2): the kernels that patches use, on any device.

Names, argument order and what backward returns are those of the real package; see each module of
:mod:`npu_emulator.mx_driving.ops`. Names are resolved at first use, so that importing this package, as
``importlib.util.find_spec`` does to look for a submodule, does not import torch.

Attributes:
    calls: a :class:`collections.Counter` of kernel runs, by kernel name; the backward pass of a kernel counts under
        ``<name>_backward``. ``calls.clear()`` resets it.
"""

from __future__ import annotations

import importlib
from typing import Any

from npu_emulator.mx_driving._counting import calls

__emulated__ = True

_MODULE_OF = {
    "DeformConv2dFunction": "deform_conv2d",
    "deform_conv2d": "deform_conv2d",
    "ModulatedDeformConv2dFunction": "modulated_deform_conv2d",
    "modulated_deform_conv2d": "modulated_deform_conv2d",
    "MultiScaleDeformableAttnFunction": "multi_scale_deformable_attn",
    "multi_scale_deformable_attn": "multi_scale_deformable_attn",
    "npu_add_relu": "npu_add_relu",
    "npu_max_pool2d": "npu_max_pool2d",
}

__all__ = ["calls", *_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(
            f"mx_driving.{name} has no stand-in in npu_emulator; there are: {', '.join(sorted(_MODULE_OF))}"
        )
    kernel = getattr(importlib.import_module(f"{__name__}.ops.{_MODULE_OF[name]}"), name)
    globals()[name] = kernel
    return kernel


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
