"""The help of every command ends with an example, which the command accepts."""

from __future__ import annotations

import argparse
import contextlib
import io
import shlex
from collections.abc import Iterator

import pytest

from patchcore.cli import build_parser
from patchcore.cli.options import Parser


def commands(parser: argparse.ArgumentParser) -> Iterator[Parser]:
    """Yield the parsers of all commands below a parser."""
    for action in parser._actions:
        for below in dict.fromkeys(action.choices.values()) if isinstance(action.choices, dict) else ():
            if isinstance(below, Parser):
                yield below
                yield from commands(below)


def every_command() -> list[Parser]:
    parser, _, _ = build_parser(discover=True)
    return list(commands(parser))


def test_every_command_has_an_example_in_its_help() -> None:
    found = every_command()
    assert len(found) > 15
    for command in found:
        shown = io.StringIO()
        words = command.prog.split()[1:]
        parser, subparsers, _ = build_parser(discover=True)
        take_over = subparsers.choices[words[0]].take_over
        parse, given = (take_over, words[1:]) if take_over else (parser.parse_args, words)
        with contextlib.redirect_stdout(shown), pytest.raises(SystemExit):
            parse([*given, "--help"])
        last = shown.getvalue().splitlines()[-2:]
        assert last == ["example:", f"  {command.example}"], command.prog
        assert f"{command.example} ".startswith(f"{command.prog} ")


@pytest.mark.parametrize("command", every_command(), ids=lambda command: command.prog)
def test_the_command_accepts_its_example(
    command: Parser, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("program")
    (folder / "train.py").write_text("")
    monkeypatch.chdir(folder)
    _, *arguments = shlex.split(command.example)
    parser, subparsers, _ = build_parser(discover=True)
    take_over = subparsers.choices[arguments[0]].take_over
    options = take_over(arguments[1:]) if take_over else parser.parse_args(arguments)
    assert callable(options.command)
