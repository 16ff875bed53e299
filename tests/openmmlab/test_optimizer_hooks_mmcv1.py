"""mmcv.optimizer_hooks: mmcv 1.x's hooks clip with the fused optimizer where it can, and train as without the patch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from mmcv.runner import HOOKS, EpochBasedRunner, Hook, OptimizerHook, auto_fp16
from mmcv.utils import get_logger
from states import same, state
from torch import Tensor, nn
from torch_npu.optim import NpuFusedAdamW

import patchcore as pc
from mmcv_npu.optimizer_hooks import OPTIMIZER_HOOKS

HOOK_OPTIONS: dict[str, dict[str, Any]] = {
    "OptimizerHook": {},
    "GradientCumulativeOptimizerHook": {"cumulative_iters": 2},
    "Fp16OptimizerHook": {"loss_scale": 512.0},
    "GradientCumulativeFp16OptimizerHook": {"cumulative_iters": 2, "loss_scale": 512.0},
}
EPOCHS, BATCHES = 2, 5
#: How often each clips in the ten iterations: when gradients are accumulated, in every second.
CLIPPED = {name: EPOCHS * BATCHES // options.get("cumulative_iters", 1) for name, options in HOOK_OPTIONS.items()}
CLIP = {"max_norm": 0.3, "norm_type": 2}


class Regression(nn.Module):
    """A model as mmcv's runners train it, in float16 where an fp16 hook asks for it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        self.fp16_enabled = False
        self.dtypes: set[torch.dtype] = set()

    @auto_fp16(apply_to=("samples",))
    def forward(self, samples: Tensor) -> Tensor:
        out = self.layers(samples)
        self.dtypes.add(out.dtype)
        return 10 * (out.float() - samples[:, :2].float()).square().mean()

    def train_step(self, data: Tensor, optimizer: Any, **options: Any) -> dict[str, Any]:
        return {"loss": self(data), "log_vars": {}, "num_samples": len(data)}


class Norms(Hook):
    """Keep the norms that the optimizer hook logs."""

    def __init__(self) -> None:
        self.norms: list[float] = []

    def after_train_iter(self, runner: Any) -> None:
        self.norms = list(runner.log_buffer.val_history.get("grad_norm", []))


class Training:
    """The outcome of a training.

    Args:
        hook: the optimizer hook.
        optimizer: class of the optimizer.
        patched: whether the patch is in force.
        folder: for the runner.
        share: which of the parameters the optimizer updates; all by default.
    """

    def __init__(self, hook: Hook, optimizer: Any, *, patched: bool, folder: Path, share: slice = slice(None)) -> None:
        self.model = Regression().to("npu")
        updated = list(self.model.parameters())[share]
        runner = EpochBasedRunner(
            self.model,
            optimizer=optimizer(updated, lr=0.05, weight_decay=0.01),
            work_dir=str(folder),
            logger=get_logger("quiet"),
            max_epochs=EPOCHS,
            meta={},
        )
        logged = Norms()
        runner.register_training_hooks(lr_config=None, optimizer_config=hook, custom_hooks_config=[logged])
        batches = torch.linspace(-1, 1, BATCHES * 32).view(BATCHES, 8, 4).to("npu")
        with (
            pc.Patcher([OPTIMIZER_HOOKS], enable=[OPTIMIZER_HOOKS], strict=True)
            if patched
            else contextlib.nullcontext()
        ):
            runner.run([list(batches)], [("train", 1)])
        self.norms = logged.norms
        self.weights = [parameter.detach().cpu() for parameter in self.model.parameters()]


def assert_agree(ours: Training, theirs: Training) -> None:
    assert len(theirs.norms) > 0
    assert max(theirs.norms) > CLIP["max_norm"], "nothing was clipped"
    assert ours.norms == pytest.approx(theirs.norms, rel=1e-5)
    for one, other in zip(ours.weights, theirs.weights):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.fixture(autouse=True)
def no_pause_between_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """mmcv's runner sleeps for two seconds before each epoch."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of each call of the fused clipping."""
    seen = []
    original = NpuFusedAdamW.clip_grad_norm_fused_

    def clip_grad_norm_fused_(self: Any, **arguments: Any) -> Tensor:
        seen.append(arguments)
        return original(self, **arguments)

    monkeypatch.setattr(NpuFusedAdamW, "clip_grad_norm_fused_", clip_grad_norm_fused_)
    return seen


def build(name: str, **clip: Any) -> Hook:
    return HOOKS.get(name)(grad_clip={**CLIP, **clip}, **HOOK_OPTIONS[name])


@pytest.mark.parametrize("name", HOOK_OPTIONS)
class TestHooks:
    def test_the_fused_optimizer_clips_and_trains_as_a_plain_one_does_without_the_patch(
        self, name: str, fused: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        hook = build(name)  # before the patch is applied
        ours = Training(hook, NpuFusedAdamW, patched=True, folder=tmp_path)
        theirs = Training(build(name), torch.optim.AdamW, patched=False, folder=tmp_path)
        assert fused == [CLIP] * CLIPPED[name]
        assert_agree(ours, theirs)
        assert ours.model.dtypes == {torch.float16 if "Fp16" in name else torch.float32}

    def test_with_another_optimizer_nothing_changes(
        self, name: str, fused: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        ours = Training(build(name), torch.optim.AdamW, patched=True, folder=tmp_path)
        theirs = Training(build(name), torch.optim.AdamW, patched=False, folder=tmp_path)
        assert fused == []
        assert_agree(ours, theirs)

    def test_the_model_has_its_own_zero_grad_after_training(self, name: str, tmp_path: Path) -> None:
        trained = Training(build(name), NpuFusedAdamW, patched=True, folder=tmp_path)
        assert "zero_grad" not in vars(trained.model)


class TestFallback:
    def test_without_clipping_nothing_is_clipped(self, fused: list[dict[str, Any]], tmp_path: Path) -> None:
        ours = Training(OptimizerHook(), NpuFusedAdamW, patched=True, folder=tmp_path)
        theirs = Training(OptimizerHook(), torch.optim.AdamW, patched=False, folder=tmp_path)
        assert fused == []
        assert ours.norms == theirs.norms == []
        for one, other in zip(ours.weights, theirs.weights):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)

    def test_arguments_that_the_fused_clipping_does_not_take_are_for_torch(
        self, fused: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        hooks = [build("OptimizerHook", error_if_nonfinite=True) for _ in range(2)]
        ours = Training(hooks[0], NpuFusedAdamW, patched=True, folder=tmp_path)
        theirs = Training(hooks[1], torch.optim.AdamW, patched=False, folder=tmp_path)
        assert fused == []
        assert_agree(ours, theirs)

    def test_the_norm_is_that_of_the_whole_model_when_the_optimizer_updates_a_part(
        self, fused: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        hooks = [build("OptimizerHook") for _ in range(2)]
        ours = Training(hooks[0], NpuFusedAdamW, patched=True, folder=tmp_path, share=slice(2, None))
        theirs = Training(hooks[1], NpuFusedAdamW, patched=False, folder=tmp_path, share=slice(2, None))
        assert fused == []
        assert_agree(ours, theirs)

    def test_a_hook_with_a_method_of_its_own_clips_as_mmcv_does(
        self, fused: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        class Own(OptimizerHook):
            def after_train_iter(self, runner: Any) -> None:
                runner.optimizer.zero_grad()
                runner.outputs["loss"].backward()
                norm = self.clip_grads(runner.model.parameters())
                runner.log_buffer.update({"grad_norm": float(norm)})
                runner.optimizer.step()

        ours = Training(Own(grad_clip=CLIP), NpuFusedAdamW, patched=True, folder=tmp_path)
        theirs = Training(build("OptimizerHook"), torch.optim.AdamW, patched=False, folder=tmp_path)
        assert fused == []
        assert_agree(ours, theirs)

    def test_a_clipping_of_ones_own_is_called(self, fused: list[dict[str, Any]], tmp_path: Path) -> None:
        class Own(OptimizerHook):
            def clip_grads(self, params: Iterable[Tensor]) -> float:
                return 7.0

        assert set(Training(Own(grad_clip=CLIP), NpuFusedAdamW, patched=True, folder=tmp_path).norms) == {7.0}
        assert fused == []


def test_it_is_off_unless_asked_for_and_revert_restores_the_classes() -> None:
    classes = [HOOKS.get(name) for name in HOOK_OPTIONS]
    before = [dict(vars(cls)) for cls in classes]
    steps = lambda: [state(vars(cls)["after_train_iter"]) for cls in classes]  # noqa: E731
    unpatched = steps()
    with pc.Patcher([OPTIMIZER_HOOKS], strict=True):
        assert [dict(vars(cls)) for cls in classes] == before
    with pc.Patcher([OPTIMIZER_HOOKS], enable="optimizer_hooks", strict=True):
        assert [HOOKS.get(name) for name in HOOK_OPTIONS] == classes
        assert not any(map(same, steps(), unpatched))
    assert [dict(vars(cls)) for cls in classes] == before
    assert all(map(same, steps(), unpatched))
