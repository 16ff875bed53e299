"""Kernels that a plugin emulates compute tensors on the CPU; real ones do not."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch

import patchcore as pc
from mmcv_npu import kernels, plugin
from patchcore.plugin import Plugins

NEEDS_KERNELS = pc.Patch("mmcv.demo", pc.Replace("statistics:mean", min), needs="mx_driving")


class Emulation:
    @pc.hookimpl
    def emulated_devices(self) -> list[str]:
        return ["npu"]


def applied_with(*plugins: object) -> pc.Patcher:
    loaded = Plugins(discover=False)
    for number, each in enumerate((plugin, *plugins)):
        loaded.add(each, f"demo{number}")
    patcher = pc.Patcher(plugins=loaded)
    context = SimpleNamespace(patcher=patcher)
    plugin.before_apply(NEEDS_KERNELS, context, planning=False)  # type: ignore[arg-type]
    return patcher


def test_a_tensor_on_the_cpu_is_taken_while_a_patcher_has_the_emulation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_with_emulation", weakref.WeakSet())
    monkeypatch.setattr(kernels, "_emulated", False)
    monkeypatch.delattr(torch, "npu", raising=False)
    tensor = torch.zeros(1)
    without = applied_with()
    assert not without.plugins.emulated_devices()
    assert not kernels.takes(tensor)
    emulated = applied_with(Emulation())
    assert kernels.takes(tensor)
    other = applied_with()  # its answer holds for itself only
    assert other is not emulated
    assert kernels.takes(tensor)
    del emulated
    gc.collect()
    applied_with()
    assert not kernels.takes(tensor)


def test_compiled_code_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_with_emulation", weakref.WeakSet())
    monkeypatch.setattr(kernels, "_emulated", False)
    monkeypatch.delattr(torch, "npu", raising=False)

    @torch.compile(backend="eager", fullgraph=True)
    def dispatched(tensor: torch.Tensor) -> torch.Tensor:
        return tensor + 1 if kernels.takes(tensor) else tensor - 1

    assert dispatched(torch.zeros(1)).item() == -1
    emulated = applied_with(Emulation())
    assert kernels.takes(torch.zeros(1))
    assert dispatched(torch.zeros(1)).item() == 1
    del emulated


def test_a_plan_notes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_with_emulation", weakref.WeakSet())
    loaded = Plugins(discover=False)
    loaded.add(Emulation(), "emulation")
    context = SimpleNamespace(patcher=pc.Patcher(plugins=loaded))
    plugin.before_apply(NEEDS_KERNELS, context, planning=True)  # type: ignore[arg-type]
    assert not kernels._with_emulation
