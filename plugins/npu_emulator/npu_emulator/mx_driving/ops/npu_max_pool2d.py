"""Max pooling for inference (mx-driving 26.2, ``mx_driving/ops/npu_max_pool2d.py``)."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import max_pool2d

from npu_emulator import limits
from npu_emulator.mx_driving._counting import calls


class MaxPool2d(Function):
    """Max pooling without a backward pass, as in mx_driving on Ascend 910: autograd raises when it gets here."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel_size: int, stride: int, padding: int) -> Tensor:
        """Pool; see :func:`npu_max_pool2d`."""
        return max_pool2d(x, kernel_size, stride, padding)


def npu_max_pool2d(x: Tensor, kernel_size: int, stride: int, padding: int) -> Tensor:
    """Take the maximum of each window.

    Args:
        x: shape (n, c, h, w); on the device c is at most 1024 and, from 64 on, a multiple of 8. (mx_driving's page
            also asks for h and w above 100; neither its code nor its tests hold to that, and so it is no limit here.)
        kernel_size: 3 on the device.
        stride: 2 on the device.
        padding: 1 on the device.

    Returns:
        Shape (n, c, h_out, w_out). It can not be differentiated.

    Raises:
        LimitError: the arguments are outside the limits of the device.
    """
    window = (kernel_size, stride, padding)
    limits.require(window == (3, 2, 1), "npu_max_pool2d", "kernel_size, stride, padding = (3, 2, 1)", window)
    channels = x.shape[1]
    fits = channels <= 1024 and (channels < 64 or channels % 8 == 0)
    limits.require(fits, "npu_max_pool2d", "up to 1024 channels, a multiple of 8 from 64 on", channels)
    calls["npu_max_pool2d"] += 1
    return MaxPool2d.apply(x, kernel_size, stride, padding)
