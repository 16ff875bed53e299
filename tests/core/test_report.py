"""report.py: records, and text and JSON as two views of them."""

from __future__ import annotations

import importlib
import json
from types import ModuleType

import pytest

import patchcore as pc
from patchcore.report import SCHEMA_VERSION, ChangeRecord, PatchRecord, Problem, Report, Section

CONV = ChangeRecord(
    "replace",
    "lib.ops:conv",
    "applied",
    slots=("lib.ops:conv",),
    rebound=("lib:conv", "user:f"),
    kept=("plug:plain",),
    unreachable=("closure user:g (user.py:3)",),
)
POOL = ChangeRecord("wrap", "lib:Pool.f", "applied", "through lib.ops:Pool.f", slots=("lib:Pool.f", "lib.ops:Pool.f"))
REPORT = Report(
    (
        PatchRecord("lib.conv", "applied", "", "vision", "vision-patches", "1.0", (CONV, POOL)),
        PatchRecord("lib.text", "skipped", "text is not installed", "local", None, None),
        PatchRecord("lib.bad", "failed", "lib has no x", "vision", "vision-patches", None),
    ),
    (Problem("broken", "load", "RuntimeError: no", "broken-patches", "0.1", "Traceback ..."),),
    ("somebody was here",),
    {"rank": 1, "pid": 7},
)


def test_the_text_view() -> None:
    assert str(REPORT).splitlines() == [
        "patchcore: 1 applied, 1 skipped, 1 failed; 1 plugin problems",
        "  applied  lib.conv [vision-patches 1.0]",
        "           replace lib.ops:conv: applied",
        "             rebound lib:conv, user:f",
        "             kept plug:plain",
        "             unreachable closure user:g (user.py:3)",
        "           wrap lib:Pool.f: applied (through lib.ops:Pool.f)",
        "             wrote lib.ops:Pool.f",
        "  skipped  lib.text [local]: text is not installed",
        "  failed   lib.bad [vision-patches]: lib has no x",
        "  problem: plugin broken (broken-patches 0.1): load failed: RuntimeError: no",
        "  note: somebody was here",
    ]


def test_sections_follow_and_their_marks_end_the_summary() -> None:
    sections = (Section("npu", ("8 devices", "chip X"), mark="emulated"), Section("audit", ("a.py:1",), data=[1]))
    report = Report((), sections=sections)
    assert str(report).splitlines() == [
        "patchcore: no patches (emulated)",
        "  npu:",
        "    8 devices",
        "    chip X",
        "  audit:",
        "    a.py:1",
    ]
    view = json.loads(report.to_json())["sections"]
    assert [section["title"] for section in view] == ["npu", "audit"]
    assert (view[0]["mark"], view[1]["data"]) == ("emulated", [1])


def test_the_json_view_has_everything_and_a_schema_version() -> None:
    view = json.loads(REPORT.to_json())
    assert view["schema_version"] == SCHEMA_VERSION == 1
    assert sorted(view) == [
        "environment",
        "never_hit",
        "notes",
        "patches",
        "problems",
        "schema_version",
        "sections",
        "summary",
    ]
    assert view["patches"][0] == {
        "name": "lib.conv",
        "status": "applied",
        "reason": "",
        "plugin": "vision",
        "distribution": "vision-patches",
        "version": "1.0",
        "remarks": [],
        "changes": [
            {
                "kind": "replace",
                "target": "lib.ops:conv",
                "status": "applied",
                "reason": "",
                "slots": ["lib.ops:conv"],
                "rebound": ["lib:conv", "user:f"],
                "kept": ["plug:plain"],
                "unreachable": ["closure user:g (user.py:3)"],
                "calls": None,
                "replaced": None,
                "missed": "",
            },
            {
                "kind": "wrap",
                "target": "lib:Pool.f",
                "status": "applied",
                "reason": "through lib.ops:Pool.f",
                "slots": ["lib:Pool.f", "lib.ops:Pool.f"],
                "rebound": [],
                "kept": [],
                "unreachable": [],
                "calls": None,
                "replaced": None,
                "missed": "",
            },
        ],
    }
    assert view["problems"][0]["traceback"] == "Traceback ..."
    assert view["notes"] == ["somebody was here"]
    assert view["environment"] == {"rank": 1, "pid": 7}
    assert view["summary"] == REPORT.summary()


def test_a_record_is_found_by_name_or_the_error_says_what_there_is() -> None:
    assert REPORT["lib.text"].reason == "text is not installed"
    with pytest.raises(KeyError, match=r"no patch 'lib\.conf' in this report; it has lib\.conv, lib\.text, lib\.bad"):
        REPORT["lib.conf"]
    with pytest.raises(KeyError, match="it has none"):
        Report(())["x"]


def test_ok_means_that_no_patch_and_no_plugin_failed() -> None:
    assert not REPORT.ok
    assert not Report((), REPORT.problems).ok
    assert not Report(REPORT.patches).ok
    assert Report(REPORT.patches[:2]).ok


def test_the_summary_of_nothing() -> None:
    assert Report(()).summary() == "no patches"


def test_a_problem_without_a_distribution_or_version() -> None:
    assert str(Problem("mine", "load", "why")) == "plugin mine: load failed: why"
    assert str(Problem("mine", "load", "why", "dist")) == "plugin mine (dist): load failed: why"


@pytest.fixture
def shop(make_package) -> ModuleType:
    make_package({"shop": "def price(item): return 'price'\nclass Item:\n    def weigh(self): pass"})
    return importlib.import_module("shop")


def test_the_report_of_a_real_apply(make_package, shop) -> None:
    make_package({"later": "", "user": "from shop import price as cost"})
    import user  # noqa: F401

    patches = [
        pc.Patch("a.applied", [pc.Replace("shop:price", len), pc.Wrap("shop:Item.weigh", max)]),
        pc.Patch("b.pending", [pc.Replace("later:f", len)]),
        pc.Patch("c.skipped", [pc.Replace("nolibrary:f", len)]),
        pc.Patch("d.failed", [pc.Replace("shop:prise", len)]),
    ]
    patcher = pc.Patcher(patches)
    report = patcher.apply()
    assert str(report) == "\n".join(
        [
            "patchcore: 1 applied, 1 pending, 1 skipped, 1 failed",
            "  applied  a.applied [local]",
            "           replace shop:price: applied",
            "             rebound user:cost",
            "           wrap shop:Item.weigh: applied",
            "  pending  b.pending [local]: waits for the import of later",
            "           replace later:f: pending (waits for the import of later)",
            "  skipped  c.skipped [local]: nolibrary is not installed",
            "           replace nolibrary:f: skipped",
            "  failed   d.failed [local]: shop has no prise (target shop:prise); did you mean 'price'?",
            "           replace shop:prise: failed (shop has no prise (target shop:prise); did you mean 'price'?)",
        ]
    )
    json.loads(report.to_json())
    facts = {"python", "executable", "host", "pid", "parent", "rank", "ranks", "program", "name", "directory"}
    assert facts == set(report.environment)
    after = patcher.revert()
    assert after.summary() == "1 skipped, 1 failed, 2 reverted"
    json.loads(after.to_json())
