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

    @pytest.mark.parametrize("seed", range(5))
    def test_tensors_on_the_cpu_give_the_same(self, seed: int) -> None:
        expected = run(sampled(random.Random(seed)))
        with applied():
            assert not compare(run(sampled(random.Random(seed))), expected, 0.0).message

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

    def test_keywords_are_those_of_mmdet(self, major: int) -> None:
        """Sampler calls in mmdet name some of them."""
        import inspect

        module = "core.bbox.samplers" if major == 1 else "models.task_modules.samplers"
        sampler = pytest.importorskip(f"mmdet.{module}").PseudoSampler
        expected = list(inspect.signature(sampler.sample).parameters)
        with applied():
            assert list(inspect.signature(sampler.sample).parameters) == expected
