"""The command line: ``patchcore`` and ``python -m patchcore``, one module per command.

Exit codes: 0 ok, 1 findings, 2 usage, 3 internal, 130 interrupt; ``run`` passes the program's own code through.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Optional

from patchcore import __version__
from patchcore.cli import check, doctor, explain, list_, plan, run
from patchcore.errors import PatchcoreError, SettingsError, UnknownName, did_you_mean
from patchcore.settings import Settings

__all__ = ["main"]

OK, FINDINGS, USAGE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130

_COMMANDS = {"list": list_, "plan": plan, "explain": explain, "check": check, "doctor": doctor, "run": run}


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: arguments after the program's name, those of the process by default.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        options = _parse(arguments)
        return int(options.command(options) or OK)
    except (UnknownName, SettingsError) as error:
        return _complain(error, USAGE)
    except PatchcoreError as error:
        return _complain(error, FINDINGS)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader went away: `patchcore list | head`
        sys.stderr.close()
        return OK
    except Exception:
        import traceback

        traceback.print_exc()
        print("patchcore: this is a bug in patchcore or in a plugin's command; please report it", file=sys.stderr)
        return INTERNAL


def build_parser() -> tuple[argparse.ArgumentParser, Any]:
    """Return the parser with the built-in commands, and its sub-parsers for plugins to add to."""
    parser = argparse.ArgumentParser(
        prog="patchcore",
        description="Monkey patches as plugins: see them, plan them, apply them, take them back.",
        epilog="exit codes: 0 ok, 1 findings, 2 usage, 3 internal error, 130 interrupted",
    )
    parser.add_argument("--version", action="version", version=f"patchcore {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="name", required=True)
    for module in _COMMANDS.values():
        module.add_parser(subparsers)
    return parser, subparsers


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser, subparsers = build_parser()
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    if name == "run":
        return run.parse(parser, arguments)
    if name not in _COMMANDS:
        _add_plugin_commands(subparsers)
    if name is not None and name not in subparsers.choices:
        raise UnknownName(f"no command {name!r}{did_you_mean(name, subparsers.choices)} See patchcore --help")
    return parser.parse_args(arguments)


def _add_plugin_commands(subparsers: Any) -> None:
    """Let plugins add theirs; only when the command is not ours or help is wanted, because it loads every plugin."""
    from patchcore.plugins import Plugins

    plugins = Plugins(allowed=Settings.load().plugins)
    for _ in plugins.each("register_commands", subparsers=subparsers):
        pass
    for problem in plugins.problems:
        print(f"patchcore: {problem}", file=sys.stderr)


def _complain(error: Exception, code: int) -> int:
    print(f"patchcore: {error}", file=sys.stderr)
    return code
