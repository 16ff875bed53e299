"""``patchcore environment``: the environment with which a process takes part in a run, wherever it is started.

``patchcore run`` hands this environment to its children. Schedulers, engines and other machines start processes that
are not its children, with an environment that a user writes down.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from typing import Any, Callable, Optional

import patchcore_startup
from patchcore.builtin.install.command import install_arguments
from patchcore.builtin.run import command
from patchcore.builtin.run.session import Session
from patchcore.builtin.shared import examples
from patchcore.cli.options import Parser
from patchcore.cli.output import print_json
from patchcore.objects.printable import printable
from patchcore.patcher import Patcher
from patchcore.plugins import Plugins

__all__ = ["add_arguments", "main", "parse"]

#: In the place of a program: the environment is for any.
_MODULE = "patchcore"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``environment``: ``--as``, and the options of ``patchcore run``."""
    own = Parser(add_help=False, prog="patchcore environment", example=examples.ENVIRONMENT, allow_abbrev=False)
    _add_format(own)
    if {"-h", "--help"} & set(arguments):
        _parser().parse_args(["--help"])
    chosen, rest = own.parse_known_args(arguments)
    options = command.parse([*rest, "-m", _MODULE])
    if options.program != [_MODULE]:
        own.error(
            f"expected options only, found {' '.join(options.program[:-1])!r}: the environment is for any program"
        )
    options.form = chosen.form
    options.arguments = options.arguments[: options.arguments.index("-m")] if "-m" in options.arguments else ()
    options.command = main
    return options


def main(options: argparse.Namespace) -> int:
    """Print the environment."""
    patcher: Patcher = options.patcher
    session = Session.of(patcher, patcher.plan(), options.arguments)._replace(launcher=0)  # nobody is the program
    value = session.encode()
    names = ["patchcore", *sorted({plugin.distribution for plugin in session.plugins if plugin.distribution})]
    _FORMS[options.form](value, f"python -m pip install {install_arguments(*names)}", _local_modules(patcher))
    return 0


def _local_modules(patcher: Patcher) -> Optional[str]:
    names = [module.name for module in patcher.settings.modules]
    return f"the modules of -p, importable there: {', '.join(names)}" if names else None


def _print_shell(value: str, install: str, modules: Optional[str]) -> None:
    _print_comments(install, modules)
    print(f"export {patchcore_startup.SESSION}={shlex.quote(value)}")


def _print_json(value: str, install: str, modules: Optional[str]) -> None:
    print_json({"environment": {patchcore_startup.SESSION: value}, "install": install, "modules": modules})


def _print_ray(value: str, install: str, modules: Optional[str]) -> None:
    print(json.dumps({"env_vars": {patchcore_startup.SESSION: value}}))  # Ray refuses keys that it does not know


def _print_kubernetes(value: str, install: str, modules: Optional[str]) -> None:
    _print_comments(install, modules)
    print(f'env:\n  - name: {patchcore_startup.SESSION}\n    value: "{value}"')


def _print_comments(install: str, modules: Optional[str]) -> None:
    print(f"# needs there: {printable(install)}")
    if modules is not None:
        print(f"# needs there: {printable(modules)}")


_FORMS: dict[str, Callable[[str, str, Optional[str]], None]] = {
    "shell": _print_shell,
    "json": _print_json,
    "ray": _print_ray,
    "kubernetes": _print_kubernetes,
}


def _parser() -> Parser:
    parser = Parser(
        prog="patchcore environment",
        example=examples.ENVIRONMENT,
        usage="patchcore environment [--as FORM] [options of patchcore run]",
        description="Print the environment with which a Python process takes part in a run that other machines or "
        "engines start, and what has to be installed there. Nothing is started. PATCHCORE_RUN_ID names the run.",
    )
    add_arguments(parser, Plugins())
    return parser


def add_arguments(parser: argparse.ArgumentParser, plugins: Plugins) -> None:
    """Add the arguments of the command, those of ``patchcore run`` too."""
    _add_format(parser)
    command.add_arguments(parser, plugins, program=False)


def _add_format(parser: Any) -> None:
    parser.add_argument(
        "--as",
        dest="form",
        choices=tuple(_FORMS),
        default="shell",
        help="lines for a shell or a job script; JSON; the runtime_env of Ray; env: of a container in Kubernetes",
    )
