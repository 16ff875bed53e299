"""``patchcore plan --compat NAME -- ARGUMENTS``: the plan of an interface that decides by a program's arguments.

The plugin of the interface names a module (:class:`patchcore.plugin.Compat`), which runs as a program of
``patchcore run``, under the same options: the emulated NPU, for example.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from patchcore.builtin.run import command
from patchcore.builtin.run.compat import compat_that_plans
from patchcore.builtin.shared import examples
from patchcore.cli.options import Parser
from patchcore.plugins import Plugins

__all__ = ["parse"]

#: In the place of the module until the plugins are loaded, one of which names it.
_MODULE = "patchcore"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``plan``: the options of ``patchcore run``, then those of a program after ``--``.

    Raises:
        SettingsError: no interface is named, or the one that is cannot plan.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    before, program = arguments[:end], arguments[end + 1 :]
    if {"-h", "--help"} & set(before):
        _parser().parse_args(["--help"])
    options = command.parse([*before, "-m", _MODULE, *program])
    chosen = compat_that_plans(options.patcher.settings, options.patcher.plugins)
    options.program[0] = chosen.plan
    return options


def _parser() -> Parser:
    parser = Parser(
        prog="patchcore plan",
        example=examples.PLAN,
        usage="patchcore plan --compat NAME [options of patchcore run] -- [arguments of the program]",
        description="Show which patches the arguments of a program switch on, for an interface that decides by these: "
        "what they patch, and what is wrong with them here. The program itself is not started. The patches of "
        "installed plugins are in patchcore list.",
    )
    command.add_arguments(parser, Plugins(), program=False)
    return parser
