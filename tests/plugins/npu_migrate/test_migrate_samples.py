"""``patchcore migrate`` on programs of many kinds: what they become, and what is said about them.

Each folder of ``migrate_samples`` holds a program ``input.py``, ``expected.diff`` with the lines that change, and
``findings.json``. One sample is a program of ``examples/`` and has no ``input.py``. After a deliberate change,
``UPDATE_SAMPLES=1 python -m pytest -k test_migrate_samples`` writes the last two anew; review the difference.
"""

from __future__ import annotations

import ast
import difflib
import functools
import json
import os
from pathlib import Path

import pytest

pytest.importorskip("libcst")

from npu_migrate.migrate.convert import Conversion, convert
from npu_migrate.migrate.rules import RuleTable, built_in_rules

SAMPLES = Path(__file__).parents[2] / "migrate_samples"
NAMES = sorted(path.parent.name for path in SAMPLES.glob("*/expected.diff"))
EXAMPLES = {"ddp_script": SAMPLES.parents[1] / "examples" / "train_cuda.py"}
TABLE = RuleTable(built_in_rules())


def program(name: str) -> str:
    return EXAMPLES.get(name, SAMPLES / name / "input.py").read_text(encoding="utf-8")


def converted(name: str) -> Conversion:
    return again(name, program(name))


@functools.cache  # most of the time of these tests; what it returns cannot be changed
def again(name: str, source: str) -> Conversion:
    return convert(source, TABLE, "input.py", distributed=name.startswith("distributed_"))


def changed_lines(name: str) -> str:
    """The lines that the conversion removes and adds, without the lines around them."""
    before, after = program(name).splitlines(keepends=True), converted(name).source.splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, "input.py", "expected.py", n=0))


def rows(conversion: Conversion) -> list[list[str]]:
    """The findings without their notes, which are texts of the rules."""
    return [
        [f"{finding.line}:{finding.column}", finding.level, finding.rule, finding.before, finding.after]
        for finding in conversion.findings
    ]


def as_json(found: list[list[str]]) -> str:
    return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in found) + "\n]\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_becomes_what_is_expected(name: str) -> None:
    conversion = converted(name)
    expected, findings = SAMPLES / name / "expected.diff", SAMPLES / name / "findings.json"
    if os.environ.get("UPDATE_SAMPLES"):
        expected.write_text(changed_lines(name), encoding="utf-8")
        findings.write_text(as_json(rows(conversion)), encoding="utf-8")
    assert changed_lines(name) == expected.read_text(encoding="utf-8")
    assert rows(conversion) == json.loads(findings.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_a_second_pass_changes_nothing(name: str) -> None:
    first = converted(name)
    second = again(name, first.source)
    assert second.source == first.source
    assert [finding for finding in second.findings if finding.level == "change"] == []


@pytest.mark.parametrize("name", NAMES)
def test_what_comes_out_is_python(name: str) -> None:
    ast.parse(converted(name).source)


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_about_what_stands_in_their_place(name: str) -> None:
    conversion = converted(name)
    lines = program(name).splitlines()
    for finding in conversion.findings:
        if finding.level == "operator":  # named, not quoted
            continue
        start = finding.before.partition("\n")[0].partition(" ...")[0].partition("\\")[0].strip(" (")
        line = lines[finding.line - 1]
        assert start in line or line.strip(" (\\").startswith(start[:1]), finding
