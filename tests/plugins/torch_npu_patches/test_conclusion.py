"""The last line of a run tells where CUDA calls went, or why nothing moved; without torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Optional

import pytest

from patchcore.planning.conditions import BY_CHOICE, BY_FIT
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.planning.provenance import LOCAL
from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU, audit, conclusion
from torch_npu_patches.transfer_to_npu.audit import Place

COUNTER = audit.counter_of(Place("group", "torch:zeros", "device"))


@pytest.fixture(autouse=True)
def a_program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    audit.clear()
    yield
    audit.clear()


def plan(status: str = "pending", cause: str = BY_FIT) -> Plan:
    return Plan(tuple(PlannedPatch(patch, LOCAL, (), status, cause=cause) for patch in TRANSFER_TO_NPU))


def described(planned: Optional[Plan] = None) -> list[str]:
    return list(conclusion.describe_move(plan() if planned is None else planned))


def note(before: str, after: str) -> None:
    COUNTER.note(before, after)


def test_devices_and_lines() -> None:
    for _ in range(3):
        note("cuda:1", "npu:1")
    assert described() == ["CUDA moved to npu:1 at 1 line"]
    note("cuda", "npu")
    note("nccl", "hccl")
    assert described() == ["CUDA moved to npu:1 at 3 lines"]


def test_without_a_number_it_is_the_npu() -> None:
    note("cuda", "npu")
    assert described() == ["CUDA moved to npu at 1 line"]


def test_a_program_without_cuda() -> None:
    assert described() == ["nothing moved: no call names CUDA"]


@pytest.mark.parametrize(("emulator", "advice"), [(True, ""), (False, "pip install npu-emulator; ")])
def test_no_npu(monkeypatch: pytest.MonkeyPatch, emulator: bool, advice: str) -> None:
    monkeypatch.setattr(conclusion, "find_module", lambda name: False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if emulator else None)
    said = f"no NPU found, nothing moved: torch_npu is not installed ({advice}--emulate-npu emulates one)"
    assert described(plan("skipped")) == [said]


def test_nothing_is_said_where_it_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert described(plan("skipped", BY_CHOICE)) == []  # disabled
    assert described(Plan(())) == []
    monkeypatch.delitem(sys.modules, "torch")
    assert described() == []


def test_patches_that_are_left_out_for_another_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Any = lambda name: True  # noqa: E731
    monkeypatch.setattr(conclusion, "find_module", found)
    assert described(plan("skipped")) == []  # torch is too old, say
