"""The names under which mx_driving.patcher has patches of transformers: each as a class and as a name."""

from __future__ import annotations

__all__ = ["ALL", "QWEN3_VL"]

#: Of the patch of everything that Qwen3-VL has.
QWEN3_VL = ("QWen3VLNPU", "qwen3vl_npu")
#: Of every patch that is applied by default with all models.
ALL = ("TransformersNPU", "transformers_npu", *QWEN3_VL)
