"""Test modules: pytest compiles them itself, with asserts that it has rewritten, and keeps bytecode of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = '''
"""What a shop sells."""
from __future__ import annotations

def name():
    return "apple"

def test_name():
    assert name() == "pear"

def test_message():
    value = name()
    assert value + "s" == "plums"
'''
RUN = """
import ast, sys
import pytest
import patchcore as pc

class Pears(ast.NodeTransformer):
    def __init__(self, source):
        self.source, self.lines = source, set()

    def visit_Constant(self, node):
        if node.value != "apple":
            return node
        self.lines.add(node.lineno)
        call = ast.Call(self.source.reference("os.path:basename"), [ast.Constant("fruits/pear")], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

def edit(tree, source):
    assert source.name == "test_shop"
    pears = Pears(source)
    pears.visit(tree)
    return pears.lines

def concerns(name, file):
    return name.startswith("test_")

rules = pc.Rules(edit, words="apple", concerns=concerns)
patcher = pc.Patcher([pc.Patch("fruit", [pc.Rewrite("*", rules)])], plugins=[])
if "patched" in sys.argv:
    patcher.apply()
print("code", int(pytest.main(["-q", "-p", "no:cacheprovider", "test_shop.py"])))
shop = sys.modules["test_shop"]
print("name", shop.name())
if "patched" in sys.argv:
    print(patcher.report()["fruit"].changes[0].reason)
    patcher.revert()
    print("reverted", shop.name())
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs the tests in a process of its own, and returns its output."""
    (tmp_path / "test_shop.py").write_text(TESTS)
    (tmp_path / "run.py").write_text(RUN)
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }

    def run(*arguments: str) -> str:
        command = [sys.executable, "run.py", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def kept(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("__pycache__/test_shop*"))]


def test_tests_are_edited_and_their_asserts_are_rewritten(run: Callable[..., str], tmp_path: Path) -> None:
    output = run("patched")
    assert "1 failed, 1 passed" in output
    assert "assert 'pears' == 'plums'" in output  # pytest shows the values
    assert "name pear" in output
    assert "1 line in 1 module" in output
    assert "reverted apple" in output
    assert kept(tmp_path) == []  # no edited bytecode


def test_bytecode_of_pytest_without_the_edit_is_not_used(run: Callable[..., str], tmp_path: Path) -> None:
    assert "2 failed" in run()
    before = kept(tmp_path)
    assert len(before) == 1
    assert "name pear" in run("patched")
    assert kept(tmp_path) == before
    assert "name apple" in run()
