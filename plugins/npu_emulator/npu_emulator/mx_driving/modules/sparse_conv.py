"""Sparse convolutions (mx-driving 26.2, ``mx_driving/modules/sparse_conv.py``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional, Union

import torch
from torch import Tensor, nn
from torch.nn import init

from npu_emulator import limits
from npu_emulator.mx_driving._rulebook import Rulebook, Window, output_shape, strided, submanifold
from npu_emulator.mx_driving.modules.sparse_modules import SparseModule
from npu_emulator.mx_driving.modules.sparse_structure import IndiceData, SparseConvTensor
from npu_emulator.mx_driving.ops.sparse_functional import sparse_convolution

Size = Union[int, Sequence[int]]


class SparseConvolution(SparseModule):
    """Convolution of a sparse tensor; the base class of all others, and a layer by itself.

    The weight has the shape (kx, ky, kz, c_in, c_out), as in mmcv 2.1.0. Axes are those of the indices.

    Args:
        ndim: number of axes; 3 is the only one that has a kernel.
        in_channels: number of channels.
        out_channels: number of channels.
        kernel_size: one number, or one per axis; so are stride, padding, dilation and output_padding.
        stride: in voxels.
        padding: in voxels; a submanifold convolution pads by half its kernel whatever is given here.
        dilation: in voxels; 1 on the device.
        groups: 1.
        bias: whether there is one.
        subm: submanifold convolution: the outputs are where the inputs are.
        output_padding: kept, not used, as in mx_driving.
        transposed: likewise.
        inverse: undo the convolution that has the same ``indice_key``: the outputs are where its inputs were.
        indice_key: name under which the layer leaves for others, or finds, which input goes where.
        fused_bn: kept, not used, as in mx_driving.
        mode: ``mmcv`` initialises the weight as mmcv does, anything else as spconv 2 does.

    Raises:
        ValueError: groups is not 1, or stride and dilation are both above 1 on an axis.
    """

    def __init__(
        self,
        ndim: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Size = 3,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        subm: bool = False,
        output_padding: Size = 0,
        transposed: bool = False,
        inverse: bool = False,
        indice_key: Optional[str] = None,
        fused_bn: bool = False,
        mode: str = "mmcv",
    ) -> None:
        super().__init__()
        if groups != 1:
            raise ValueError(f"mx_driving.{self._kernel(subm, inverse)}: expected groups=1, found {groups}")
        self.ndim = ndim
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _per_axis(kernel_size, ndim)
        self.stride = _per_axis(stride, ndim)
        self.padding = _per_axis(padding, ndim)
        self.dilation = _per_axis(dilation, ndim)
        self.output_padding = _per_axis(output_padding, ndim)
        if any(step > 1 and gap > 1 for step, gap in zip(self.stride, self.dilation)):
            raise ValueError(
                f"mx_driving.{self._kernel(subm, inverse)}: expected stride 1 or dilation 1 on every axis, "
                f"found stride {self.stride} and dilation {self.dilation}"
            )
        self.conv1x1 = math.prod(self.kernel_size) == 1
        self.transposed = transposed
        self.inverse = inverse
        self.groups = groups
        self.subm = subm
        self.indice_key = indice_key
        self.fused_bn = fused_bn
        self.mode = mode

        self.weight = nn.Parameter(torch.empty(*self.kernel_size, in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise weight and bias uniformly (He et al., arXiv:1502.01852, with a=sqrt(5)).

        The two modes differ in the number of inputs that they count: spconv takes the channels times the taps, mmcv
        the number that ``torch.nn.init.kaiming_uniform_`` computes from the shape of the weight.
        """
        fan_in = math.prod(self.kernel_size) * self.in_channels
        bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
        if self.mode == "mmcv":
            init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        else:
            init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input_: SparseConvTensor) -> SparseConvTensor:
        """Convolve.

        Args:
            input_: features of shape (n, in_channels), no place twice.

        Returns:
            A sparse tensor whose places are, in ascending order, all that an input reaches; those of the input if
            submanifold; those of the input of the convolution that is undone if inverse.

        Raises:
            LimitError: the arguments are outside the limits of the device.
            TypeError: the input is no SparseConvTensor of mx_driving.
            ValueError: the input does not fit the layer, or nothing that fits was left under ``indice_key``.
        """
        kernel = self._kernel(self.subm, self.inverse)
        _check_input(kernel, input_, self.in_channels)
        self._require_limits(kernel, input_)
        if self.inverse:
            rulebook, indices, spatial_shape = self._inverse_rulebook(kernel, input_)
        elif self.subm:
            indices, spatial_shape = input_.indices, [int(size) for size in input_.spatial_shape]
            rulebook = self._submanifold_rulebook(kernel, input_)
        else:
            spatial_shape = output_shape(input_.spatial_shape, self._window(self.padding))
            rulebook, indices = strided(input_.indices, spatial_shape, input_.batch_size, self._window(self.padding))
            self._leave(input_, rulebook)

        features = sparse_convolution(input_.features, self.weight.to(input_.features.dtype), rulebook, kernel)
        if self.bias is not None:
            features = features + self.bias
        output = SparseConvTensor(features, indices, spatial_shape, input_.batch_size)
        output.indice_dict = input_.indice_dict.copy()
        return output

    def _submanifold_rulebook(self, kernel: str, input_: SparseConvTensor) -> Rulebook:
        found = input_.find_indice_pair(self.indice_key)
        if found is None:
            half = tuple(size // 2 * gap for size, gap in zip(self.kernel_size, self.dilation))
            rulebook = submanifold(input_.indices, input_.spatial_shape, self._window(half))
            self._leave(input_, rulebook)
            return rulebook
        if not found.is_subm:
            raise ValueError(
                f"mx_driving.{kernel}: expected indice_key '{self.indice_key}' to be that of a "
                "submanifold convolution, found another kind of layer; give this layer a key of its own"
            )
        self._check_found(kernel, found, found.rulebook.sources, input_)
        return found.rulebook

    def _inverse_rulebook(self, kernel: str, input_: SparseConvTensor) -> tuple[Rulebook, Tensor, Sequence[int]]:
        found = input_.find_indice_pair(self.indice_key)
        if found is None or found.is_subm:
            raise ValueError(
                f"mx_driving.{kernel}: expected a SparseConv3d with indice_key '{self.indice_key}' earlier in the "
                f"network, found the keys {sorted(input_.indice_dict)}"
            )
        self._check_found(kernel, found, found.rulebook.targets, input_)
        return found.rulebook.inverted(), found.origin_indices, found.origin_spatial_shape

    def _check_found(self, kernel: str, found: IndiceData, places: int, input_: SparseConvTensor) -> None:
        if found.kernel_size != self.kernel_size or places != len(input_.features):
            raise ValueError(
                f"mx_driving.{kernel}: expected kernel {tuple(found.kernel_size)} and places: {places}, as in the "
                f"layer that made indice_key '{self.indice_key}', found kernel {self.kernel_size} and places: "
                f"{len(input_.features)}"
            )

    def _leave(self, input_: SparseConvTensor, rulebook: Rulebook) -> None:
        if self.indice_key is not None:
            input_.indice_dict[self.indice_key] = IndiceData(
                input_.spatial_shape, input_.indices, self.kernel_size, rulebook, self.subm
            )

    def _window(self, padding: Sequence[int]) -> Window:
        return Window(self.kernel_size, self.stride, tuple(padding), self.dilation)

    def _require_limits(self, kernel: str, input_: SparseConvTensor) -> None:
        sizes = (1, 3) if self.subm else (1, 2, 3)
        fits = all(size in sizes for size in self.kernel_size)
        limits.require(fits, kernel, f"a kernel_size of {' or '.join(map(str, sizes))}", self.kernel_size)
        limits.require(all(gap == 1 for gap in self.dilation), kernel, "dilation=1", self.dilation)
        limits.require(input_.indices.dtype == torch.int32, kernel, "indices of int32", input_.indices.dtype)
        if self.subm:
            limits.require(all(step == 1 for step in self.stride), kernel, "stride=1", self.stride)
        if self.inverse:
            channels = (self.in_channels, self.out_channels)
            fits = all(number % 8 == 0 for number in channels)
            limits.require(fits, kernel, "multiples of 8 input and output channels", channels)

    @staticmethod
    def _kernel(subm: bool, inverse: bool) -> str:
        """Return the name under which calls are counted, and with which messages begin."""
        if inverse:
            return "SparseInverseConv3d"
        return "SubMConv3d" if subm else "SparseConv3d"


class _SparseConvolution3d(SparseConvolution):
    """The base of the three classes below: the arguments, three axes, and the kind as a class attribute."""

    _subm = False
    _inverse = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        indice_key: Optional[str] = None,
        mode: str = "mmcv",
    ) -> None:
        super().__init__(
            3,
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            subm=self._subm,
            inverse=self._inverse,
            indice_key=indice_key,
            mode=mode,
        )


class SparseConv3d(_SparseConvolution3d):
    """Convolution whose outputs are everywhere that an input reaches; see :class:`SparseConvolution`."""


class SubMConv3d(_SparseConvolution3d):
    """Convolution whose outputs are where the inputs are; see :class:`SparseConvolution`."""

    _subm = True


class SparseInverseConv3d(_SparseConvolution3d):
    """Transposed convolution back to the places before a :class:`SparseConv3d` of the same ``indice_key``.

    The arguments are those of mx_driving; mmcv's class has ``indice_key`` and ``bias`` in fourth and fifth place.
    Stride, padding and dilation come from the convolution that is undone.
    """

    _inverse = True


def _per_axis(value: Size, ndim: int) -> tuple[int, ...]:
    return (value,) * ndim if isinstance(value, int) else tuple(value)


def _check_input(kernel: str, input_: SparseConvTensor, in_channels: int) -> None:
    if not isinstance(input_, SparseConvTensor):
        raise TypeError(
            f"mx_driving.{kernel}: expected a SparseConvTensor of mx_driving, found "
            f"{type(input_).__module__}.{type(input_).__qualname__}"
        )
    features, indices = tuple(input_.features.shape), tuple(input_.indices.shape)
    if len(features) != 2 or features[1] != in_channels or indices != (features[0], 4):
        raise ValueError(
            f"mx_driving.{kernel}: expected features of shape (n, {in_channels}) and indices of shape (n, 4), found "
            f"{features} and {indices}"
        )
