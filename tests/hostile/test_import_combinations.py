"""Changes of imports together: in one patch, in two, in any order, below stubs and beside them."""

from __future__ import annotations

import importlib
import itertools
import sys
from typing import Any

import pytest

import patchcore as pc

LIBRARY = {
    "npu_x": "def attention(): return 'npu'",
    "npu_x.ops": "def attention(): return 'npu ops'",
    "user_x": "VALUE = 1",
}


def new() -> str:
    return "new"


#: Changes of a library that is not installed, and what the import that they are about gives.
STUB = pc.StubImport("gone_x")
CHANGES: dict[str, tuple[pc.Change, Any]] = {
    "stub child": (pc.StubImport("gone_x.extra"), lambda: importlib.import_module("gone_x.extra").Any),
    "replace child": (
        pc.ReplaceImport("gone_x.ops", with_="npu_x.ops"),
        lambda: importlib.import_module("gone_x.ops").attention() == "npu ops",
    ),
    "replace grandchild": (
        pc.ReplaceImport("gone_x.deep.ops", with_={"attention": new}),
        lambda: importlib.import_module("gone_x.deep.ops").attention() == "new",
    ),
    "inject": (
        pc.InjectImport("npu_x", "attention", "gone_x"),
        lambda: importlib.import_module("gone_x").attention() == "npu",
    ),
    "inject into a child": (
        pc.InjectImport("npu_x", "attention", "gone_x.inner"),
        lambda: importlib.import_module("gone_x.inner").attention() == "npu",
    ),
    "create": (
        pc.Replace("gone_x.made:name", new, create=True),
        lambda: importlib.import_module("gone_x.made").name() == "new",
    ),
}
#: Those that only have to be there before the import. What is written into a stub belongs in the patch of the stub.
IMPORTS = {name: CHANGES[name] for name in ("stub child", "replace child", "replace grandchild")}


@pytest.fixture(autouse=True)
def library(make_package: Any) -> None:
    make_package(LIBRARY)


def check(patcher: pc.Patcher, *uses: Any) -> None:
    plan = patcher.plan()
    assert all(entry.verdict == "apply" for entry in plan), str(plan)
    with patcher:
        for use in uses:
            assert use()
        report = patcher.report()
        assert [record.status for record in report.patches] == ["applied"] * len(report.patches), str(report)
    assert not [name for name in sys.modules if name.partition(".")[0] == "gone_x"]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "names", [*itertools.permutations(CHANGES, 1), *itertools.permutations(CHANGES, 2)], ids=", ".join
)
@pytest.mark.parametrize("stub_first", [True, False])
def test_changes_of_one_patch_go_together_with_its_stub(names: tuple[str, ...], stub_first: bool) -> None:
    changes = [CHANGES[name][0] for name in names]
    changes = [STUB, *changes] if stub_first else [*changes, STUB]
    check(pc.Patcher([pc.Patch("patch", changes)], strict=True), *(CHANGES[name][1] for name in names))


@pytest.mark.parametrize("name", IMPORTS)
@pytest.mark.parametrize("order", ["stub first", "stub last", "declared"])
def test_changes_of_imports_go_together_with_the_stub_of_another_patch(name: str, order: str) -> None:
    change, use = IMPORTS[name]
    stub = pc.Patch("stub", [STUB])
    patch = pc.Patch("patch", [change], after=[stub] if order == "declared" else ())
    patches = [patch, stub] if order == "stub last" else [stub, patch]
    check(pc.Patcher(patches, strict=True), use)


def test_a_replaced_library_carries_other_changes_of_its_patch() -> None:
    changes = [pc.ReplaceImport("gone_x", with_="npu_x"), pc.Replace("gone_x.ops:attention", new)]
    check(
        pc.Patcher([pc.Patch("patch", changes)], strict=True),
        lambda: importlib.import_module("gone_x.ops").attention is new,
    )
    assert importlib.import_module("npu_x.ops").attention() == "npu ops"


def test_stubs_inside_a_window_carry_the_changes_inside_it_only(make_package: Any) -> None:
    make_package({"picky_x": "from gone_x.ops import attention\nresult = attention()"})
    inner = [STUB, CHANGES["replace child"][0]]
    check(
        pc.Patcher([pc.Patch("patch", [pc.WhileImporting("picky_x", inner)])], strict=True),
        lambda: importlib.import_module("picky_x").result == "npu ops",
    )
    changes = [pc.WhileImporting("picky_x", STUB), CHANGES["replace child"][0]]
    assert pc.Patcher([pc.Patch("patch", changes)]).plan()["patch"].reason == "gone_x is not installed"


def test_nothing_else_fits_because_of_the_stub_of_another_patch() -> None:
    stub = pc.Patch("stub", [STUB])
    for patch, reason in (
        (pc.Patch("patch", [pc.Replace("gone_x.ops:attention", new)]), "gone_x is not installed"),
        (pc.Patch("patch", [CHANGES["inject into a child"][0]]), "gone_x is not installed"),
        (
            pc.Patch("patch", [pc.Replace("user_x:VALUE", 2)], requires="gone_x"),
            "requires gone_x, gone_x is not installed",
        ),
        (
            pc.Patch("patch", [pc.Replace("user_x:VALUE", 2)], needs=["gone_x"]),
            "needs module gone_x, which is neither installed nor emulated here (patches add only a stub of it)",
        ),
    ):
        assert pc.Patcher([stub, patch]).plan()["patch"].reason == reason


def test_a_condition_is_asked_once() -> None:
    asked = []
    patch = pc.Patch("patch", [CHANGES["replace child"][0]], when=lambda: bool(asked.append(1)) or True)
    refused = pc.Patch("refused", [CHANGES["stub child"][0]], when=lambda: bool(asked.append(1)))
    pc.Patcher([pc.Patch("stub", [STUB]), patch, refused]).plan()
    assert asked == [1, 1]


@pytest.mark.parametrize("name", CHANGES)
def test_where_the_library_is_installed_its_own_modules_stay(make_package: Any, name: str) -> None:
    make_package({**{f"gone_x.{inner}": "" for inner in ("extra", "ops", "deep.ops", "inner", "made")}, "gone_x": ""})
    with pc.Patcher([pc.Patch("patch", [STUB, CHANGES[name][0]])], strict=True) as patcher:
        importlib.import_module("gone_x.made")
        statuses = [change.status for change in patcher.report()["patch"].changes]
    assert statuses[0] == "skipped"
    del sys.modules["gone_x"]
