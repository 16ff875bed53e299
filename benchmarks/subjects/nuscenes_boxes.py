"""What converting the predicted boxes of one sample to nuScenes boxes takes, in mmdet3d and patched."""

from __future__ import annotations

from typing import Any, Callable

from benchmarks.measure import Timing, interleave, wall
from benchmarks.patching import patched
from benchmarks.rows import Budget, RatioLimit, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "nuscenes-boxes"
#: As many as a detector for nuScenes keeps for one sample.
BOXES = 500
KINDS = ("LiDAR", "camera")
ORIGINAL = "mmdet3d's function"
#: What remains for whoever builds the boxes by their public constructor.
CONSTRUCTORS = "Box() with arguments at hand"
#: Calls of which the fastest counts in a round.
REPEATS = 3
LIMIT = RatioLimit(1 / 3, "<= 1/3x")


def rows(budget: Budget) -> list[Row]:
    """Time mmdet3d's function, plain and patched in turn, on the same detection."""
    whats = {kind: f"{kind}, {BOXES} boxes" for kind in KINDS}
    why = missing("mmdet3d", "nuscenes", "mmdet3d_npu") or _too_old()
    if why is not None:
        return [skipped(SUBJECT, what, rival, why) for what in whats.values() for rival in (ORIGINAL, CONSTRUCTORS)]
    import torch
    from mmdet3d.evaluation.metrics import nuscenes_metric

    from mmdet3d_npu.nuscenes_boxes import NUSCENES_METRIC

    torch.set_num_threads(1)
    found: list[Row] = []
    for kind, what in whats.items():
        detection = _detection(kind)
        converted, _ = nuscenes_metric.output_to_nusc_box(detection)
        plain = _timing(lambda detection=detection: nuscenes_metric.output_to_nusc_box(detection))
        timings = {
            "ours": patched(NUSCENES_METRIC, plain),
            ORIGINAL: plain,
            CONSTRUCTORS: _timing(_constructors(detection, converted)),
        }
        samples = interleave(timings, budget.rounds(40))
        found += (
            compare(SUBJECT, what, rival, samples["ours"], samples[rival], budget=budget, limit=limit)
            for rival, limit in ((ORIGINAL, LIMIT), (CONSTRUCTORS, None))
        )
    return found


def _too_old() -> str | None:
    from importlib import metadata

    version = metadata.version("mmdet3d")
    return f"mmdet3d {version} has no nuscenes_metric" if version.startswith(("0.", "1.0.")) else None


def _detection(kind: str) -> dict[str, Any]:
    import torch
    from mmdet3d.structures import CameraInstance3DBoxes, LiDARInstance3DBoxes

    box_type = {"LiDAR": LiDARInstance3DBoxes, "camera": CameraInstance3DBoxes}[kind]
    generator = torch.Generator().manual_seed(0)
    tensor = torch.randn(BOXES, 9, generator=generator)
    tensor[:, 3:6] = tensor[:, 3:6].abs()
    return {
        "bboxes_3d": box_type(tensor, box_dim=9),
        "scores_3d": torch.rand(BOXES, generator=generator),
        "labels_3d": torch.randint(10, (BOXES,), generator=generator),
        "attr_labels": torch.randint(9, (BOXES,), generator=generator),
    }


def _constructors(detection: dict[str, Any], boxes: list[Any]) -> Callable[[], object]:
    """Return a function that builds ``boxes`` once more, from arguments of the types that mmdet3d passes."""
    labels, scores = detection["labels_3d"].numpy(), detection["scores_3d"].numpy()
    arguments = [
        (type(box), (box.center, box.wlh, box.orientation), {"label": label, "score": score, "velocity": box.velocity})
        for box, label, score in zip(boxes, labels, scores)
    ]
    return lambda: [box_class(*positional, **named) for box_class, positional, named in arguments]


def _timing(convert: Callable[[], object]) -> Timing:
    def timing() -> float:
        convert()  # patching has gone through other memory
        return min(wall(convert) for _ in range(REPEATS))

    return timing
