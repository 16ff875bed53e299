"""stderr.py: what fails is shown to a user who has not configured logging."""

from __future__ import annotations

import os

import pytest

#: A program that prints what it writes to stderr, and two patches of it that fail.
PROGRAM = """
import sys
sys.stderr = sys.stdout
import patchcore as pc

BAD = pc.Patch("shop.bad", [pc.Replace("shop:missing", len)])
WORSE = pc.Patch("shop.worse", [pc.Replace("shop:absent", len)])
GOOD = pc.Patch("shop.good", [pc.Replace("shop:price", lambda: 1)])
"""
FAILED = [
    "patchcore: patch shop.bad (local code) failed: replace shop:missing: shop has no missing (target shop:missing)",
    "patchcore: patch shop.worse (local code) failed: replace shop:absent: shop has no absent (target shop:absent)",
]
SUM = "patchcore: failed in this process, and not in force: shop.bad, shop.worse"


@pytest.fixture
def lines(run_python, make_package, monkeypatch):
    """Return a function that runs code after :data:`PROGRAM` and returns the lines that it prints."""
    monkeypatch.delenv("RANK", raising=False)
    make_package({"shop": "def price(): pass"})
    return lambda code: run_python(PROGRAM + code).splitlines()


def test_each_failure_is_a_line_and_their_sum_is_the_last(lines) -> None:
    assert lines("import shop; pc.Patcher([BAD, GOOD, WORSE]).apply(); print('done')") == [*FAILED, "done", SUM]


def test_what_fails_again_is_written_once(lines) -> None:
    code = "import shop\nfor _ in range(2):\n    with pc.Patcher([BAD, WORSE]): pass"
    assert lines(code) == [*FAILED, SUM]


def test_a_failure_in_a_later_import_is_written(lines) -> None:
    code = "pc.Patcher([BAD, WORSE]).apply(); print('applied'); import shop"
    assert lines(code) == ["applied", *FAILED, SUM]


def test_a_conflict_that_the_plan_finds_is_written(lines) -> None:
    code = "import shop; pc.Patcher([GOOD, pc.Patch('shop.other', [pc.Replace('shop:price', lambda: 2)])]).apply()"
    conflict, last = lines(code)
    assert conflict.startswith("patchcore: patch shop.other [local]: shop:price is patched by both")
    assert last == "patchcore: failed in this process, and not in force: shop.other"


def test_a_plugin_that_fails_is_written_without_its_traceback(lines) -> None:
    code = """
from patchcore.planning.provenance import Provenance
from patchcore.plugins import Plugins

def load():
    raise RuntimeError("no licence")

plugins = Plugins(discover=False)
plugins.load([(Provenance("team", "team-patches", "1.0"), load)])
pc.Patcher([], plugins=plugins).apply()
"""
    assert lines(code) == [
        "patchcore: plugin team (team-patches 1.0): load failed: RuntimeError: no licence",
        "patchcore: failed in this process, and not in force: plugin team",
    ]


@pytest.mark.parametrize(
    "configuration",
    [
        "logging.basicConfig(stream=open(os.devnull, 'w'))",
        "logging.getLogger('patchcore').addHandler(logging.NullHandler())",
        "logging.getLogger('patchcore').setLevel('CRITICAL')",
        "logging.getLogger('patchcore').propagate = False",
        "logging.disable()",
    ],
)
def test_a_program_that_configures_logging_decides_itself(lines, configuration) -> None:
    assert lines(f"import logging, os, shop; {configuration}; pc.Patcher([BAD, WORSE]).apply()") == []


@pytest.mark.parametrize("policy", ["ignore", "raise"])
def test_the_other_policies_write_no_line(lines, policy) -> None:
    code = f"""
import contextlib, shop
with contextlib.suppress(pc.PatchError):
    pc.Patcher([BAD], settings=pc.Settings(on_failure={policy!r})).apply()
"""
    assert lines(code) == []


def test_a_command_prints_what_failed_in_its_own_output_only(lines, make_package, monkeypatch) -> None:
    monkeypatch.setenv("PATCHCORE_PLUGINS", "")  # an installed plugin has advice on libraries that are not here
    make_package({"deals": "import patchcore as pc\n@pc.patch('shop:missing')\ndef f(): ...\n"
                  "@pc.hookimpl\ndef register_patches(): return [f]\n"})  # fmt: skip
    code = "from patchcore.cli import main; import shop; main(['check', '-p', 'deals', '--apply'])"
    assert [line for line in lines(code) if line.startswith("patchcore:")] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_sums_up_its_own_failures_only(lines) -> None:
    code = """
import os, shop
pc.Patcher([BAD]).apply()
if os.fork():
    os.wait()
else:
    pc.Patcher([WORSE]).apply()
"""
    assert lines(code) == [
        *FAILED,
        "patchcore: failed in this process, and not in force: shop.worse",
        "patchcore: failed in this process, and not in force: shop.bad",
    ]


def test_the_rank_stands_before_the_line(lines, monkeypatch) -> None:
    monkeypatch.setenv("RANK", "3")
    assert lines("import shop; pc.Patcher([BAD]).apply()")[0] == FAILED[0].replace(":", " [rank 3]:", 1)
