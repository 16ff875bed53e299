"""progress.py: a bar on a terminal for what takes long, and nothing elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from terminal import read_terminal

from patchcore.builtin.shared.progress import progress

HEAD = """
import sys, threading, time
from patchcore.builtin.shared import progress as module
module.AFTER = {after}
def wait_until_shown(bar):
    while not bar._bar.live.is_started:
        time.sleep(0.01)
with module.progress("working", {steps}) as bar:
"""


def shown(body: str, *, after: float = 0.0, steps: int = 3) -> str:
    """Return what a terminal gets on stderr while ``body`` works, and the threads that are left after it."""
    pty = pytest.importorskip("pty")
    code = HEAD.format(after=after, steps=steps) + textwrap.indent(textwrap.dedent(body), "    ")
    # rich tells its thread to end and does not wait for it
    code += "\nfor thread in threading.enumerate()[1:]: thread.join(30)\nprint(threading.enumerate()[1:])\n"
    unwanted = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    inherited = {name: value for name, value in os.environ.items() if name not in unwanted}
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**inherited, "TERM": "xterm", "COLUMNS": "100"},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as process:
        os.close(theirs)
        told = read_terminal(ours)
        out, _ = process.communicate(timeout=60)
    assert out in ("[]\n", ""), "no thread is left"
    return told


def test_in_a_pipe_only_lines_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("working", 2) as bar:
        bar.describe("this")
        bar.advance()
        bar.say("one done", style="red")
    assert capsys.readouterr() == ("", "one done\n")


def test_on_a_terminal_it_counts() -> None:
    told = shown("""
        bar.advance()
        bar.describe("on [bold] names")
        wait_until_shown(bar)
        bar.say("a line" + chr(27) + "[2J", style="red")
    """)
    assert "on [bold] names" in told
    assert "1/3" in told
    assert "a line\\x1b[2J" in told


def test_what_is_quick_shows_nothing() -> None:
    assert shown("bar.advance()", after=30.0).strip() == ""


def test_steps_nobody_expected_make_it_longer() -> None:
    told = shown("for _ in range(3): bar.advance(more=True)\nwait_until_shown(bar)", steps=1)
    assert "3/4" in told


def test_an_error_ends_the_bar() -> None:
    told = shown("wait_until_shown(bar)\nraise KeyboardInterrupt")
    assert "working" in told
    assert "\x1b[?25h" in told, "the cursor is back"
