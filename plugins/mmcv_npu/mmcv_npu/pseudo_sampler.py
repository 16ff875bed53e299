"""mmdet's PseudoSampler without ``unique``, which is slow on an NPU.

``torch.nonzero`` of a vector returns each index once and in order; the ``unique`` after it sorts them once more. The
result is the same on every device.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc


def sample_boxes(self: Any, assign_result: Any, bboxes: Any, gt_bboxes: Any, *args: Any, **kwargs: Any) -> Any:
    """Replace ``PseudoSampler.sample`` of mmdet 2.x.

    Args:
        self: the sampler.
        assign_result: returns the true box that each box is assigned to.
        bboxes: (boxes, 4).
        gt_bboxes: (true boxes, 4).
        args, kwargs: not used, as before.

    Returns:
        A ``SamplingResult`` of all assigned and all unassigned boxes.
    """
    import torch
    from mmdet.core.bbox.samplers.sampling_result import SamplingResult

    positive, negative = _indices(assign_result.gt_inds)
    flags = bboxes.new_zeros(bboxes.shape[0], dtype=torch.uint8)
    return SamplingResult(positive, negative, bboxes, gt_bboxes, assign_result, flags)


def sample_instances(
    self: Any, assign_result: Any, pred_instances: Any, gt_instances: Any, *args: Any, **kwargs: Any
) -> Any:
    """Replace ``PseudoSampler.sample`` of mmdet 3.x.

    Args:
        self: the sampler.
        assign_result: returns the true instance that each prior is assigned to.
        pred_instances: with ``priors``, (priors, 4).
        gt_instances: with ``bboxes``, (true instances, 4).
        args, kwargs: not used, as before.

    Returns:
        A ``SamplingResult`` of all assigned and all unassigned priors.
    """
    import torch
    from mmdet.models.task_modules.samplers.sampling_result import SamplingResult

    positive, negative = _indices(assign_result.gt_inds)
    priors = pred_instances.priors
    return SamplingResult(
        pos_inds=positive,
        neg_inds=negative,
        priors=priors,
        gt_bboxes=gt_instances.bboxes,
        assign_result=assign_result,
        gt_flags=priors.new_zeros(priors.shape[0], dtype=torch.uint8),
        avg_factor_with_neg=False,
    )


def _indices(assigned: Any) -> tuple[Any, Any]:
    """Return the indices of the positive and of the zero entries of a vector, in order."""
    return (assigned > 0).nonzero().squeeze(-1), (assigned == 0).nonzero().squeeze(-1)


_CHECKS = [pc.Check("mmcv_npu.checks.pseudo_sampler:sampled", dtypes=dict.fromkeys(("float32", "float16"), 0.0))]
_SUMMARY = "PseudoSampler without the unique that changes nothing"

# The class moved between mmdet 2 and 3: one patch for each, of which one is applied.
PSEUDO_SAMPLER_2 = pc.Patch(
    "mmdet2.pseudo_sampler",
    [pc.Replace("mmdet.core.bbox.samplers.pseudo_sampler:PseudoSampler.sample", sample_boxes)],
    summary=_SUMMARY,
    requires="mmdet>=2,<3",
    legacy_names=["pseudo_sampler", "mmdet.pseudo_sampler", "PseudoSampler"],
    default=False,
    checks=_CHECKS,
)

PSEUDO_SAMPLER_3 = pc.Patch(
    "mmdet3.pseudo_sampler",
    [pc.Replace("mmdet.models.task_modules.samplers.pseudo_sampler:PseudoSampler.sample", sample_instances)],
    summary=_SUMMARY,
    requires="mmdet>=3,<4",
    legacy_names=["pseudo_sampler", "mmdet.pseudo_sampler", "PseudoSampler"],
    default=False,
    checks=_CHECKS,
)
