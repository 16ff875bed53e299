"""Random calls of PseudoSampler, of mmdet 2.x or 3.x."""

from __future__ import annotations

import random
from typing import Any, Callable

import patchcore as pc
from mmcv_npu.checks import drawing


def sampled(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw an assignment of boxes to true boxes; sometimes there are none of the one or the other."""
    boxes = rng.choice((0, size.draw(rng, small=(1, 30), typical=(5000, 20000))))
    truths = rng.choice((0, size.draw(rng, small=(1, 5), typical=(20, 100))))
    assigned = drawing.integers(rng, -1, truths, boxes)
    labels = drawing.integers(rng, 0, 9, boxes)
    tensors = [assigned, labels, drawing.uniform(rng, 0, 99, boxes, 4), drawing.uniform(rng, 0, 99, truths, 4)]
    return pc.Case(_sampler(), tensors)


def _sampler() -> Callable[..., dict[str, Any]]:
    import mmdet

    return _of_boxes if mmdet.__version__.startswith("2.") else _of_instances


def _of_boxes(assigned: Any, labels: Any, boxes: Any, truths: Any) -> dict[str, Any]:
    from mmdet.core.bbox.assigners import AssignResult
    from mmdet.core.bbox.samplers import PseudoSampler

    assignment = AssignResult(len(truths), assigned, assigned.float(), labels)
    return vars(PseudoSampler().sample(assignment, boxes, truths))


def _of_instances(assigned: Any, labels: Any, boxes: Any, truths: Any) -> dict[str, Any]:
    from mmdet.models.task_modules.assigners import AssignResult
    from mmdet.models.task_modules.samplers import PseudoSampler
    from mmengine.structures import InstanceData

    assignment = AssignResult(len(truths), assigned, assigned.float(), labels)
    return vars(PseudoSampler().sample(assignment, InstanceData(priors=boxes), InstanceData(bboxes=truths)))
