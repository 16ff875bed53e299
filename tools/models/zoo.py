"""The configurations that are trained: one or more of every family, as they are in the installed libraries."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ROWS", "Row"]


class Row(NamedTuple):
    """A model.

    Args:
        major: the major version of mmcv, 1 or 2.
        library: whose configuration it is: ``mmdet`` or ``mmdet3d``.
        family: what it stands for.
        config: its path below the folder ``configs``, without ``.py``.
        fault: what in the library itself makes it fail on every device but the CPU, if anything.
    """

    major: int
    library: str
    family: str
    config: str
    fault: str = ""

    @property
    def name(self) -> str:
        """What it is called on the command line, and its files."""
        return f"{self.library}-{self.major}-{self.config.rpartition('/')[2]}"


def _rows(major: int, library: str, *models: tuple[str, ...]) -> tuple[Row, ...]:
    return tuple(Row(major, library, *model) for model in models)


ROWS = (
    *_rows(
        2,
        "mmdet",
        ("two-stage", "faster_rcnn/faster-rcnn_r50_fpn_1x_coco"),
        ("two-stage, instances", "mask_rcnn/mask-rcnn_r50_fpn_1x_coco"),
        ("one-stage", "retinanet/retinanet_r18_fpn_1x_coco"),
        ("anchor-free", "fcos/fcos_r50-caffe_fpn_gn-head_1x_coco"),
        ("instances, one-stage", "solov2/solov2-light_r18_fpn_ms-3x_coco"),
        ("deformable transformer", "deformable_detr/deformable-detr_r50_16xb2-50e_coco"),
        ("denoising transformer", "dino/dino-4scale_r50_8xb2-12e_coco"),
        ("transformer", "detr/detr_r50_8xb2-150e_coco"),
        ("YOLOX", "yolox/yolox_tiny_8xb8-300e_coco"),
        ("RTMDet", "rtmdet/rtmdet_tiny_8xb32-300e_coco"),
        ("DCN", "dcn/faster-rcnn_r50-dconv-c3-c5_fpn_1x_coco"),
        ("DCNv2, 4 groups", "dcnv2/faster-rcnn_r50-mdconv-group4-c3-c5_fpn_1x_coco"),
        ("masks by attention", "mask2former/mask2former_r50_8xb2-lsj-50e_coco"),
        ("Swin", "swin/mask-rcnn_swin-t-p4-w7_fpn_1x_coco"),
        ("panoptic", "panoptic_fpn/panoptic-fpn_r50_fpn_1x_coco"),
        ("DCNv2", "dcnv2/faster-rcnn_r50-mdconv-c3-c5_fpn_1x_coco"),
        ("anchor-free, adaptive assignment", "atss/atss_r50_fpn_1x_coco"),
        ("cascade, instances", "cascade_rcnn/cascade-mask-rcnn_r50_fpn_1x_coco"),
        ("one-stage, SSD", "ssd/ssdlite_mobilenetv2-scratch_8xb24-600e_coco"),
        ("YOLO v3", "yolo/yolov3_mobilenetv2_8xb24-320-300e_coco"),
        ("anchor-free, DCN in the head", "vfnet/vfnet_r50_fpn_1x_coco"),
        ("anchor-free, centres", "centernet/centernet_r18-dcnv2_8xb16-crop512-140e_coco"),
        (
            "anchor-free, points",
            "reppoints/reppoints-moment_r50_fpn_1x_coco",
            "`PointAssigner` indexes a tensor of the CPU with one of the device",
        ),
        ("sparse proposals", "sparse_rcnn/sparse-rcnn_r50_fpn_1x_coco"),
        ("point-based masks", "point_rend/point-rend_r50-caffe_fpn_ms-1x_coco"),
        ("RTMDet, instances", "rtmdet/rtmdet-ins_tiny_8xb32-300e_coco"),
        ("CARAFE", "carafe/faster-rcnn_r50_fpn-carafe_1x_coco"),
        ("dynamic head", "dyhead/atss_r50_fpn_dyhead_1x_coco"),
        ("guided anchoring", "guided_anchoring/ga-faster-rcnn_r50_fpn_1x_coco"),
        ("switchable atrous convolution", "detectors/cascade-rcnn_r50-sac_1x_coco"),
        ("instances, prototypes", "yolact/yolact_r50_1xb8-55e_coco"),
        ("generalized focal loss", "gfl/gfl_r50_fpn_1x_coco"),
        ("anchor-free, aligned", "tood/tood_r50_fpn_1x_coco"),
        ("instances, conditional", "condinst/condinst_r50_fpn_ms-poly-90k_coco_instance"),
        ("hybrid task cascade", "htc/htc_r50_fpn_1x_coco"),
        ("panoptic by attention", "mask2former/mask2former_r50_8xb2-lsj-50e_coco-panoptic"),
        ("DCN, RoI pooling", "dcn/faster-rcnn_r50_fpn_dpool_1x_coco"),
        ("DCNv2, RoI pooling", "dcnv2/faster-rcnn_r50_fpn_mdpool_1x_coco"),
        ("YOLOF", "yolof/yolof_r50-c5_8xb8-1x_coco"),
        ("HRNet", "hrnet/faster-rcnn_hrnetv2p-w18-1x_coco"),
        ("ResNeSt, SyncBN", "resnest/faster-rcnn_s50_fpn_syncbn-backbone+head_ms-range-1x_coco"),
        ("instances by queries", "queryinst/queryinst_r50_fpn_1x_coco"),
        ("PVT", "pvt/retinanet_pvt-t_fpn_1x_coco"),
    ),
    *_rows(
        2,
        "mmdet3d",
        ("pillars", "pointpillars/pointpillars_hv_secfpn_8xb6-160e_kitti-3d-3class"),
        ("pillars, FPN, SyncBN", "pointpillars/pointpillars_hv_fpn_sbn-all_8xb4-2x_nus-3d"),
        ("centres, pillars", "centerpoint/centerpoint_pillar02_second_secfpn_8xb4-cyclic-20e_nus-3d"),
        ("centres, DCN in the head", "centerpoint/centerpoint_pillar02_second_secfpn_head-dcn_8xb4-cyclic-20e_nus-3d"),
        ("images, key points", "smoke/smoke_dla34_dlaneck_gn-all_4xb8-6x_kitti-mono3d"),
        ("images, depth", "pgd/pgd_r101-caffe_fpn_head-gn_4xb3-4x_kitti-mono3d"),
        ("images, voxels", "imvoxelnet/imvoxelnet_8xb4_kitti-3d-car"),
        ("pillars, RegNet", "regnet/pointpillars_hv_regnet-400mf_secfpn_sbn-all_8xb4-2x_nus-3d"),
        ("shapes", "ssn/ssn_hv_secfpn_sbn-all_16xb2-2x_nus-3d"),
        ("sparse convolution", "second/second_hv_secfpn_8xb6-80e_kitti-3d-3class"),
        ("sparse convolution, centres", "centerpoint/centerpoint_voxel01_second_secfpn_8xb4-cyclic-20e_nus-3d"),
        ("sparse convolution, dynamic voxels", "dynamic_voxelization/second_dv_secfpn_8xb6-80e_kitti-3d-car"),
        ("images and points, dynamic voxels", "mvxnet/mvxnet_fpn_dv_second_secfpn_8xb2-80e_kitti-3d-3class"),
        ("two-stage, points and voxels", "pv_rcnn/pv_rcnn_8xb2-80e_kitti-3d-3class"),
        ("two-stage, parts", "parta2/parta2_hv_secfpn_8xb2-cyclic-80e_kitti-3d-3class"),
        ("two-stage, points", "point_rcnn/point-rcnn_8xb2_kitti-3d-3class"),
    ),
    *_rows(
        1,
        "mmdet",
        ("two-stage", "faster_rcnn/faster_rcnn_r50_fpn_1x_coco"),
        ("two-stage, instances", "mask_rcnn/mask_rcnn_r50_fpn_1x_coco"),
        ("one-stage", "retinanet/retinanet_r18_fpn_1x_coco"),
        ("anchor-free", "fcos/fcos_r50_caffe_fpn_gn-head_1x_coco"),
        ("deformable transformer", "deformable_detr/deformable_detr_r50_16x2_50e_coco"),
        ("DCN", "dcn/faster_rcnn_r50_fpn_dconv_c3-c5_1x_coco"),
        ("YOLOX", "yolox/yolox_tiny_8x8_300e_coco"),
        ("instances, one-stage", "solov2/solov2_light_r18_fpn_3x_coco"),
        ("Swin", "swin/mask_rcnn_swin-t-p4-w7_fpn_1x_coco"),
    ),
)
