"""Kernels that a plugin emulates compute tensors on the CPU; real ones do not."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

import patchcore as pc
from mmcv_npu import kernels, plugin
from patchcore.plugin import Plugins

torch = pytest.importorskip("torch")

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
    monkeypatch.setattr(kernels, "_with_emulation", {})
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
    assert not kernels.takes(tensor)


def test_a_plan_notes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_with_emulation", {})
    loaded = Plugins(discover=False)
    loaded.add(Emulation(), "emulation")
    context = SimpleNamespace(patcher=pc.Patcher(plugins=loaded))
    plugin.before_apply(NEEDS_KERNELS, context, planning=True)  # type: ignore[arg-type]
    assert not kernels._with_emulation
