"""Advice on a failed program: a module is missing, or options of ``patchcore run`` came too late."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from patchcore.builtin.run.session import Session
from patchcore.errors import describe_error
from patchcore.plugins import Plugins

__all__ = ["advise_at_the_end"]

#: Folders of installed packages: their sources are not searched for an option.
_INSTALLED = ("site-packages", "dist-packages")


def advise_at_the_end(session: Session, plugins: Plugins) -> Iterator[str]:
    """Yield lines for the user of a program that has ended.

    Args:
        session: the run that this process takes part in.
        plugins: of this process; the hook ``advise`` is called.
    """
    name = _missing()
    yield from plugins.advice_on_modules([name] if name else [])
    error = getattr(sys, "last_value", None)
    if error is not None and not name:
        advice = plugins.advice(describe_error(error), "error")
        if advice:
            yield advice
    yield from _late_options(session, plugins)


def _missing() -> Optional[str]:
    """Return the module whose absence has ended the program, ``None`` if something else has."""
    if _argv()[0] == "-m":  # Python has not found the module to run
        command: list[str] = getattr(sys, "orig_argv", [])  # since Python 3.10
        following = command[command.index("-m") + 1 :] if "-m" in command else []
        return following[0].partition(".")[0] if following else None
    error = getattr(sys, "last_value", None)  # the exception that Python has shown
    return error.name if isinstance(error, ModuleNotFoundError) else None


def _late_options(session: Session, plugins: Plugins) -> Iterator[str]:
    """Yield a line for options of ``patchcore run`` that the program was given and that it does not mention.

    A program may have an option of the same name. It is then in the source of a module that the program has imported.
    """
    arguments = itertools.takewhile(lambda argument: argument != "--", _argv()[1:])
    given = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    if not given:
        return
    from patchcore.builtin.run.command import options_of_run

    known = options_of_run(plugins)
    late = [name for name in given if name in known or plugins.advice(name, "run")]
    late = [name for name in dict.fromkeys(late) if name not in session.arguments]
    if not late:
        return
    sources = [path.read_text(encoding="utf-8", errors="replace") for path in _own_sources(plugins)]
    # click and fire make an option --dry-run of a parameter dry_run
    unknown = [
        name
        for name in late
        if not any(word in text for word in (name, name[2:].replace("-", "_")) for text in sources)
    ]
    if unknown:
        names, program = " ".join(unknown), os.path.basename(_argv()[0])
        yield (
            f"{names} was given to {program}, whose source does not have it; options of patchcore run stand before the "
            f"program: patchcore run {names} {program} ..."
        )


def _own_sources(plugins: Plugins) -> Iterator[Path]:
    """Yield the sources of the program: of its modules, not of plugins and other installed packages.

    A program that is a module of an installed package has the sources of that package.
    """
    theirs = {"patchcore", *((found.value or "").partition(".")[0] for found in plugins.installed)}
    if os.path.isfile(_argv()[0]):  # a script that has ended has no __file__ any more
        yield Path(_argv()[0])
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    package = main.name.partition(".")[0] if main is not None else ""
    library = os.path.dirname(os.__file__)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        root = name.partition(".")[0]
        if not isinstance(file, str) or not file.endswith(".py") or root in theirs:
            continue
        parts = Path(file).parts
        is_installed = any(folder in parts for folder in _INSTALLED) or file.startswith(library + os.sep)
        if (root == package or not is_installed) and os.path.isfile(file):
            yield Path(file)


def _argv() -> list[str]:
    """Return the program and its arguments; a program may have put anything in the place of ``sys.argv``."""
    argv = getattr(sys, "argv", None)
    return [str(argument) for argument in argv] if isinstance(argv, list) and argv else [""]
