"""Two small stock mmdet detectors, as the plain dictionaries an mmdet configuration file holds.

Both follow mmdet 3.3's own configuration files, shrunk until an iteration takes a fraction of a second on one CPU
core, and start from random weights, so that nothing is downloaded. Between them they go through what a migration
patches: deformable convolution (``DCN`` in the backbone, ``DCNv2`` in the head), multi-scale deformable attention,
``Bottleneck`` and ``BasicBlock``, and the max pooling of the ResNet stem, once below a frozen stem (its input needs no
gradient) and once below a trained one.

They are conditioned so that the losses of two runs can be compared: rounding in one of these kernels stays rounding,
while a kernel that computes something else shows (``tests/integration/test_demo_training.py`` holds both). ResNet's
default initialisation, last norm of a residual branch at zero, is what keeps the first from growing; without it a
relative error of 6e-8 in the deformable convolutions became a difference of 0.1 in the loss within 20 iterations.
"""

from __future__ import annotations

from typing import Any, Callable

Config = dict[str, Any]

_FOCAL_LOSS = {"type": "FocalLoss", "use_sigmoid": True, "gamma": 2.0, "alpha": 0.25}


def _preprocessor() -> Config:
    """Return mmdet's usual preprocessing; images are padded to a multiple of the coarsest backbone stride."""
    return {
        "type": "DetDataPreprocessor",
        "mean": [123.675, 116.28, 103.53],
        "std": [58.395, 57.12, 57.375],
        "bgr_to_rgb": True,
        "pad_size_divisor": 32,
    }


def retinanet(num_classes: int) -> Config:
    """Return RetinaNet with a thin ResNet-50: ``DCN`` in stages 3 and 4, ``DCNv2`` in the head, frozen stem.

    After ``configs/_base_/models/retinanet_r50_fpn.py`` and ``configs/dcn`` of mmdet 3.3.

    Args:
        num_classes: Number of object classes.

    Returns:
        The value of ``model`` in an mmdet configuration.
    """
    return {
        "type": "RetinaNet",
        "data_preprocessor": _preprocessor(),
        "backbone": {
            "type": "ResNet",
            "depth": 50,
            "base_channels": 16,
            "num_stages": 4,
            "out_indices": (0, 1, 2, 3),
            "frozen_stages": 0,
            "norm_cfg": {"type": "BN", "requires_grad": True},
            "norm_eval": False,
            "style": "pytorch",
            "dcn": {"type": "DCN", "deform_groups": 1, "fallback_on_stride": False},
            "stage_with_dcn": (False, False, True, True),
        },
        "neck": {
            "type": "FPN",
            "in_channels": [64, 128, 256, 512],
            "out_channels": 64,
            "start_level": 1,
            "add_extra_convs": "on_input",
            "num_outs": 4,
        },
        "bbox_head": {
            "type": "RetinaHead",
            "num_classes": num_classes,
            "in_channels": 64,
            "feat_channels": 64,
            "stacked_convs": 1,
            "conv_cfg": {"type": "DCNv2", "deform_groups": 1},
            "anchor_generator": {
                "type": "AnchorGenerator",
                "octave_base_scale": 4,
                "scales_per_octave": 3,
                "ratios": [0.5, 1.0, 2.0],
                "strides": [8, 16, 32, 64],
            },
            "bbox_coder": {
                "type": "DeltaXYWHBBoxCoder",
                "target_means": [0.0, 0.0, 0.0, 0.0],
                "target_stds": [1.0, 1.0, 1.0, 1.0],
            },
            "loss_cls": {**_FOCAL_LOSS, "loss_weight": 1.0},
            "loss_bbox": {"type": "L1Loss", "loss_weight": 1.0},
        },
        "train_cfg": {
            "assigner": {
                "type": "MaxIoUAssigner",
                "pos_iou_thr": 0.5,
                "neg_iou_thr": 0.4,
                "min_pos_iou": 0,
                "ignore_iof_thr": -1,
            },
            "sampler": {"type": "PseudoSampler"},
            "allowed_border": -1,
            "pos_weight": -1,
            "debug": False,
        },
        "test_cfg": {"nms_pre": 100, "score_thr": 0.05, "nms": {"type": "nms", "iou_threshold": 0.5}},
    }


def deformable_detr(num_classes: int) -> Config:
    """Return Deformable DETR with a thin ResNet-18, one encoder and two decoder layers, and no dropout.

    After ``configs/deformable_detr/deformable-detr_r50_16xb2-50e_coco.py`` of mmdet 3.3. On a CPU tensor mmcv computes
    its attention with ``multi_scale_deformable_attn_pytorch``: ``MultiScaleDeformableAttention.forward`` (mmcv 2.1.0)
    calls ``MultiScaleDeformableAttnFunction`` for CUDA and MLU tensors only.

    Args:
        num_classes: Number of object classes.

    Returns:
        The value of ``model`` in an mmdet configuration.
    """
    embed_dims = 32
    ffn = {"embed_dims": embed_dims, "feedforward_channels": 64, "ffn_drop": 0.0}
    deformable_attention = {
        "embed_dims": embed_dims,
        "num_heads": 4,
        "num_levels": 3,
        "dropout": 0.0,
        "batch_first": True,
    }
    return {
        "type": "DeformableDETR",
        "num_queries": 20,
        "num_feature_levels": 3,
        "with_box_refine": False,
        "as_two_stage": False,
        "data_preprocessor": _preprocessor(),
        "backbone": {
            "type": "ResNet",
            "depth": 18,
            "base_channels": 16,
            "num_stages": 4,
            "out_indices": (1, 2, 3),
            "frozen_stages": -1,
            "norm_cfg": {"type": "BN", "requires_grad": True},
            "norm_eval": False,
            "style": "pytorch",
        },
        "neck": {
            "type": "ChannelMapper",
            "in_channels": [32, 64, 128],
            "kernel_size": 1,
            "out_channels": embed_dims,
            "act_cfg": None,
            "norm_cfg": {"type": "GN", "num_groups": 8},
            "num_outs": 3,
        },
        "encoder": {
            "num_layers": 1,
            "layer_cfg": {"self_attn_cfg": dict(deformable_attention), "ffn_cfg": dict(ffn)},
        },
        "decoder": {
            "num_layers": 2,
            "return_intermediate": True,
            "layer_cfg": {
                "self_attn_cfg": {"embed_dims": embed_dims, "num_heads": 4, "batch_first": True},
                "cross_attn_cfg": dict(deformable_attention),
                "ffn_cfg": dict(ffn),
            },
            "post_norm_cfg": None,
        },
        "positional_encoding": {"num_feats": embed_dims // 2, "normalize": True, "offset": -0.5},
        "bbox_head": {
            "type": "DeformableDETRHead",
            "num_classes": num_classes,
            "embed_dims": embed_dims,
            "sync_cls_avg_factor": True,
            "loss_cls": {**_FOCAL_LOSS, "loss_weight": 2.0},
            "loss_bbox": {"type": "L1Loss", "loss_weight": 5.0},
            "loss_iou": {"type": "GIoULoss", "loss_weight": 2.0},
        },
        "train_cfg": {
            "assigner": {
                "type": "HungarianAssigner",
                "match_costs": [
                    {"type": "FocalLossCost", "weight": 2.0},
                    {"type": "BBoxL1Cost", "weight": 5.0, "box_format": "xywh"},
                    {"type": "IoUCost", "iou_mode": "giou", "weight": 2.0},
                ],
            }
        },
        "test_cfg": {"max_per_img": 20},
    }


DETECTORS: dict[str, Callable[[int], Config]] = {"retinanet": retinanet, "deformable_detr": deformable_detr}
"""The detectors by the name given on the command line; each takes the number of classes."""
