"""Which torch_npu an emulated NPU has, without torch: the choice, its reason, and what it says to install."""

from __future__ import annotations

import argparse
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Optional

import pytest

import patchcore as pc

adapter = pytest.importorskip("npu_emulator.adapter", reason="needs the plugins of this repository")

from npu_emulator import EmulationError  # noqa: E402
from npu_emulator.adapter import CANN, IMITATION, choose  # noqa: E402


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that a wheel serves, with torch 2.13.0 and fake-cann, and without torch_npu."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "version_info", (3, 11, 0, "final", 0))
    monkeypatch.setattr(metadata, "version", lambda name: "2.13.0+cpu")
    has(monkeypatch)


def has(monkeypatch: pytest.MonkeyPatch, *, torch_npu: bool = False, fake_cann: bool = True) -> None:
    """Let the machine have these libraries."""
    monkeypatch.setattr(adapter, "torch_npu_is_installed", lambda: torch_npu)
    monkeypatch.setattr(adapter, "_has_fake_cann", lambda: fake_cann)


def test_with_both_it_is_the_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, torch_npu=True)
    assert choose(environ={}) == adapter.Choice(CANN)
    assert choose("auto", environ={}) == adapter.Choice(CANN)


def test_without_the_wheel_it_is_the_imitation_with_the_command_that_installs_it() -> None:
    chosen = choose(environ={})
    assert chosen.adapter == IMITATION
    assert chosen.why == f"the real torch_npu runs on this machine, too: {pc.install_command('torch_npu==2.13.0')}"


def test_without_both_both_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, fake_cann=False)
    both = f"{pc.install_command('fake-cann')} && {pc.install_command('torch_npu==2.13.0')}"
    assert choose(environ={}).why.endswith(both)


@pytest.mark.parametrize(
    ("system", "machine", "python", "torch", "why"),
    [
        ("darwin", "arm64", 11, "2.13.0", "runs on Linux on x86_64 or aarch64, found darwin on arm64"),
        ("linux", "riscv64", 11, "2.13.0", "runs on Linux on x86_64 or aarch64, found linux on riscv64"),
        ("linux", "aarch64", 9, "2.13.0", "is for Python 3.10 to 3.14, found 3.9"),
        ("linux", "x86_64", 9, "2.13.0", "is for Python 3.10 to 3.14, found 3.9"),
        ("linux", "x86_64", 11, "2.6.0", "runs with torch 2.13.0 and 2.14.0, found 2.6.0"),
    ],
)
def test_where_no_wheel_serves_the_reason_is_the_machine(
    system: str, machine: str, python: int, torch: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "version_info", (3, python, 0, "final", 0))
    monkeypatch.setattr(metadata, "version", lambda name: torch)
    assert choose(environ={}) == adapter.Choice(IMITATION, f"the real torch_npu {why}")


@pytest.mark.parametrize("torch_npu", [False, True])
def test_a_name_decides_and_needs_no_reason(torch_npu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, torch_npu=torch_npu)
    expected = adapter.Choice(IMITATION, explicit=True)
    assert choose(IMITATION, environ={}) == choose(environ={adapter.ADAPTER: IMITATION}) == expected


@pytest.mark.parametrize(("torch_npu", "fake_cann"), [(False, True), (True, False)])
def test_the_real_one_is_refused_by_its_name_where_it_cannot_run(
    torch_npu: bool, fake_cann: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    has(monkeypatch, torch_npu=torch_npu, fake_cann=fake_cann)
    missing = "torch_npu==2.13.0" if fake_cann else "fake-cann"
    with pytest.raises(EmulationError) as caught:
        choose(CANN, environ={})
    assert str(caught.value).endswith(f": {pc.install_command(missing)}")


@pytest.mark.parametrize(
    ("core", "environ", "has_it"),
    [
        ("python", {}, "core='python'"),
        (None, {"NPU_EMULATOR_CORE": "native"}, "NPU_EMULATOR_CORE=native"),
        (None, {"NPU_EMULATOR_STRICT_DTYPES": "1"}, "NPU_EMULATOR_STRICT_DTYPES=1"),
    ],
)
def test_a_setting_of_the_imitation_decides_for_it_and_is_the_reason(
    core: Optional[str], environ: dict[str, str], has_it: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has(monkeypatch, torch_npu=True)
    assert choose(core=core, environ=environ) == adapter.Choice(IMITATION, f"only the imitation has {has_it}", True)
    assert choose(CANN, core=core, environ=environ).adapter == CANN


@pytest.mark.parametrize(("where", "environ"), [("adapter", {}), (adapter.ADAPTER, {adapter.ADAPTER: "imitaton"})])
def test_another_name_is_refused_with_the_nearest(where: str, environ: dict[str, str]) -> None:
    wanted = None if environ else "imitaton"
    with pytest.raises(EmulationError) as caught:
        choose(wanted, environ=environ)
    expected = f"{where} is one of auto, cann, imitation, found 'imitaton'; did you mean 'imitation'?"
    assert str(caught.value) == f"npu_emulator: {expected}"


def test_an_imitation_of_somebody_else_is_not_the_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    package = tmp_path / "torch_npu"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert not adapter.torch_npu_is_installed()
    (package / "lib").mkdir()
    (package / "lib" / "libtorch_npu.so").touch()
    assert adapter.torch_npu_is_installed()


def test_settings_of_the_imitation_reach_the_fake_cann_unless_it_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"NPU_EMULATOR_DEVICES": "2", "NPU_EMULATOR_RANDOM": "cpu", "FAKE_CANN_RANDOM": "device"}
    monkeypatch.setattr(adapter.os, "environ", environ)
    adapter.translate()
    assert (environ["FAKE_CANN_DEVICES"], environ["FAKE_CANN_RANDOM"]) == ("2", "device")


def test_the_options_of_a_run() -> None:
    from npu_emulator.plugin import register_run_options

    parser = argparse.ArgumentParser()
    register_run_options(parser)
    assert {"--emulate-npu", "--emulate-npu=imitation"} <= set(parser._option_string_actions)
