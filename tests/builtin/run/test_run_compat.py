"""``patchcore run --compat NAME``: plugins bring the interfaces of other patchers, by the hook ``register_compat``."""

from __future__ import annotations

import pytest
from programs import SHOP, Programs

#: An interface that a third party brings: programs import ``oldpatch``, and say what it is to do.
OLDPATCH = """
import os, sys
import patchcore as pc
from patchcore.builtin.run.compat import Compat

def take_part(patcher):
    sys.path.append(os.path.join(os.path.dirname(__file__), "of_old_compat"))
    print("taking part", flush=True)

@pc.hookimpl
def register_compat():
    yield Compat("oldpatch", modules=("oldpatch",), take_part=take_part)
"""
FILES = {"old_compat.py": OLDPATCH, "of_old_compat/oldpatch.py": "def patch(name): return f'{name}, by patchcore'\n"}
WRONG = """
import patchcore as pc

@pc.hookimpl
def register_compat():
    return ["oldpatch"]
"""
PROGRAM = "import oldpatch\nprint(oldpatch.patch('shop'), flush=True)\n"


@pytest.fixture
def shop(programs: Programs) -> Programs:
    programs.write({**SHOP, "program.py": PROGRAM})
    return programs


def run(shop: Programs, *arguments: str, code: int = 0, **environment: str) -> tuple[str, str]:
    done = shop.run(shop.patchcore, *arguments, code=code, **environment)
    return done.stdout, done.stderr


def test_a_plugin_brings_one(shop: Programs) -> None:
    shop.install(FILES, "oldpatch-compat", oldpatch="old_compat")
    assert run(shop, "--compat", "oldpatch", "program.py")[0] == "taking part\nshop, by patchcore\n"
    assert "No module named 'oldpatch'" in run(shop, "program.py", code=1)[1]


def test_a_child_process_wakes_when_it_imports_one_of_its_modules(shop: Programs) -> None:
    shop.install(FILES, "oldpatch-compat", oldpatch="old_compat")
    shop.write({"parent.py": "import subprocess, sys\nsubprocess.run([sys.executable, 'program.py'], check=True)\n"})
    out, _ = run(shop, "--compat", "oldpatch", "parent.py")
    assert out.splitlines() == ["taking part", "taking part", "shop, by patchcore"]


def test_choosing_plugins_does_not_leave_it_out(shop: Programs) -> None:
    """--plugin is about patches; what is asked for by its own name is wanted."""
    shop.install(FILES, "oldpatch-compat", oldpatch="old_compat")
    shop.install(
        {"other.py": "import patchcore as pc\n@pc.hookimpl\ndef register_patches(): return []\n"}, "o", o="other"
    )
    assert "shop, by patchcore" in run(shop, "--plugin", "o", "--compat", "oldpatch", "program.py")[0]
    assert "shop, by patchcore" in run(shop, "--compat", "oldpatch", "program.py", PATCHCORE_PLUGINS="")[0]


def test_an_unknown_name_is_refused_before_anything_starts(shop: Programs) -> None:
    shop.install(FILES, "oldpatch-compat", oldpatch="old_compat")
    out, error = run(shop, "--compat", "oldpach", "program.py", code=2)
    assert out == ""
    assert "--compat = 'oldpach'; expected one of mindspeed, mx_driving, oldpatch" in error
    assert "did you mean 'oldpatch'" in error
    _, error = run(shop, "program.py", code=2, PATCHCORE_COMPAT="oldpach")
    assert "PATCHCORE_COMPAT = 'oldpach'" in error


def test_one_that_can_be_installed_is_named_with_the_line_that_does(shop: Programs) -> None:
    out, error = run(shop, "--compat", "mx_driving", "program.py", code=2)
    assert out == ""
    assert "--compat: 'mx_driving' is not installed; " in error
    assert error.rstrip("'\n").endswith("/plugins/mx_driving_compat")  # quoted in a folder with a space


def test_other_commands_do_not_need_it(shop: Programs) -> None:
    done = shop.run([*shop.python, "-m", "patchcore", "list"], PATCHCORE_COMPAT="mx_driving")
    assert "mx_driving" not in done.stderr


def test_a_plugin_that_returns_something_else_is_told(shop: Programs) -> None:
    shop.install({"wrong.py": WRONG}, "wrong", wrong="wrong")
    _, error = run(shop, "--compat", "oldpatch", "program.py", code=2)
    assert "expected Compat(name, modules, take_part), got 'oldpatch'" in error
