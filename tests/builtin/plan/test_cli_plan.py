"""``patchcore plan --compat NAME -- ARGUMENTS``: runs the module that the plugin of the interface names."""

from __future__ import annotations

import pytest
from programs import Programs

PLUGIN = """
import patchcore as pc
from patchcore.plugin import Compat

@pc.hookimpl(optionalhook=True)
def register_compat():
    yield Compat("oldpatch", ["oldpatch"], take_part=lambda patcher: print("taking part"), plan="old_plan")
    yield Compat("silent", ["silent"], take_part=lambda patcher: None)
"""
PLAN = """
import sys
print("planned for", sys.argv[1:])
sys.exit(1)
"""


@pytest.fixture
def shop(programs: Programs) -> Programs:
    programs.install({"old_compat.py": PLUGIN, "old_plan.py": PLAN}, "old-compat", oldpatch="old_compat")
    programs.patchcore[-1] = "plan"
    return programs


def test_the_module_gets_the_arguments_of_the_program(shop: Programs) -> None:
    done = shop.run(shop.patchcore, "--compat", "oldpatch", "--", "--layers", "2", "--", "x", code=1)
    assert done.stdout.splitlines() == ["taking part", "planned for ['--layers', '2', '--', 'x']"]
    done = shop.run(shop.patchcore, code=1, PATCHCORE_COMPAT="oldpatch")
    assert done.stdout.splitlines()[-1] == "planned for []"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "no interface is named; write: patchcore plan --compat NAME -- ARGUMENTS, where NAME is one of oldpatch"),
        (["--compat", "silent"], "silent: 0 interfaces of these can plan; write: patchcore plan --compat NAME"),
        (["--compat", "oldpach"], "did you mean 'oldpatch'?"),
    ],
)
def test_an_interface_that_cannot_plan_is_refused(shop: Programs, arguments: list[str], problem: str) -> None:
    done = shop.run(shop.patchcore, *arguments, "--", code=2)
    assert problem in done.stderr
    assert done.stdout == ""


def test_the_help_says_what_it_is_for(shop: Programs) -> None:
    out = shop.run(shop.patchcore, "--help").stdout
    assert "usage: patchcore plan --compat NAME [options of patchcore run] -- [arguments of the program]" in out
    assert "--report-dir" in out
