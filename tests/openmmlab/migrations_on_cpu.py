"""Train a model of examples/migrations on the CPU, unpatched::

    python migrations_on_cpu.py NAME MMCV_MAJOR STEPS

Small stand-ins, written in torch, take the places of CUDA extensions and packages that are not installed.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "migrations"


def losses(output: str, who: str = "") -> list[float]:
    """Return the losses that a training has printed, the first step first.

    Args:
        output: of the training.
        who: what stands before ``step 1`` in its lines.
    """
    steps = re.findall(rf"^{who}step (\d+): loss (\d\.\d+)", output, flags=re.MULTILINE)
    assert [int(step) for step, _ in steps] == list(range(1, len(steps) + 1)), output
    return [float(loss) for _, loss in steps]


def scatter_mean(src: torch.Tensor, index: torch.Tensor, dim: int, dim_size: int) -> torch.Tensor:
    """Return the means of groups of rows, 0 where there is none."""
    assert dim == 0
    count = torch.bincount(index, minlength=dim_size).clamp(min=1)
    return src.new_zeros(dim_size, src.shape[1]).index_add(0, index, src) / count[:, None]


def scatter_max(src: torch.Tensor, index: torch.Tensor, dim: int, dim_size: int) -> tuple[torch.Tensor, None]:
    """Return the maxima of groups of rows, 0 where there is none; where they are, nobody asks."""
    assert dim == 0
    rows = index[:, None].expand_as(src)
    return src.new_zeros(dim_size, src.shape[1]).scatter_reduce(0, rows, src, "amax", include_self=False), None


def points_in_boxes(points: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Return which points are in which boxes, of which none is turned; no point is below the bottom."""
    distance = (points.unsqueeze(2) - boxes[:, None, :, :3]).abs()
    half = boxes[:, None, :, 3:5] / 2
    return (distance[..., :2] < half).all(-1) & (distance[..., 2] <= boxes[:, None, :, 5])


def sample(points: torch.Tensor, count: int) -> torch.Tensor:
    """Return the numbers of points that are far from those before, the first one first."""
    chosen = torch.zeros(len(points), count, dtype=torch.long)
    distance = torch.full(points.shape[:2], torch.inf)
    for i in range(1, count):
        last = points.gather(1, chosen[:, i - 1, None, None].expand(-1, -1, 3))
        distance = distance.minimum((points - last).square().sum(-1))
        chosen[:, i] = distance.argmax(1)
    return chosen


#: What the models import that is not installed, as far as it is needed on the CPU.
STAND_INS: dict[str, dict[str, dict[str, Any]]] = {
    "functions": {
        "flash_attn": {},
        "flash_attn.flash_attn_interface": {"flash_attn_func": None},
        "projects.occupancy.ops.aggregation_ext": {},
    },
    "classes": {
        "flash_attn": {"flash_attn_func": None},
        "torch_scatter": {"scatter_mean": scatter_mean, "scatter_max": scatter_max},
        "roi_points_cuda": {"points_in_boxes": points_in_boxes},
        "keypoint_ext": {"sample": sample},
    },
}


def main(name: str, major: int, steps: int) -> None:
    """Run ``tools/train.py`` of an example."""
    import numpy

    import patchcore
    from mmcv_npu.torchvision import TORCHVISION

    torch.set_num_threads(1)
    numpy.int = int  # type: ignore[attr-defined]  # one of the models is older than numpy 1.24
    if major == 1:
        patchcore.Patcher([TORCHVISION], strict=True).apply()
    for stand_in, names in STAND_INS[name].items():
        sys.modules[stand_in] = ModuleType(stand_in)
        vars(sys.modules[stand_in]).update(names)
    sys.path.insert(0, str(EXAMPLES / name))
    script = importlib.import_module("tools.train")
    if name == "classes":
        importlib.import_module("projects.pillars.models.head_v1")  # the patches add it
    script.main(["--steps", str(steps)])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
