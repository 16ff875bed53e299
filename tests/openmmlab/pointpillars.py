"""PointPillars, configured as small as its parts allow, for mmdet3d 1.0 and 1.4.

As in mmdet3d's ``configs/_base_/models/pointpillars_hv_secfpn_kitti.py``, with velocities for nuScenes, and with
deformable convolutions in the backbone: of 64 channels, the fewest that the kernel takes.
"""

from __future__ import annotations

from typing import Any

from nuscenes_sample import CLASSES, POINT_CLOUD_RANGE, SIZES

#: Metres; one voxel along z makes it a pillar.
VOXEL_SIZE = [0.5, 0.5, 4.0]
#: Pillars along x and y.
GRID = (32, 32)
CHANNELS = 64

#: The classification loss of the original, and one that is made of torch's operators alone.
FOCAL = {"type": "FocalLoss", "use_sigmoid": True, "gamma": 2.0, "alpha": 0.25, "loss_weight": 1.0}
CROSS_ENTROPY = {"type": "CrossEntropyLoss", "use_sigmoid": True, "loss_weight": 1.0}
LOSSES = {"focal": FOCAL, "cross_entropy": CROSS_ENTROPY}


def pointpillars(loss: str, major: int) -> dict[str, Any]:
    """Return the configuration of the detector.

    Args:
        loss: one of :data:`LOSSES`.
        major: 1 for mmdet3d 1.0, 2 for later versions.
    """
    voxel_layer = {
        "max_num_points": 8,
        "point_cloud_range": POINT_CLOUD_RANGE,
        "voxel_size": VOXEL_SIZE,
        "max_voxels": (300, 300),
    }
    scope, voxels = ("", {"voxel_layer": voxel_layer})
    if major == 2:
        preprocessor = {"type": "Det3DDataPreprocessor", "voxel": True, "voxel_layer": voxel_layer}
        scope, voxels = ("mmdet.", {"data_preprocessor": preprocessor})
    return {
        "type": "VoxelNet",
        **voxels,
        "voxel_encoder": {
            "type": "PillarFeatureNet",
            "in_channels": 5,
            "feat_channels": [CHANNELS],
            "with_distance": False,
            "voxel_size": VOXEL_SIZE,
            "point_cloud_range": POINT_CLOUD_RANGE,
        },
        "middle_encoder": {"type": "PointPillarsScatter", "in_channels": CHANNELS, "output_shape": GRID},
        "backbone": {
            "type": "SECOND",
            "in_channels": CHANNELS,
            "out_channels": [CHANNELS, CHANNELS],
            "layer_nums": [0, 0],
            "layer_strides": [2, 2],
            "conv_cfg": {"type": "DCN", "bias": False},
        },
        "neck": {
            "type": "SECONDFPN",
            "in_channels": [CHANNELS, CHANNELS],
            "out_channels": [16, 16],
            "upsample_strides": [1, 2],
        },
        "bbox_head": {
            "type": "Anchor3DHead",
            "num_classes": len(CLASSES),
            "in_channels": 32,
            "feat_channels": 32,
            "use_direction_classifier": True,
            "anchor_generator": {
                "type": "AlignedAnchor3DRangeGenerator",
                "ranges": [[*POINT_CLOUD_RANGE[:2], -2.5, *POINT_CLOUD_RANGE[3:5], -2.5] for _ in CLASSES],
                "sizes": [list(SIZES[name]) for name in CLASSES],
                "custom_values": [0, 0],
                "rotations": [0, 1.57],
                "reshape_out": True,
            },
            "diff_rad_by_sin": True,
            "bbox_coder": {"type": "DeltaXYZWLHRBBoxCoder", "code_size": 9},
            "loss_cls": {**LOSSES[loss], "type": scope + LOSSES[loss]["type"]},
            "loss_bbox": {"type": f"{scope}SmoothL1Loss", "beta": 1 / 9, "loss_weight": 2.0},
            "loss_dir": {"type": f"{scope}CrossEntropyLoss", "use_sigmoid": False, "loss_weight": 0.2},
        },
        "train_cfg": {
            "assigner": {
                "type": "Max3DIoUAssigner" if major == 2 else "MaxIoUAssigner",
                "iou_calculator": {"type": "BboxOverlapsNearest3D"},
                "pos_iou_thr": 0.5,
                "neg_iou_thr": 0.3,
                "min_pos_iou": 0.3,
                "ignore_iof_thr": -1,
            },
            "sampler": {"type": "PseudoSampler"},
            "allowed_border": 0,
            "code_weight": [1.0] * 7 + [0.2] * 2,
            "pos_weight": -1,
            "debug": False,
        },
        "test_cfg": {
            # mmcv hands the other kind to its kernel for NPUs with angles in degrees; emulated, its CPU kernel runs
            "use_rotate_nms": False,
            "nms_across_levels": False,
            "nms_thr": 0.25,
            "score_thr": 0.0,
            "min_bbox_size": 0,
            "nms_pre": 50,
            "max_num": 20,
        },
    }
