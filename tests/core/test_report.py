"""report.py: records, and text and JSON as two views of them."""

from __future__ import annotations

import importlib
import json
from types import ModuleType
from typing import Any, Optional

import pytest

import patchcore as pc
from patchcore.planning.candidates import Candidate
from patchcore.planning.provenance import Provenance
from patchcore.plugins import Plugins
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
        "patchcore: 1 applied, 1 skipped, 1 failed; 1 plugin problem",
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
        "asked_for": True,
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


class TestWhatNobodyAskedFor:
    RECORDS = (
        PatchRecord("lib.conv", "applied", "", "vision", "vision-patches", "1.0"),
        PatchRecord("lib.pool", "skipped", "pool is not installed", "vision", "vision-patches", "1.0", asked_for=False),
    )

    def test_it_is_counted_and_not_listed(self) -> None:
        assert str(Report(self.RECORDS)).splitlines() == [
            "patchcore: 1 applied",
            "  applied  lib.conv [vision-patches 1.0]",
            "  1 more patch skipped; patchcore list --all shows why",
        ]
        assert Report(self.RECORDS[1:]).summary() == "nothing applied"

    def test_of_many_changes_with_nothing_to_tell_three_are_listed(self) -> None:
        def lines(plain: int) -> list[str]:
            changes = [ChangeRecord("replace", f"lib:f{i}", "applied") for i in range(plain)]
            record = PatchRecord("lib.all", "applied", "", "vision", None, None, (*changes[:1], CONV, *changes[1:]))
            return str(Report((record,))).splitlines()[2:]

        told = ["replace lib:f0: applied", "replace lib.ops:conv: applied", "rebound lib:conv, user:f"]
        shown = [line.strip() for line in lines(20)]
        assert shown[:3] == told
        assert [line for line in shown if "lib:f" in line] == [f"replace lib:f{i}: applied" for i in range(3)]
        assert shown[-1] == "17 more: applied"
        assert len(lines(8)) == 8 + len(shown) - 4, "a few are listed"

    def test_programs_find_it(self) -> None:
        described = Report(self.RECORDS).to_dict()["patches"]
        assert [(patch["name"], patch["asked_for"]) for patch in described] == [("lib.conv", True), ("lib.pool", False)]

    def test_what_a_plugin_counts_itself_stands_with_the_counts(self) -> None:
        own = Section("other", mark="emulated", counts="other.patcher: 3 applied")
        assert Report(self.RECORDS, sections=(own,)).summary() == "1 applied; other.patcher: 3 applied (emulated)"
        assert Report(self.RECORDS[1:], sections=(own,)).summary() == "other.patcher: 3 applied (emulated)"

    @pytest.mark.parametrize(
        ("options", "settings", "distribution", "asked_for"),
        [
            ({}, {}, "vision-patches", False),
            ({}, {"disable": "absent"}, "vision-patches", False),
            ({}, {"enable": "absent"}, "vision-patches", True),
            ({"required": True}, {}, "vision-patches", True),
            ({}, {}, None, True),
            ({"default": False}, {}, None, False),
        ],
        ids=["a plugin's", "disabled", "enabled", "required", "local", "off by default"],
    )
    def test_a_patch_that_does_not_fit(
        self, options: dict[str, Any], settings: dict[str, Any], distribution: Optional[str], asked_for: bool
    ) -> None:
        patch = pc.Patch("absent", [pc.Replace("absent_library:f", len)], **options)
        provenance = Provenance("vision", distribution, distribution and "1.0")
        patcher = pc.Patcher([Candidate(patch, provenance)], **settings)
        (entry,) = patcher.plan()
        assert (entry.verdict == "apply", entry.asked_for) == (False, asked_for)

    def test_a_patch_of_an_option_that_does_not_fit(self) -> None:
        """Of the patches that --brake asks for, each is for another version of a library."""
        patch = pc.Patch("patchcore.step.absent", [pc.Replace("absent_library:f", len)])
        provenance = Provenance("patchcore.torch", "patchcore-torch", "1.0", group="patchcore_support")
        patcher = pc.Patcher([Candidate(patch, provenance)], enable="patchcore.step.absent")
        (entry,) = patcher.plan()
        assert (entry.verdict == "apply", entry.asked_for) == (False, False)

    def test_a_veto_is_told(self) -> None:
        plugins = Plugins(discover=False)
        plugins.manager.register(_Refuses(), "cautious")
        patch = pc.Patch("shadow", [pc.Replace("json:dumps", len)])
        with pc.Patcher([Candidate(patch, Provenance("vision", "vision-patches", "1.0"))], plugins=plugins) as patcher:
            (record,) = patcher.report().patches
        assert (record.status, record.asked_for) == ("skipped", True)

    def test_a_patch_that_turns_out_not_to_fit(self) -> None:
        patch = pc.Patch("shadow", [pc.Replace("json:dumps", factory=lambda original: pc.Skip("not here"))])
        with pc.Patcher([Candidate(patch, Provenance("vision", "vision-patches", "1.0"))]) as patcher:
            assert patcher.report().summary() == "nothing applied"


class _Refuses:
    @pc.hookimpl
    def before_apply(self) -> pc.Skip:
        return pc.Skip("not on Mondays")
