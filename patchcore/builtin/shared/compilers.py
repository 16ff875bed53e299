"""Finds the compiler of C or C++ of this machine, and runs it."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import Callable

from patchcore.errors import PatchcoreError
from patchcore.process import parse_decimal

__all__ = ["CompilerError", "compiler_jobs", "find_compiler", "run_compiler"]

_MOST_JOBS = 10_000
#: A compiler may print thousands of lines; the first ones have the cause.
_SHOWN_LINES = 40


class CompilerError(PatchcoreError):
    """There is no compiler, it failed, or a variable about it is wrong.

    Examples:
        >>> import sys
        >>> from patchcore.plugin import CompilerError, run_compiler
        >>> try:
        ...     run_compiler([sys.executable, "-c", "raise SystemExit(1)"])
        ... except CompilerError:
        ...     print("it failed")
        it failed
    """


def find_compiler(
    environ: Mapping[str, str] = os.environ,
    *,
    variable: str = "CXX",
    names: Sequence[str] = ("c++", "g++", "clang++"),
    accepts: Callable[[list[str]], bool] = lambda command: True,
) -> list[str]:
    """Return the command that calls the compiler: the one that a variable names, else the first of some on ``PATH``.

    Args:
        environ: the environment.
        variable: may name the compiler, with options behind it.
        names: of compilers, the first choice first.
        accepts: returns false for a command that cannot be used.

    Raises:
        CompilerError: there is none, or the variable has a quote that is not closed.

    Examples:
        >>> find_compiler({"CXX": "/opt/bin/g++", "PATH": "/bin"})
        Traceback (most recent call last):
        patchcore.builtin.shared.compilers.CompilerError: expected a C++ compiler, found no /opt/bin/g++; ...
    """
    text = environ.get(variable) or ""
    try:
        chosen = shlex.split(text)
    except ValueError as error:
        example = f"export {variable}=\"'/opt/my tools/cc' -O2\""
        raise CompilerError(
            f"{variable} is {text[:200]!r}, which is no command: {error}. Close the quote, as in {example}, or use the "
            f"first compiler on PATH: unset {variable}"
        ) from None
    for command in [chosen] if chosen else [[name] for name in names]:
        if shutil.which(command[0], path=environ.get("PATH")) and accepts(command):
            return command
    language = "C++" if variable == "CXX" else "C"
    missing = shlex.join(chosen) if chosen else f"{', '.join(names[:-1])} or {names[-1]}"
    package = "g++" if variable == "CXX" else "gcc"
    raise CompilerError(
        f"expected a {language} compiler, found no {missing}; install one (Debian: {package}) or name it in {variable}"
    )


def compiler_jobs(environ: Mapping[str, str] = os.environ) -> int:
    """Return how many compilers may run at once: ``MAX_JOBS``, as PyTorch's own builds use it, else one for each core.

    Args:
        environ: the environment.

    Raises:
        CompilerError: ``MAX_JOBS`` is no whole number from 1 on.

    Examples:
        >>> compiler_jobs({"MAX_JOBS": "3"})
        3
    """
    text = environ.get("MAX_JOBS", "")
    jobs = parse_decimal(text, _MOST_JOBS)
    if text and not jobs:
        raise CompilerError(f"MAX_JOBS is expected to be a whole number from 1 on, found {text[:60]!r}")
    return jobs or os.cpu_count() or 1


def run_compiler(command: Sequence[str]) -> None:
    """Run a command of a compiler or linker.

    Args:
        command: with all its arguments.

    Raises:
        CompilerError: it fails; the message has the command and the first lines that it printed.

    Examples:
        >>> import sys
        >>> from patchcore.plugin import run_compiler
        >>> run_compiler([sys.executable, "-c", "pass"])
    """
    # Not at the top: a process that Ctrl-C ends looks for a compiler for its last line. Python would forget the exit
    # code of Ctrl-C there, because subprocess imports selectors, which makes a namedtuple, which evaluates a text.
    import subprocess

    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        shown = "\n".join(done.stdout.splitlines()[:_SHOWN_LINES])
        raise CompilerError(f"compiling failed with code {done.returncode}:\n{shlex.join(command)}\n{shown}")
