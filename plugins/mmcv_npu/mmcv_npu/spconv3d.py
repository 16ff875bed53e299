"""Sparse convolution on the kernels of mx_driving.

The sparse tensor and the convolutions become those of mx_driving, the latter through
:mod:`mmcv_npu.sparse_convolution`. Re-exports in ``mmcv.ops``, the entries of the conv registry (mmcv 1.x:
``mmcv.cnn:CONV_LAYERS``, mmcv 2.x: ``mmengine.registry:MODELS``) and names taken by value follow these targets; the
registry gets no change of its own, because mmcv registers its classes itself and refuses to do so where an entry is.

mmcv's ``SparseModule`` and ``SparseSequential`` stay. They run no kernel, and models derive from them: classes that are
defined before the patch, or while it is in force, work with it and after it is reverted.
"""

from __future__ import annotations

import patchcore as pc
from mmcv_npu import kernels

_LAYERS = ("SparseConvolution", "SubMConv3d", "SparseConv3d", "SparseInverseConv3d")

SPCONV3D = pc.Patch(
    "mmcv.spconv3d",
    [
        pc.Replace("mmcv.ops.sparse_structure:SparseConvTensor", "mx_driving:SparseConvTensor"),
        *(pc.Replace(f"mmcv.ops.sparse_conv:{name}", f"mmcv_npu.sparse_convolution:{name}") for name in _LAYERS),
    ],
    summary="3D sparse convolutions on the kernels of mx_driving",
    requires="mmcv>=1.5,<3",
    when=kernels.operators_are_built,
    needs="mx_driving",
    legacy_names=["spconv3d", "SparseConv3D"],
    checks=[
        # sums of up to 540 float32 products, in another order than the dense convolution's
        *(
            pc.Check(f"mmcv_npu.checks.spconv3d:{name}", dtypes={"float32": 1e-5, "float16": 1e-2})
            for name in ("submanifold", "strided", "inverse")
        ),
        pc.Check("mmcv_npu.checks.spconv3d:pointwise", dtypes={"float32": 1e-6, "float16": 1e-2}),
    ],
)
