"""A small BEVFormer: camera images to a bird's-eye-view (BEV) map of objects.

The structure is that of the paper, Li et al., "BEVFormer: Learning Bird's-Eye-View Representation from Multi-Camera
Images via Spatiotemporal Transformers" (ECCV 2022, arXiv:2203.17270); the code is written anew, for PyTorch on CUDA
with mmcv and mmdet, as such models are. Nothing in this package knows of NPUs.
"""

from bevformer.detector import BEVFormer
from bevformer.scenes import Scenes

__all__ = ["BEVFormer", "Scenes"]
