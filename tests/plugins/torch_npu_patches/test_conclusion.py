"""The last line of a run tells where CUDA calls went, or why nothing moved; without torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

import pytest

import patchcore as pc
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.planning.provenance import LOCAL_PROVENANCE
from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU, audit, conclusion
from torch_npu_patches.transfer_to_npu.audit import Place

COUNTER = audit.counter_of(Place("group", "torch:zeros", "device"))


@pytest.fixture(autouse=True)
def a_program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    audit.clear()
    yield
    audit.clear()


CALLS = audit.counter_of(Place("group", "torch:cuda.synchronize", ""))
READS = audit.counter_of(Place("group", "torch:Tensor.is_cuda", ""))
NOT_COUNTED = f"not counted are {', '.join(audit.NOT_COUNTED)}"
AVAILABLE = audit.counter_of(Place("group", "torch:cuda.is_available", ""))


def plan(verdict: str = "apply", reason: str = "") -> Plan:
    return Plan(tuple(PlannedPatch(patch, LOCAL_PROVENANCE, (), verdict, reason) for patch in TRANSFER_TO_NPU))


def described(planned: Optional[Plan] = None) -> list[str]:
    return list(conclusion.describe_move(plan() if planned is None else planned))


def note(before: str, after: str) -> None:
    COUNTER.note(before, after)


def call() -> None:
    CALLS.note_call(None, None)


def is_available(answer: bool) -> None:
    AVAILABLE.note_call(answer, answer)


def is_cuda(answer: bool) -> None:
    READS.note_read(answer, answer)


def test_devices_and_lines() -> None:
    for _ in range(3):
        note("cuda:1", "npu:1")
    assert described() == ["CUDA moved to npu:1 at 1 line (1 names CUDA)"]
    note("cuda", "npu")
    note("nccl", "hccl")
    assert described() == ["CUDA moved to npu:1 at 3 lines (3 name CUDA)"]


def test_numbers_and_calls_of_torch_cuda() -> None:
    def number() -> None:
        COUNTER.note_number(2)

    number()
    call()
    call()
    is_available(True)
    line = "CUDA moved to npu:2 at 4 lines (1 passes a device number, 3 call torch.cuda)"
    assert described() == [line]


def test_lines_of_installed_packages_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_INSTALLED", (Path(__file__).name,))
    call()
    assert described() == ["CUDA moved to npu at 1 line of installed packages (1 calls torch.cuda)"]
    program = {"__name__": "__main__", "CALLS": CALLS}
    exec(compile("(lambda: CALLS.note_call(None, None))()", "/work/train.py", "exec"), program)
    assert described() == ["CUDA moved to npu at 1 line (1 calls torch.cuda) and 1 line of installed packages"]


def test_a_program_without_cuda() -> None:
    assert described() == [f"nothing moved: no line uses CUDA; {NOT_COUNTED}"]


def test_the_page_says_what_is_not_counted() -> None:
    page = (Path(__file__).parents[3] / "docs" / "emulator.md").read_text()
    assert [way for way in audit.NOT_COUNTED if way not in page] == []


def test_disabled_patches_count_nothing() -> None:
    first, *others = plan().patches
    (line,) = described(Plan((first._replace(verdict="off"), *others)))
    assert line.startswith("nothing moved: no line uses CUDA; not counted are calls of disabled patches, ")


@pytest.mark.parametrize("value", ["", "-1"])
def test_no_line_and_no_device(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", value)
    hidden = f"no NPU is visible (ASCEND_RT_VISIBLE_DEVICES={value!r})"
    assert described() == [f"nothing moved: {hidden}, and no line uses CUDA; {NOT_COUNTED}"]
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "0")
    assert described() == [f"nothing moved: no line uses CUDA; {NOT_COUNTED}"]


def test_a_patch_that_is_off_by_default_is_not_mentioned() -> None:
    *others, apex = plan().patches
    assert described(Plan((*others, apex._replace(verdict="off")))) == described()


def test_a_look_that_is_answered_by_no_moves_nothing() -> None:
    is_cuda(False)
    assert described() == [f"nothing moved: the answer was no at 1 line (1 reads is_cuda); {NOT_COUNTED}"]
    is_cuda(True)
    assert described() == ["CUDA moved to npu at 1 line (1 reads is_cuda)"]


def test_a_program_that_chose_the_npu_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    npu = ModuleType("torch_npu.npu")
    monkeypatch.setitem(sys.modules, "torch_npu.npu", npu)
    npu._initialized = False  # type: ignore[attr-defined]
    assert described() == [f"nothing moved: no line uses CUDA; {NOT_COUNTED}"]
    npu._initialized = True  # type: ignore[attr-defined]
    by_name = "no line uses CUDA: the program or a library uses the NPU by its own name"
    assert described() == [f"{by_name}; {NOT_COUNTED}"]


@pytest.mark.parametrize(
    ("variables", "hidden"),
    [
        ({}, ""),
        ({"ASCEND_RT_VISIBLE_DEVICES": ""}, " (ASCEND_RT_VISIBLE_DEVICES='')"),
        ({"ASCEND_RT_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "-1"}, " (CUDA_VISIBLE_DEVICES='-1')"),
        ({"ASCEND_RT_VISIBLE_DEVICES": "9", "CUDA_VISIBLE_DEVICES": "0"}, " (ASCEND_RT_VISIBLE_DEVICES='9')"),
    ],
)
def test_no_npu_is_visible(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], hidden: str) -> None:
    for name in ("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    is_available(False)
    said = f"nothing moved: no NPU is visible{hidden}; 1 line uses CUDA (1 calls torch.cuda)"
    assert described() == [said]


@pytest.mark.parametrize("used", [True, False])
def test_a_hidden_npu_is_moved_to_only_if_it_was_used(monkeypatch: pytest.MonkeyPatch, used: bool) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "")
    module = ModuleType("torch_npu.npu")
    module._initialized = used
    monkeypatch.setitem(sys.modules, "torch_npu.npu", module)
    note("cuda", "npu")
    hidden = "nothing moved: no NPU is visible (ASCEND_RT_VISIBLE_DEVICES=''); 1 line uses CUDA (1 names CUDA)"
    assert described() == ["CUDA moved to npu at 1 line (1 names CUDA)" if used else hidden]


@pytest.mark.parametrize(("emulator", "advice"), [(True, ""), (False, f"{pc.install_command('npu-emulator')}; ")])
def test_no_npu(monkeypatch: pytest.MonkeyPatch, emulator: bool, advice: str) -> None:
    monkeypatch.setattr(conclusion, "find_module", lambda name: False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if emulator else None)
    said = f"no NPU found, nothing moved: torch_npu is not installed ({advice}--emulate-npu emulates one)"
    assert described(plan("skipped")) == [said]


def test_the_layer_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conclusion, "find_module", lambda name: True)
    switched_off = plan("skipped", reason="TORCH_TRANSFER_TO_NPU=0")
    assert described(switched_off) == [
        "nothing moved: TORCH_TRANSFER_TO_NPU=0 switches it off, unset it or set it to 1"
    ]


def test_the_vendors_adapter_is_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "torch_npu.contrib.transfer_to_npu"
    said = f"the program imports {name}, which moves CUDA too: calls that it moves are not counted"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    note("cuda", "npu")
    assert described() == ["CUDA moved to npu at 1 line (1 names CUDA)", said]
    audit.clear()
    monkeypatch.setattr(conclusion, "find_module", lambda name: True)
    assert described(plan("skipped", reason="TORCH_TRANSFER_TO_NPU=0")) == [said]
    monkeypatch.setitem(sys.modules, name, ModuleType(f"npu_emulator.{name}"))  # applies the same patches
    assert said not in described()


def test_nothing_is_said_where_it_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert described(plan("off")) == []  # disabled
    assert described(Plan(())) == []
    monkeypatch.delitem(sys.modules, "torch")
    assert described() == []


def test_patches_that_are_left_out_for_another_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Any = lambda name: True  # noqa: E731
    monkeypatch.setattr(conclusion, "find_module", found)
    too_old = "requires torch>=2.4, found torch 2.1"
    assert described(plan("skipped", reason=too_old)) == [f"nothing moved: {too_old}"]
