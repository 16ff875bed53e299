"""The command line: ``patchcore`` and ``python -m patchcore``. Every command comes from a plugin.

Exit codes: 0 ok, 1 findings, 2 usage, 3 internal, 130 interrupt; ``run`` passes the program's own code through.
"""

from __future__ import annotations

import argparse
import atexit
import errno
import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

from patchcore import __version__
from patchcore.cli.streams import streams_that_take_any_text
from patchcore.errors import PatchcoreError, SettingsError, UnknownName, did_you_mean
from patchcore.stderr import hidden_failures

if TYPE_CHECKING:
    from patchcore.cli.options import Parser
    from patchcore.plugins import Plugins

__all__ = ["build_parser", "main"]

EXIT_OK, EXIT_FINDINGS, EXIT_USAGE, EXIT_INTERNAL, EXIT_INTERRUPTED = 0, 1, 2, 3, 130

#: Errors of the system if no more can be written: a disk or a quota is full, or the device has failed.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: arguments after the program's name, those of the process by default.

    Raises:
        SystemExit: from argparse (help, usage errors), or from the program under ``run``.

    Examples:
        >>> from patchcore.plugin import main
        >>> try:
        ...     main(["--version"])
        ... except SystemExit:
        ...     print("argparse ended it")
        patchcore ...
        argparse ended it
    """
    if argv is None:
        _see_current_folder()
        if "_ARGCOMPLETE" in os.environ:
            return _complete()
        atexit.register(gc.freeze)  # the last garbage collection takes a tenth of the time of patchcore list
    with streams_that_take_any_text(), hidden_failures():  # commands print failures themselves
        return _run(list(sys.argv[1:] if argv is None else argv))


def _run(arguments: list[str]) -> int:
    try:
        try:
            options = _parse(arguments)
            code = int(options.command(options) or EXIT_OK)
        finally:
            sys.stdout.flush()  # here, where an error can still be reported; help ends in SystemExit
    except (UnknownName, SettingsError) as error:
        return _complain(f"{error}{_advice(error)}", EXIT_USAGE)
    except PatchcoreError as error:
        return _complain(error, EXIT_FINDINGS)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader went away: `patchcore list | head`
        _write_no_more()
        return EXIT_OK
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            return _internal()
        _write_no_more()
        return _complain(f"the output cannot be written: {error.strerror}", EXIT_USAGE)
    except Exception:
        return _internal()
    return code


def _write_no_more() -> None:
    """Give the flush at exit somewhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _internal() -> int:
    from patchcore.stdlib import traceback

    traceback.print_exc()
    return _complain("this is a bug in patchcore or in a plugin's command; please report it", EXIT_INTERNAL)


def _advice(error: Exception) -> str:
    """Return the advice of plugins on a patch name that no loaded plugin contributes, as the end of a message."""
    from patchcore.plugins import Plugins

    name = getattr(error, "name", "")
    advice = Plugins().advice(name, "patch") if name else None
    return f"{' ' if str(error).endswith('?') else '; '}{advice}" if advice else ""


def _complete() -> int:
    """Print the words that can come next on the command line of a shell, for argcomplete and by its variables."""
    try:
        import argcomplete
    except ImportError:
        return EXIT_INTERNAL
    parser, subparsers, _ = build_parser(discover=True)
    for command in subparsers.choices.values():
        command.complete()
    argcomplete.autocomplete(parser)  # ends the process
    return EXIT_OK


def _see_current_folder() -> None:
    """Put the current folder first on ``sys.path``, as ``python -m patchcore`` does, for the console script too."""
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return
    try:
        folder = os.getcwd()
    except OSError:  # it was deleted
        return
    if sys.path[:1] not in ([folder], [""]):
        own = os.path.dirname(os.path.realpath(sys.argv[0]))
        # in the place of the folder of the script, which Python has put there
        sys.path[: int(sys.path[:1] == [own])] = [folder]


def _parse(arguments: list[str]) -> argparse.Namespace:
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    parser, subparsers, plugins = build_parser(discover=name is None)  # help shows the commands of every plugin
    if name is not None and name not in subparsers.choices:  # an installed plugin may have it
        parser, subparsers, plugins = build_parser(discover=True)
    if arguments in ([], ["-h"], ["--help"]):
        show = subparsers.overview
        if show is not None:
            return argparse.Namespace(command=lambda _: show(parser, subparsers))
        return parser.parse_args(["--help"])
    if name is not None and name not in subparsers.choices:
        advice = plugins.advice(name, "")
        hint = f"; {advice}." if advice else did_you_mean(name, subparsers.choices) or "."
        raise UnknownName(f"no command {name!r}{hint} See patchcore --help")
    if arguments[0] != name and not any(option.startswith(arguments[0]) for option in parser._option_string_actions):
        parser.refuse(arguments[:1])
    take_over = subparsers.choices[name].take_over if name is not None and arguments[0] == name else None
    return parser.parse_args(arguments) if take_over is None else take_over(arguments[1:])


def build_parser(*, discover: bool) -> tuple[Parser, Any, Plugins]:
    """Return the parser with the commands of the built-in plugins, or (``discover``) of every one; and the plugins."""
    from patchcore.cli.options import Parser
    from patchcore.plugins import Plugins
    from patchcore.settings import Settings

    parser = Parser(prog="patchcore", description="Monkey patches as plugins: list, plan, apply and revert them.")
    parser.add_argument("--version", action="version", version=f"patchcore {__version__}")
    subparsers: Any = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="name", required=True, action=_Commands
    )
    subparsers.overview = None  # a plugin may set the function that prints `patchcore --help`
    try:
        settings = Settings.load()
        plugins = Plugins(allowed=settings.plugins, discover=discover, commands=True)
        if discover:  # the settings of every plugin are known
            settings.complete(plugins.settings())
    except PatchcoreError as error:  # help is most useful when something is wrong
        if discover:
            _complain(error, EXIT_USAGE)
        plugins = Plugins(discover=False, commands=True)
    plugins.notify("register_commands", subparsers=subparsers)
    for problem in plugins.problems:
        _complain(problem, EXIT_OK)
    return parser, subparsers, plugins


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The commands. A name that is taken is refused, which argparse does since Python 3.11."""

    def add_parser(self, name: str, **arguments: Any) -> Any:
        if name in self.choices:
            raise ValueError(f"there is a command {name!r} already; rename one of them")
        return super().add_parser(name, **arguments)


def _complain(what: object, code: int) -> int:
    from patchcore.cli.output import print_error  # not for commands that have nothing to complain about

    print_error(str(what))
    return code
