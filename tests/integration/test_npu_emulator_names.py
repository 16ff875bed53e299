"""The stand-ins have the names, places and parameters of the real package (mx-driving 26.2)."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")

#: Parameters by position, as in the sources of mx-driving 26.2; a Function's are those of its forward, without ctx.
PARAMETERS = {
    "SparseConvTensor": "features indices spatial_shape batch_size grid",
    "SparseConvolution": (
        "ndim in_channels out_channels kernel_size stride padding dilation groups bias subm output_padding transposed "
        "inverse indice_key fused_bn mode"
    ),
    "SubMConv3d": "in_channels out_channels kernel_size stride padding dilation groups bias indice_key mode",
    "SparseConv3d": "in_channels out_channels kernel_size stride padding dilation groups bias indice_key mode",
    "SparseInverseConv3d": "in_channels out_channels kernel_size stride padding dilation groups bias indice_key mode",
    "Voxelization": "voxel_size point_cloud_range max_num_points max_voxels deterministic layout",
    "voxelization": "points voxel_size coors_range max_points max_voxels deterministic layout",
    "bev_pool": "feat geom_feat B D H W",
    "bev_pool_v2": "depth feat ranks_depth ranks_feat ranks_bev bev_feat_shape interval_starts interval_lengths",
    "bev_pool_v3": "depth feat ranks_depth ranks_feat ranks_bev bev_feat_shape",
    "boxes_iou_bev": "boxes_a boxes_b",
    "boxes_overlap_bev": "boxes_a boxes_b",
    "deformable_aggregation": "mc_ms_feat spatial_shape scale_start_index sampling_location weights",
    "deform_conv2d": "x offset weight stride padding dilation groups deformable_groups bias im2col_step",
    "dynamic_scatter": "feats coors reduce_type",
    "furthest_point_sampling": "point_xyz num_points",
    "fused_adamw_custom": (
        "combined_param combined_grad exp_avg exp_avg_sq max_exp_avg_sq lr beta1 beta2 weight_decay eps step amsgrad"
    ),
    "geometric_kernel_attention": "value spatial_shapes level_start_index sampling_locations attention_weights",
    "group_points": "features indices",
    "knn": "k xyz center_xyz transposed",
    "modulated_deform_conv2d": "x offset mask weight bias stride padding dilation groups deformable_groups",
    "multi_scale_deformable_attn": (
        "value value_spatial_shapes value_level_start_index sampling_locations attention_weights kwargs"
    ),
    "nms3d": "boxes scores iou_threshold",
    "nms3d_normal": "boxes scores iou_threshold",
    "npu_batch_matmul": "projection_mat pts_extend",
    "npu_max_pool2d": "x kernel_size stride padding",
    "npu_multi_scale_deformable_attn_function": "value shape offset locations weight",
    "points_in_box": "boxes pts",
    "points_in_boxes_all": "boxes pts",
    "roi_align_rotated": ("feature_map rois spatial_scale sampling_ratio pooled_height pooled_width aligned clockwise"),
    "scatter_add": "src index out dim dim_size",
    "scatter_max": "updates indices out",
    "scatter_mean": "src index out dim dim_size",
    "sigmoid_focal_loss": "logit target gamma alpha weight reduction",
    "three_nn": "target source",
}

#: What patches and programs import from submodules.
PLACES = {
    "_C": ("hard_voxelize", "dynamic_voxelization"),
    "common": ("knn", "scatter_max", "scatter_mean", "three_nn"),
    "detection": ("boxes_overlap_bev", "nms3d", "nms3d_normal", "npu_boxes_overlap_bev", "roi_align_rotated"),
    "fused": ("DeformConv2dFunction", "ModulatedDeformConv2dFunction", "npu_add_relu", "npu_max_pool2d"),
    "point": ("Voxelization", "bev_pool_v3", "furthest_point_sampling", "group_points", "voxelization"),
    "preprocess": ("npu_points_in_box", "npu_points_in_box_all", "points_in_boxes_all"),
    "modules.sparse_conv": ("SparseConvolution", "SubMConv3d", "SparseConv3d", "SparseInverseConv3d"),
    "modules.sparse_modules": ("SparseModule", "SparseSequential", "SparseConvTensor", "ToDense", "RemoveGrid"),
    "modules.sparse_structure": ("SparseConvTensor",),
    "modules.voxelization": ("Voxelization",),
    "ops.sigmoid_focal_loss": ("SigmoidFocalLossFunction", "sigmoid_focal_loss"),
    "ops.scatter_add": ("ScatterAddFunction",),
    "ops.scatter_mean": ("ScatterMeanFunction",),
    "ops.scatter_max": ("ScatterMaxFunction",),
    "ops.voxelization": ("_Voxelization",),
}


def parameters(kernel: object) -> list[str]:
    """Names of the parameters by position."""
    function = getattr(kernel, "__self__", None)  # apply is bound to its Function
    if function is None:
        return list(inspect.signature(kernel).parameters)
    return list(inspect.signature(function.forward).parameters)[1:]


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(mx_driving: ModuleType, name: str) -> None:
    assert parameters(getattr(mx_driving, name)) == PARAMETERS[name].split()


def test_parameters_of_the_compiled_module(mx_driving: ModuleType) -> None:
    compiled = importlib.import_module("npu_emulator.mx_driving._C")
    names = ["points", "voxel_sizes", "coor_ranges", "max_points", "max_voxels", "layout"]
    assert parameters(compiled.hard_voxelize) == names
    assert len(parameters(compiled.dynamic_voxelization)) == 11


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.filterwarnings("ignore:mx_driving.* is deprecated:DeprecationWarning")
def test_places(mx_driving: ModuleType, place: str) -> None:
    module = importlib.import_module(f"npu_emulator.mx_driving.{place}")
    assert all(callable(getattr(module, name)) for name in PLACES[place])


def test_every_name_resolves(mx_driving: ModuleType) -> None:
    assert all(callable(getattr(mx_driving, name)) for name in mx_driving.__all__ if name != "calls")
    assert set(PARAMETERS) < set(mx_driving.__all__) <= set(dir(mx_driving))
    with pytest.raises(
        AttributeError, match=r"mx_driving\.hungarian_match has no stand-in in npu_emulator; there are: "
    ):
        _ = mx_driving.hungarian_match


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("from mx_driving import three_interpolate", "mx_driving is emulated here and lacks that name"),
        ("from torch_npu import npu_gru", "torch_npu is emulated here and lacks that name"),
        ("from mx_driving import default_patcher_builder", "patchcore run --compat mx_driving provides the patcher"),
    ],
)
def test_a_run_that_ends_without_a_name_names_the_limit(line: str, advice: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(line)
    command = [sys.executable, "-m", "patchcore", "run", "--emulate-npu=imitation", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 1
    assert f"patchcore: {advice}" in done.stderr


def test_the_patcher_is_that_of_the_run() -> None:
    program = "from mx_driving import default_patcher_builder, patch_mmcv_version"
    command = [sys.executable, "-m", "patchcore", "run", "--emulate-npu=imitation", "--compat", "mx_driving", "--"]
    done = subprocess.run([*command, sys.executable, "-c", program], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr


def test_looking_for_submodules_imports_no_torch() -> None:
    program = (
        "import importlib.util, sys, npu_emulator.mx_driving as mx\n"
        "for name in ('spconv', '_C', 'modules', 'ops'):\n"
        "    assert importlib.util.find_spec('npu_emulator.mx_driving.' + name), name\n"
        "dir(mx)\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=900, check=True)
    assert done.stdout == "False\n"
