"""Text of plugins and libraries reaches a terminal as text: no control character gets through, whoever prints it."""

from __future__ import annotations

import ast
import json
import logging
import re
import unicodedata
from pathlib import Path

import hypothesis
import pytest
from distributions import write_distribution
from hypothesis import strategies as st
from programs import Programs

import patchcore as pc
from patchcore.cli import main
from patchcore.objects.printable import printable
from patchcore.stderr import print_message

ROOT = Path(__file__).resolve().parents[2]

#: Clears the screen, sets the title of the window, rings, goes back over the line, turns the direction of writing.
HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\x08\r\u202e\ud800"

#: Of the plugin.
NAME = "loud\x1b]0;x\x07"

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

PLUGIN = f"""
import patchcore as pc
BAD = {HOSTILE!r}

def price(original):
    return 11

def fails(original):
    return 11

def no():
    return pc.Skip("not here" + BAD)

def raises():
    raise ValueError("no good" + BAD)

def factory(original):
    raise ValueError("no product" + BAD)

price.__qualname__ += BAD

@pc.hookimpl
def register_patches():
    wrap = pc.Wrap("shop:price", price)
    yield pc.Patch("loud.price", [wrap], summary="dear" + BAD, upstream="http" + BAD, options={{"by" + BAD: BAD}})
    yield pc.Patch("loud.no", [wrap], when=no, after=["loud.price"], remove_when="shop>=1")
    yield pc.Patch("loud.raises", [wrap], when=raises, after=["loud.price"])
    yield pc.Patch("loud.factory", [pc.Replace("shop:label", factory=factory)])
    yield "no patch" + BAD

@pc.hookimpl
def report_sections():
    return [pc.Section("title" + BAD, ("line" + BAD,), mark="mark" + BAD)]

@pc.hookimpl
def list_sections():
    return [pc.Section("title" + BAD, ("line" + BAD,))]

@pc.hookimpl
def after_apply():
    raise RuntimeError("after" + BAD)

@pc.hookimpl
def register_commands(subparsers):
    subparsers.add_parser("loud", help="loud" + BAD, description=BAD).set_defaults(command=lambda options: 1)

@pc.hookimpl
def register_run_options(parser):
    parser.add_argument("--loud", metavar="BAD" + BAD, help="loud" + BAD)
"""

COMMANDS = [
    ["list"],
    ["list", "-v"],
    ["check"],
    ["check", "--apply"],
    ["doctor"],
    ["doctor", "--apply"],
    ["explain", "loud.price"],
    ["explain", "shop:price"],
    ["explain", "--apply", "shop:price"],
    ["verify", "loud.price", "--no-timing"],
    ["lock", "--file", "patchcore.lock"],
    ["lock", "--check", "--file", "patchcore.lock"],
    ["--help"],
    ["run", "--help"],
    ["verify", "--help"],
    ["bisect", "--help"],
    ["explain", "shop:missing"],
    ["list", "--strict"],
    ["list", "--plugin", "nope" + HOSTILE.encode("utf-8", "replace").decode()],
]


@pytest.fixture
def loud(make_package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin whose every text is hostile, its name and that of its distribution included."""
    monkeypatch.setenv("PATCHCORE_PLUGINS", NAME)  # and none of those where the tests run
    monkeypatch.chdir(tmp_path)
    folder = make_package({"shop": "def price():\n    return 10\ndef label(): return ''", "loud_plugin": ""})
    (folder / "loud_plugin.py").write_text(PLUGIN, encoding="utf-8")
    write_distribution(folder, "loud-patches", "1.0\x1b[2J", plugins={NAME: "loud_plugin"})


def _refuse_control(*texts: str) -> None:
    for text in texts:
        found = CONTROL.search(text)
        assert found is None, text[max(0, found.start() - 60) : found.end() + 20]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands(loud, capsys, caplog, command: list[str]) -> None:
    try:
        main(command)
    except SystemExit:
        pass
    captured = capsys.readouterr()
    _refuse_control(captured.out, captured.err, caplog.text)
    assert captured.out + captured.err


@pytest.mark.parametrize("command", [["list"], ["list", "-v"], ["doctor"], ["explain", "loud.price"]], ids=" ".join)
def test_tables_on_a_terminal(loud, capsys, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    main(command)
    _refuse_control(capsys.readouterr().out)


def test_json_has_the_text_itself_in_escapes(loud, capsys) -> None:
    main(["list", "--format", "json"])
    out = capsys.readouterr().out
    _refuse_control(out)
    assert {patch["summary"] for patch in json.loads(out)["patches"]} == {"dear" + HOSTILE, ""}


def test_report_and_plan_as_text(loud) -> None:
    with pc.Patcher.discover() as patcher:
        _refuse_control(str(patcher.report()), str(patcher.plan()))


def test_a_run(programs: Programs) -> None:
    programs.write({"shop.py": "def price(): return 10\ndef label(): return 1", "loud.py": PLUGIN})
    programs.write({"sell.py": "import shop\nprint(shop.price())\n"})
    done = programs.run(programs.patchcore, "-p", "loud", "--count", "sell.py")
    assert done.stdout == "11\n"
    _refuse_control(done.stderr)
    assert r"\x1b[2J" in done.stderr


def test_a_strict_run(programs: Programs) -> None:
    source = PLUGIN.replace("@pc.hookimpl\ndef after_apply", "def after_apply").replace('yield "no', '# yield "no')
    programs.write({"shop.py": "def price(): return 10\ndef label(): return 1", "loud.py": source})
    programs.write({"sell.py": "import shop\nprint(shop.price())\n"})
    quiet = ["--disable", "loud.raises"]
    done = programs.run(programs.patchcore, "--strict", *quiet, "-p", "loud", "sell.py", code=1)
    _refuse_control(done.stderr)
    assert r"no product\x1b[2J" in done.stderr


def test_messages_for_the_logging_of_the_program(capsys) -> None:
    logging.getLogger("patchcore").warning("patch %s", HOSTILE)
    print_message(HOSTILE)
    captured = capsys.readouterr()
    _refuse_control(captured.out, captured.err)
    assert r"\x1b[2J" in captured.err


@hypothesis.given(st.text(st.characters()))
def test_printable_keeps_what_can_be_seen_and_escapes_the_rest(text: str) -> None:
    result = printable(text)
    _refuse_control(result)
    assert all(c.isprintable() or c in "\n\t" or unicodedata.category(c) == "Zs" for c in result)
    result.encode()
    if text.isprintable():
        assert result == text
    assert printable(result) == result


def test_commands_print_through_output() -> None:
    """A bare ``print`` of a command would be the next hole."""
    found = []
    for path in sorted((ROOT / "patchcore" / "cli").glob("*.py")):
        if path.name not in ("output.py", "report.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
            found += [f"{path.name}:{c.lineno}" for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
    assert found == []
