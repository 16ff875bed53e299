"""Every command prints what it has to say, whatever the encoding of its streams has no characters for."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import SHOP, Programs

from patchcore.cli.streams import streams_that_take_any_text

PLUGIN = r"""
import patchcore as pc

def double(item):
    return 20

PRICE = pc.Patch(
    "läden.preis", [pc.Replace("shop.prices:price", double)], requires=["patchcore!=0.0.*"], remove_when="patchcore<0"
)
BROKEN = pc.Patch("läden.kaputt", [pc.Replace("shop.prices:prüfe", double)], summary="日本 \ud800")

@pc.hookimpl
def register_patches():
    return [PRICE, BROKEN]

@pc.hookimpl
def report_sections():
    return [pc.Section("fürs Büro", ("日本 \ud800 \N{SNOWMAN}",), mark="schön \udcff")]
"""

#: A command line, and the exit codes that it may have.
COMMANDS: list[tuple[tuple[str, ...], tuple[int, ...]]] = [
    (("list", "-p", "deals"), (0,)),
    (("list", "-p", "deals", "--format", "json"), (0,)),
    (("list", "-p", "deals", "-v"), (0,)),
    (("explain", "-p", "deals", "shop.prices:price"), (0,)),
    (("explain", "-p", "deals", "läden.kaputt"), (0, 1, 2)),
    (("check", "-p", "deals", "--apply"), (1,)),
    (("doctor", "-p", "deals", "--apply", "--workers"), (1,)),
    (("verify", "-p", "deals"), (0, 1)),
    (("lock", "-p", "deals"), (0,)),
    (("run", "-p", "deals", "--report-dir", "berichte-ü", "verkäufe.py"), (0,)),
    (("run", "-p", "deals", "gibt-es-nicht-ü.py"), (2,)),
    (("bisect", "-p", "deals", "--", "verkäufe.py", "ü"), (0, 1, 2)),
    (("report", "berichte-ü"), (1,)),
    (("report", "berichte-ü", "--html"), (1,)),
    (("report", "berichte-ö"), (2,)),
    (("fingerprint", "deals"), (0, 1, 2)),
    (("new", "läden-npu"), (0, 2)),
    (("new", "laeden-npu", "--directory", "neu-ü"), (0,)),
    (("nopé",), (2,)),
    (("list", "--disable", "läden.preiß", "-p", "deals"), (2,)),
]


@pytest.mark.skipif(os.name == "nt", reason="the names of the files need a file system of bytes")
@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "utf-16"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
    ids=str,
)
def test_every_command(programs: Programs, environment: dict[str, str]) -> None:
    folder = programs.folder / "für 日本"
    for name, source in {**SHOP, "deals.py": PLUGIN, "verkäufe.py": SHOP["sell.py"], "neu-ü/x": ""}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    for arguments, codes in COMMANDS:
        done = subprocess.run(
            [*programs.python, "-m", "patchcore", *arguments],
            cwd=folder,
            env={**programs.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode in codes, (arguments, done.stdout)
        for fault in ("this is a bug", "UnicodeEncodeError", "UnicodeDecodeError", "Logging error"):
            for encoding in ("ascii", "utf-16-le", "utf-16-be"):
                assert fault.encode(encoding) not in done.stdout, (arguments, done.stdout)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "arguments", [["list"], ["list", "--format", "json"], ["check"], ["--help"], ["run", "--help"]], ids=str
)
def test_a_full_disk_is_said_and_is_no_success(programs: Programs, arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*programs.python, "-m", "patchcore", *arguments],
            cwd=programs.folder,
            env=programs.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (2, "patchcore: the output cannot be written: No space left on device\n")


def test_stdout_is_closed(programs: Programs) -> None:
    command = f"exec {programs.python[0]} -m patchcore list >&-"
    done = programs.run(["sh", "-c", command])
    assert (done.stdout, done.stderr) == ("", "")


def test_the_streams_are_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw
    with streams_that_take_any_text():
        print("für \ud800")
    assert stream.errors == "strict"
    stream.flush()
    assert stream.buffer.getvalue() == rb"f\xfcr \ud800" + os.linesep.encode()  # type: ignore[attr-defined]


@pytest.mark.parametrize("errors", ["replace", "ignore", "namereplace"])
def test_what_the_user_wants_for_such_characters_is_left_alone(errors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors=errors)
    monkeypatch.setattr(sys, "stdout", stream)
    with streams_that_take_any_text():
        assert stream.errors == errors


def test_streams_that_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with streams_that_take_any_text():
        pass


class TestNumbersInTheEnvironment:
    """A program of a run is patched whatever a launcher has put into the environment, and the value is named."""

    @pytest.mark.parametrize("variable", ["WORLD_SIZE", "RANK", "LOCAL_RANK", "SLURM_NTASKS"])
    @pytest.mark.parametrize("value", ["²", "9" * 5000, "-1"], ids=ascii)
    def test_patches_are_applied(self, programs: Programs, variable: str, value: str, tmp_path: Path) -> None:
        plugin = PLUGIN.replace("[PRICE, BROKEN]", "[PRICE]")
        for name, source in {**SHOP, "deals.py": plugin}.items():
            path = programs.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(source, encoding="utf-8")
        reports = tmp_path / "reports"
        done = programs.run(
            programs.patchcore, "-p", "deals", "--report-dir", str(reports), "sell.py", **{variable: value}
        )
        assert done.stdout == "20\n"
        assert f"patchcore: {variable}=" in done.stderr
        assert done.stderr.count(" is ignored; expected a whole number from 0 to ") == 1
        assert "Traceback" not in done.stderr
        assert len(list(reports.iterdir())) == 1
