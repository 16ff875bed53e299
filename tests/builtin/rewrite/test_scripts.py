"""The script of a program is edited under ``patchcore run``, and finds itself as Python starts scripts."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from programs import Programs

#: Edits "apple", and the name of no fruit that a program prints about itself.
FRUIT = """
import ast
import patchcore as pc

def edit(tree, source):
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == "apple"]
    for node in found:
        node.value = "pear"
    return [node.lineno for node in found]

def concerns(name, file):
    return "site-packages" not in file and "/lib/python" not in file

PATCH = pc.Patch("fruit", [pc.Rewrite("*", pc.Rules(edit, words="apple", concerns=concerns))])

@pc.hookimpl
def register_patches():
    return [PATCH]
"""

#: Prints a fruit, and everything that a program can know about how it was started.
LOOK = '''"""A program."""
from __future__ import annotations
import json, os, sys
FRUIT = "apple"
main = vars(sys.modules["__main__"])
spec = main["__spec__"]
print(FRUIT)
print(json.dumps({
    "argv": sys.argv,
    "path": [entry for entry in sys.path if "patchcore" not in entry],
    "spec": spec and [spec.name, spec.origin, spec.parent, type(spec.loader).__name__],
    "loader": type(main["__loader__"]).__name__,
    "names": sorted(name for name in globals() if name not in ("__cached__", "__conditional_annotations__")),
    **{name: main.get(name, "absent") for name in ("__name__", "__file__", "__package__", "__doc__", "__cached__")},
}, indent=1))
'''


def fruit(output: str) -> tuple[str, str]:
    """Return the fruit of LOOK, and the rest."""
    first, _, rest = output.partition("\n")
    return first, rest


@pytest.fixture(autouse=True)
def installed(programs: Programs) -> None:
    programs.install({"fruit_rules.py": FRUIT}, "fruit", fruit="fruit_rules")


@pytest.mark.parametrize(
    "arguments",
    [["look.py", "--lr", "0.1"], ["folder/look.py", "-m"], ["-m", "package.look", "x"], ["-m", "package"]],
    ids=" ".join,
)
def test_a_program_is_edited_and_finds_what_it_finds_without(programs: Programs, arguments: list[str]) -> None:
    files = ("look.py", "folder/look.py", "package/look.py", "package/__main__.py")
    programs.write({**dict.fromkeys(files, LOOK), "package/__init__.py": ""})
    plain = fruit(programs.run(programs.python, *arguments).stdout)
    patched = fruit(programs.run(programs.patchcore, *arguments).stdout)
    assert (plain[0], patched[0]) == ("apple", "pear")
    assert patched[1] == plain[1]


def test_a_script_without_the_word_is_left_to_python(programs: Programs) -> None:
    programs.write({"look.py": LOOK.replace("apple", "melon"), "sibling.py": ""})
    programs.compare("look.py", summary="1 applied")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="-P is new in Python 3.11")
def test_without_an_unsafe_path(programs: Programs) -> None:
    programs.write({"look.py": LOOK})
    programs.environment["PYTHONSAFEPATH"] = "1"
    plain = fruit(programs.run(programs.python, "look.py").stdout)
    assert fruit(programs.run(programs.patchcore, "look.py").stdout) == ("pear", plain[1])


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    raise ValueError('wrong')\nx = 'apple'\nf()\n",
        "import sys\nx = 'apple'\nsys.excepthook = lambda kind, error, trace: print('mine', kind)\n1 / 0\n",
        "x = 'apple'\nraise SystemExit('ended')\n",
        "x = 'apple'\ndef f(:\n",
    ],
    ids=["raised", "hook", "exit", "syntax"],
)
def test_the_end_of_a_script_is_as_without(programs: Programs, source: str) -> None:
    programs.write({"script.py": source})
    plain = programs.run(programs.python, "script.py", code=1)
    patched = programs.run(programs.patchcore, "script.py", code=1)
    assert patched.stdout == plain.stdout
    lines = [line for line in patched.stderr.splitlines() if not line.startswith("patchcore:")]
    assert lines == plain.stderr.splitlines()


def test_the_traceback_of_an_import_that_fails_is_as_without(programs: Programs) -> None:
    programs.write({"script.py": "import failing\n", "failing.py": "x = 'apple'\nraise ValueError(x[:0])\n"})
    plain = programs.run(programs.python, "script.py", code=1)
    patched = programs.run(programs.patchcore, "script.py", code=1)
    lines = [line for line in patched.stderr.splitlines() if not line.startswith("patchcore:")]
    assert lines == plain.stderr.splitlines()


def test_processes_that_the_program_starts(programs: Programs) -> None:
    programs.write(
        {
            "parent.py": textwrap.dedent("""
                import multiprocessing, runpy, subprocess, sys
                def work(n):
                    return "apple", __name__
                if __name__ == "__main__":
                    with multiprocessing.get_context("spawn").Pool(1) as pool:
                        print(pool.map(work, [1]))
                    subprocess.run([sys.executable, "child.py"], check=True)
                    print(runpy.run_path("child.py")["FRUIT"], "child.py" in sys.path[0])
            """),
            "child.py": "FRUIT = 'apple'\nprint(FRUIT, __name__, flush=True)\n",
        }
    )
    printed = programs.run(programs.patchcore, "parent.py").stdout
    assert sorted(printed.splitlines()) == [
        "[('pear', '__mp_main__')]",
        "pear <run_path>",
        "pear False",
        "pear __main__",
    ]


def test_apply_in_the_script_itself_is_too_late_for_it(programs: Programs, tmp_path: Path) -> None:
    programs.write(
        {"late.py": "import patchcore\npatcher = patchcore.apply()\nprint('apple')\nprint(patcher.report())\n"}
    )
    printed = programs.run(programs.python, "late.py").stdout
    assert printed.startswith("apple\n")
    assert "late.py: 1 line at its top level ran before that; import it later, or use patchcore run" in printed
