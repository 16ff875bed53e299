"""The sparse convolutions of mx_driving with mmcv's arguments and behaviour, for the patch ``mmcv.spconv3d``.

mx_driving (distribution mx-driving 26.2, ``mx_driving/modules/sparse_conv.py``) has classes of the same names. Weights
have mmcv's shape (kx, ky, kz, in channels, out channels) and are initialised in mmcv's way, so that checkpoints and
seeds keep their meaning. The differences are evened out here. mmcv's containers stay: the layers derive from mmcv's
``SparseModule`` too, by which mmcv and mmdet3d tell them from layers that take plain tensors.

Importing this module imports mmcv and mx_driving; the patch does so when mmcv's own classes are there.
"""

from __future__ import annotations

from typing import Any, Optional

import mx_driving
from mmcv.ops import sparse_conv
from mmcv.ops.sparse_modules import SparseModule

from mmcv_npu import kernels

__all__ = ["SparseConv3d", "SparseConvolution", "SparseInverseConv3d", "SubMConv3d"]

# the function, because the patch replaces the class
_forward_of_mmcv = sparse_conv.SparseConvolution.forward


class SparseConvolution(mx_driving.SparseConvolution, SparseModule):
    """Sparse convolution along three axes; arguments as of mmcv's class of this name."""

    def forward(self, input_: Any) -> Any:
        """Convolve, by the kernels where they compute the same as mmcv, else by mmcv's own code.

        Args:
            input_: ``mx_driving.SparseConvTensor`` with features (n, in channels) and int32 indices (n, 4).

        Returns:
            A sparse tensor. A strided convolution orders its rows by their places; mmcv's CUDA kernel gives no order.
        """
        if not self._fits(input_):
            return _forward_of_mmcv(self, input_)
        output = super().forward(input_)
        # one for the whole network, as in mmcv: mx_driving gives each output a copy, which lacks later entries
        output.indice_dict = input_.indice_dict
        return output

    def _fits(self, input_: Any) -> bool:
        """Return whether mx_driving computes this layer; it has arguments that it does not hand to its kernels.

        With one tap mmcv multiplies each row by the weight, whatever the stride. mx_driving would order the rows anew,
        and a residual block adds features row by row.
        """
        return (
            kernels.takes(input_.features)
            and self.ndim == 3
            and not self.conv1x1
            and not self.transposed
            and all(gap == 1 for gap in self.dilation)
        )


class SubMConv3d(SparseConvolution, mx_driving.SubMConv3d):
    """Submanifold convolution: the outputs are at the places of the inputs. Arguments as of mmcv's class."""


class SparseConv3d(SparseConvolution, mx_driving.SparseConv3d):
    """Convolution whose outputs are wherever an input reaches. Arguments as of mmcv's class."""


class SparseInverseConv3d(SparseConvolution, mx_driving.SparseInverseConv3d):
    """Transposed convolution back to the places before the ``SparseConv3d`` of the same key.

    Args:
        in_channels: number of channels, a multiple of 8 for the kernel.
        out_channels: likewise.
        kernel_size: that of the convolution that is undone.
        indice_key: the key of that convolution. Fourth as in mmcv; in mx_driving's class that is the stride.
        bias: whether there is one.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, indice_key: Optional[str] = None, bias: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, bias=bias, indice_key=indice_key)
