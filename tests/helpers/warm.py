"""Programs that begin with the same imports: a process makes them once, and each program runs in a fork of it.

What a program does, its fork alone has: the next program finds the modules as the imports left them.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Warm"]

#: Seconds that a program may take, the imports before the first one included.
LONGEST = 600.0

# Runs programs as they are asked for, one line each; what comes before makes the imports.
_SERVE = """
def _serve():
    import json, os, sys, traceback

    def run(request):
        for number, name in enumerate(("in", "out", "err")):
            os.dup2(os.open(request[name], os.O_RDONLY if name == "in" else os.O_WRONLY | os.O_CREAT, 0o600), number)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environ"])
        sys.path[:0] = request["path"]
        sys.argv[1:] = request["arguments"]
        try:
            exec(compile(request["code"], "<string>", "exec"), globals())
        except SystemExit as exit:
            if exit.code is None or isinstance(exit.code, int):
                return exit.code or 0
            print(exit.code, file=sys.stderr)
            return 1
        return 0

    pipe = os.fdopen(os.dup(1), "w")
    for line in os.fdopen(os.dup(0)):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = run(json.loads(line))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=pipe, flush=True)

_serve()
"""


class Warm:
    """A process that has made some imports, and forks itself to run programs; it ends with its ``with`` block.

    Args:
        folder: for what the programs print.
        imports: code; the names that it binds are there for the programs.
        environ: further variables of the process and of the programs.
    """

    def __init__(self, folder: Path, imports: str, **environ: str) -> None:
        self._folder = folder
        self._environ = {**os.environ, **environ}
        self._process = subprocess.Popen(
            [sys.executable, "-c", imports + _SERVE],
            cwd=folder,
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=LONGEST)

    def run(
        self, code: str, arguments: Sequence[str] = (), *, cwd: Path, path: Sequence[Path] = (), **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program and return what it printed.

        Args:
            code: of the program.
            arguments: its ``sys.argv[1:]``.
            cwd: its current directory.
            path: folders that it finds first.
            environ: further variables; those that Python reads at its start have no effect.

        Raises:
            subprocess.TimeoutExpired: it took too long; the process is gone then.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        files = {"in": os.devnull, "out": str(self._folder / "out"), "err": str(self._folder / "err")}
        for name in ("out", "err"):
            Path(files[name]).write_text("")
        request = {
            **files,
            "code": code,
            "arguments": list(arguments),
            "cwd": str(cwd),
            "path": list(map(str, path)),
            "environ": {**self._environ, **environ},
        }
        print(json.dumps(request), file=self._process.stdin, flush=True)
        if not select.select([self._process.stdout], [], [], LONGEST)[0]:
            os.killpg(self._process.pid, signal.SIGKILL)
            said = {name: Path(files[name]).read_text() for name in ("out", "err")}
            raise subprocess.TimeoutExpired(code, LONGEST, said["out"], said["err"])
        ended = self._process.stdout.readline()
        assert ended, "the process that has made the imports is gone"
        out, err = (Path(files[name]).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess([sys.executable, *arguments], int(ended), out, err)
