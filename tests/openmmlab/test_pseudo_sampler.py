"""PseudoSampler without ``unique``: the same SamplingResult, in mmdet 2 and 3."""

from __future__ import annotations

import random
from typing import Any, NoReturn

import pytest
import torch

import patchcore as pc
from mmcv_npu.checks.pseudo_sampler import sampled
from mmcv_npu.pseudo_sampler import PSEUDO_SAMPLER_2, PSEUDO_SAMPLER_3
from patchcore_torch.tensors.framework import Tensors

run, compare = Tensors().run, Tensors().compare


def applied() -> pc.Patcher:
    return pc.Patcher([PSEUDO_SAMPLER_2, PSEUDO_SAMPLER_3], enable="pseudo_sampler", strict=True)


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError("unique was called")


class TestPseudoSampler:
    def test_unique_is_not_called(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.Tensor, "unique", refuse)
        case = sampled(random.Random(0))
        with pytest.raises(AssertionError, match="unique was called"):
            run(case)
        with applied():
            run(case)

    def test_subclasses_have_it_too(self, major: int, monkeypatch: pytest.MonkeyPatch) -> None:
        if major == 1:
            from mmdet.core.bbox.samplers import PseudoSampler
        else:
            from mmdet.models.task_modules.samplers import PseudoSampler
        subclass = type("Subclass", (PseudoSampler,), {})
        before = subclass.sample
        with applied():
            assert subclass.sample is PseudoSampler.sample is not before
        assert subclass.sample is before
