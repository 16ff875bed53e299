"""The patches of mmcv_npu that change how something is computed: on the emulated NPU they compute the same."""

from __future__ import annotations

import importlib
import random
from collections import Counter
from typing import Any

import mx_driving
import pytest
import torch
from states import same, state

import patchcore as pc
from mmcv_npu.plugin import PATCHES
from patchcore.builtin.verify.verify import AGREES, DIFFERS, verify
from patchcore.declare.changes import resolve
from patchcore_torch.tensors.framework import Tensors

#: The kernels that each patch is there to call.
run, compare = Tensors().run, Tensors().compare

KERNELS = {
    "mmcv.deform_conv": ["deform_conv2d", "deform_conv2d_backward"],
    "mmcv.modulated_deform_conv": ["modulated_deform_conv2d", "modulated_deform_conv2d_backward"],
    "mmcv.multi_scale_deformable_attention": [
        "multi_scale_deformable_attn",
        "multi_scale_deformable_attn_backward",
    ],
    "mmcv.sigmoid_focal_loss": ["sigmoid_focal_loss", "sigmoid_focal_loss_backward"],
    "mmcv.voxelization": ["hard_voxelize", "dynamic_voxelization"],
    "mmcv.nms_rotated": [],
    "mmdet.resnet_add_relu": ["npu_add_relu", "npu_add_relu_backward"],
    "mmdet.resnet_maxpool": ["npu_max_pool2d"],
    "mmdet.resnet_fp16": [],
    "mmdet2.pseudo_sampler": [],
    "mmdet3.pseudo_sampler": [],
    "mmcv.optimizer_hooks": [],
    "mmengine.optimizer_wrapper": [],
}

LEGACY_NAMES = {
    "dc": "mmcv.deform_conv",
    "deform_conv": "mmcv.deform_conv",
    "mdc": "mmcv.modulated_deform_conv",
    "modulated_deform_conv": "mmcv.modulated_deform_conv",
    "msda": "mmcv.multi_scale_deformable_attention",
    "multi_scale_deformable_attention": "mmcv.multi_scale_deformable_attention",
    "sigmoid_focal_loss": "mmcv.sigmoid_focal_loss",
    "voxelization": "mmcv.voxelization",
    "resnet_add_relu": "mmdet.resnet_add_relu",
    "resnet_maxpool": "mmdet.resnet_maxpool",
    "resnet_fp16": "mmdet.resnet_fp16",
}

#: What the emulated kernels, which compute on the CPU, keep to; the checks leave more room, for a real NPU. A unit of
#: bfloat16 is 0.8 %, and CPUs differ in how often they round: a gradient was off by 1.5 units on one without AVX-512.
TOLERANCE = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 2e-2}

#: Cases of this size only: they are the quick ones, and those in which settings meet.
SMALL = [pc.Size.SMALL]

MMCV_OF = {
    "mmcv.optimizer_hooks": 1,
    "mmdet2.pseudo_sampler": 1,
    "mmdet3.pseudo_sampler": 2,
    "mmengine.optimizer_wrapper": 2,
}
BY_NAME = {patch.name: patch for patch in PATCHES if patch.name in KERNELS}
OF_THIS_MMCV = [
    pytest.param(name, marks=[pytest.mark.openmmlab(MMCV_OF[name])] if name in MMCV_OF else []) for name in KERNELS
]
WITH_KERNELS = [name for name in KERNELS if KERNELS[name]]


def targets(patch: pc.Patch) -> list[Any]:
    """Return what is found in the places that a patch changes."""
    return [resolve(change.target, raw=True) for change in patch.changes]


class TestAgreement:
    @pytest.mark.parametrize("seed", [1, 2])
    @pytest.mark.parametrize("name", OF_THIS_MMCV)
    def test_random_calls(self, name: str, seed: int, calls: Counter[str]) -> None:
        results = verify([BY_NAME[name]], rounds=8, seed=seed, sizes=SMALL)
        assert results
        for result in results:
            assert result.status == AGREES, result
            computed_in = "float16" if name == "mmdet.resnet_fp16" else result.dtype
            assert result.error <= TOLERANCE[computed_in], result
        assert all(calls[kernel] for kernel in KERNELS[name])

    @pytest.mark.parametrize("name", OF_THIS_MMCV)
    def test_cases_as_large_as_those_of_models(self, name: str) -> None:
        for result in verify([BY_NAME[name]], rounds=1, sizes=[pc.Size.TYPICAL]):
            assert result.status == AGREES, result

    @pytest.mark.parametrize("name", WITH_KERNELS)
    def test_a_wrong_kernel_is_noticed(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        spoil_kernel(name, monkeypatch)
        assert DIFFERS in {result.status for result in verify([BY_NAME[name]], rounds=5, sizes=SMALL)}

    def test_a_wrong_gradient_is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for function in (mx_driving.DeformConv2dFunction, mx_driving.ModulatedDeformConv2dFunction):
            backward = function.backward
            monkeypatch.setattr(function, "backward", staticmethod(second_one_off(backward)))
        for name in ("mmcv.deform_conv", "mmcv.modulated_deform_conv"):
            for result in verify([BY_NAME[name]], rounds=2, sizes=SMALL):
                assert (result.status, "gradient of args[1]" in result.message) == (DIFFERS, True)


def spoil_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the results of a patch's kernels be 5 percent too large."""
    functions = {
        "mmcv.multi_scale_deformable_attention": "MultiScaleDeformableAttnFunction",
        "mmcv.sigmoid_focal_loss": "SigmoidFocalLossFunction",
    }
    if name in functions:
        # imported by name: the package has a function of that name
        module = importlib.import_module("mx_driving.ops.sigmoid_focal_loss") if "focal" in name else mx_driving
        function = getattr(module, functions[name])
        forward = function.forward
        monkeypatch.setattr(function, "forward", staticmethod(lambda *arguments: 1.05 * forward(*arguments)))
    elif name == "mmcv.voxelization":
        from mx_driving import _C

        hard, dynamic = _C.hard_voxelize, _C.dynamic_voxelization
        monkeypatch.setattr(_C, "hard_voxelize", lambda *arguments: hard(*arguments[:5], "XYZ"))
        monkeypatch.setattr(_C, "dynamic_voxelization", lambda *arguments: dynamic(*arguments).flip(1))
    else:
        kernel = getattr(mx_driving, KERNELS[name][0])
        monkeypatch.setattr(mx_driving, KERNELS[name][0], lambda *arguments: 1.05 * kernel(*arguments))


def second_one_off(backward: Any) -> Any:
    def changed(*arguments: Any) -> Any:
        first, second, *others = backward(*arguments)
        return (first, 1.05 * second, *others)

    return changed


class TestApplying:
    @pytest.mark.parametrize("name", OF_THIS_MMCV)
    def test_revert_restores(self, name: str) -> None:
        patch = BY_NAME[name]
        before = list(map(state, targets(patch)))
        with pc.Patcher([patch], enable=patch, strict=True):
            assert not any(map(same, map(state, targets(patch)), before))
        assert all(map(same, map(state, targets(patch)), before))

    @pytest.mark.parametrize("legacy", LEGACY_NAMES)
    def test_legacy_names(self, legacy: str) -> None:
        entry = pc.Patcher(PATCHES, enable=legacy).plan()[legacy]
        assert (entry.patch.name, entry.verdict) == (LEGACY_NAMES[legacy], "apply")

    @pytest.mark.parametrize("legacy", ["pseudo_sampler", "mmdet.pseudo_sampler"])
    def test_one_name_for_the_sampler_of_mmdet_2_and_3(self, legacy: str, major: int) -> None:
        plan = pc.Patcher(PATCHES, enable=legacy).plan()
        assert [plan[f"mmdet{number}.pseudo_sampler"].verdict == "apply" for number in (2, 3)] == [
            major == 1,
            major == 2,
        ]

    def test_default_set(self) -> None:
        assert {name for name, patch in BY_NAME.items() if patch.default} == {
            "mmcv.deform_conv",
            "mmcv.modulated_deform_conv",
            "mmcv.multi_scale_deformable_attention",
            "mmcv.nms_rotated",
            "mmdet.resnet_add_relu",
            "mmdet.resnet_maxpool",
        }


class TestTensorsOnTheCpu:
    """Where there is an NPU, what is not on it keeps going to the original."""

    @pytest.mark.parametrize(
        "name",
        [name for name in WITH_KERNELS if "attention" not in name and "focal" not in name] + ["mmdet.resnet_fp16"],
    )
    def test_stay_with_the_original(self, name: str, calls: Counter[str]) -> None:
        patch = BY_NAME[name]
        draw = resolve(patch.checks[0].draw)
        for seed in range(4):
            expected = run(draw(random.Random(seed)))
            with pc.Patcher([patch], enable=patch, strict=True):
                actual = run(draw(random.Random(seed)))
            assert not compare(actual, expected, 0.0).message
        assert not calls

    @pytest.mark.parametrize("name", ["mmcv.multi_scale_deformable_attention", "mmcv.sigmoid_focal_loss"])
    def test_reach_the_operator_that_mmcv_lacks(self, name: str, calls: Counter[str]) -> None:
        patch = BY_NAME[name]
        draw = resolve(patch.checks[0].draw)
        with (
            pc.Patcher([patch], enable=patch, strict=True),
            pytest.raises(RuntimeError, match="implementation for device cpu not found"),
        ):
            run(draw(random.Random(0)))
        assert not calls


def test_results_are_on_the_device(device: torch.device, calls: Counter[str]) -> None:
    """What is compared above was copied to the CPU first."""
    from mmcv.ops import deform_conv

    tensors = torch.ones(1, 64, 4, 4), torch.zeros(1, 2, 4, 4), torch.ones(4, 64, 1, 1)
    with pc.Patcher([BY_NAME["mmcv.deform_conv"]], strict=True):
        out = deform_conv.deform_conv2d(*(tensor.to(device) for tensor in tensors))
    assert (out.device, out.unique().tolist()) == (device, [64.0])
    assert calls == {"deform_conv2d": 1}
