"""Commands that ``patchcore run`` starts in its own place: a Python program or any other."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from patchcore.errors import SettingsError

__all__ = ["Command", "find_command"]


@dataclass(frozen=True)
class Command:
    """A command line.

    Args:
        executable: path of the program.
        arguments: all of them, the program's name first.
    """

    executable: str
    arguments: tuple[str, ...]

    def replace_process(self, environ: Mapping[str, str]) -> NoReturn:
        """Go on as this command: same process, signals, terminal and exit code.

        Raises:
            SettingsError: it cannot be started.
        """
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # there may be none
                stream.flush()
        for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):  # this Python ignores them; so would the program
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_DFL)
        try:
            if os.name == "nt":  # exec starts another process there, and the shell does not wait for it
                raise SystemExit(subprocess.call(list(self.arguments), executable=self.executable, env=dict(environ)))
            os.execve(self.executable, list(self.arguments), dict(environ))
        except OSError as error:
            hint = "; write a shell script as: patchcore run -- bash SCRIPT" if error.errno == 8 else ""  # ENOEXEC
            raise SettingsError(f"{self.executable} cannot be started: {error.strerror}{hint}") from error


def find_command(name: str, arguments: Sequence[str], *, as_module: bool) -> Command:
    """Return the command that ``name`` means: a Python script, folder or archive, a module, or a program.

    A path of Python code goes to this interpreter, with the options it was started with; everything else is looked up
    as a shell does, and then among the scripts of this interpreter, whose environment need not be activated.

    Args:
        name: path or name.
        arguments: the program's own.
        as_module: whether ``name`` is a module's, as after ``python -m``.

    Raises:
        SettingsError: there is none; the message has the command to write instead.

    Examples:
        >>> from patchcore.plugin import find_command
        >>> find_command("shop.train", ["--epochs", "2"], as_module=True).arguments[-4:]
        ('-m', 'shop.train', '--epochs', '2')
    """
    if as_module:
        if name.endswith(".py"):
            raise SettingsError(f"-m takes the name of a module, found {name!r}; leave out -m, or write {name[:-3]!r}")
        return _python("-m", name, *arguments)
    path = Path(name)
    if name == "-" or (path.exists() and _is_python(path)):
        return _python(name, *arguments)
    executable = shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))
    if executable is not None:
        return Command(executable, (name, *arguments))
    if path.is_file() and os.access(path, os.X_OK):
        return Command(os.path.abspath(path), (name, *arguments))
    if path.is_dir():
        raise SettingsError(f"can't find a __main__ module in {name!r}; expected a script, or a folder with one")
    if path.exists():
        raise SettingsError(
            f"{name} is neither Python code nor executable; write: patchcore run -- bash {name} (or chmod +x {name})"
        )
    raise SettingsError(
        f"can't find {name!r}, neither a file in {os.getcwd()} nor a command; expected a Python script, a command, or "
        f"-m and a module's name"
    )


def _python(*arguments: str) -> Command:
    if not sys.executable:
        raise SettingsError("the path of this Python is not known (sys.executable is empty); start it by its full path")
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    if getattr(sys.__stdout__, "write_through", False) and not os.environ.get("PYTHONUNBUFFERED"):
        flags.append("-u")
    return Command(sys.executable, (sys.executable, *flags, *arguments))


def _is_python(path: Path) -> bool:
    """Return whether ``path`` is for the interpreter.

    By its ending; as a folder or archive with a main module; as a pipe; or as text without an ending that no other
    interpreter claims (``#!``) and that cannot be executed itself.
    """
    if path.suffix in (".py", ".pyw", ".pyc"):
        return True
    if path.is_dir():
        return (path / "__main__.py").exists()
    if not path.is_file():
        return True
    if os.access(path, os.X_OK):
        return False
    if pkgutil.get_importer(str(path)) is not None:
        return True
    with path.open("rb") as file:
        start = file.readline(200)
    if start.startswith(b"#!"):
        return b"python" in start
    return path.suffix == "" and b"\0" not in start
