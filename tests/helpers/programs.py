"""Programs for tests: run by the interpreter, by ``patchcore run``, or as a child process of a run.

Each test has a virtual environment of its own, which has nothing but patchcore and what it needs.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from distributions import write_distribution

import patchcore

ROOT = Path(__file__).resolve().parents[2]

# The console script that an installer writes, and the other way to start it; both have a sys.path[0] of their own.
CONSOLE_SCRIPT = "import sys\nfrom patchcore.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"

PATCHCORE = ("patchcore", "patchcore_startup", "pluggy", "packaging", "tomli", "msgspec", "jinja2", "markupsafe")

#: A library, a program that uses it, and a patch module whose patch makes it print 20, not 10.
SHOP = {
    "shop/__init__.py": "",
    "shop/prices.py": "def price(item):\n    return 10\n",
    "sell.py": "from shop.prices import price as p\nprint(p('apple'))\n",
}
PATCHES = """
import patchcore as pc

@pc.patch("shop.prices:price")
def double(item):
    return 20

@pc.hookimpl
def register_patches():
    return [double]
"""
FAILING = PATCHES.replace("shop.prices:price", "shop.prices:prize")

#: What a child process of a run prints to show whether it is patched.
SELL = "from shop.prices import price; print(price('apple'), flush=True)"


def make_environment(
    folder: Path, packages: Sequence[str] = PATCHCORE, *, pth: bool = True, system: bool = False
) -> Path:
    """Make a virtual environment in ``folder`` and return its site-packages.

    Args:
        folder: for the environment.
        packages: what to install there, by links to what this process has.
        pth: install ``patchcore_startup.pth`` too, as an installer does.
        system: let it see the packages of the base interpreter, and the user's.
    """
    venv.EnvBuilder(symlinks=True, system_site_packages=system).create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:  # tomli is for older Pythons
            (site / name).symlink_to(Path(spec.origin).parent)
    if pth:
        shutil.copy(ROOT / "patchcore_startup.pth", site)
    return site


class Programs:
    """A folder of programs, and a Python to run them.

    Args:
        folder: the current directory of every run.
        door: how patchcore gets into the child processes of a run: ``pth``, ``sitecustomize`` or ``both``.
        system: see :func:`make_environment`.
    """

    def __init__(self, folder: Path, *, door: str = "both", system: bool = False) -> None:
        self.folder = folder
        self.door = door
        self.site = make_environment(folder / "venv", pth=door != "sitecustomize", system=system)
        self.python = [str(folder / "venv" / "bin" / "python")]
        script = folder / "bin" / "patchcore"
        script.parent.mkdir()
        script.write_text(CONSOLE_SCRIPT)
        self.patchcore = [*self.python, str(script), "run"]
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PATCHCORE_", "PYTHON"))},
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def write(self, files: Mapping[str, str], folder: Optional[Path] = None) -> None:
        """Write sources by path, into the folder of the programs if no other is given."""
        for name, source in files.items():
            path = (folder or self.folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)

    def install(self, files: Mapping[str, str], name: str, version: str = "1.0", **plugins: str) -> None:
        """Install a distribution with some sources and plugins (entry points) into the Python of the programs."""
        self.write(files, self.site)
        write_distribution(self.site, name, version, plugins=plugins)

    def install_support_of_torch(self) -> None:
        """Install patchcore-torch, of which every Patcher loads a part; not torch."""
        (self.site / "patchcore_torch").symlink_to(ROOT / "plugins" / "patchcore_torch" / "patchcore_torch")
        support = {"patchcore.torch": "patchcore_torch.support"}
        write_distribution(self.site, "patchcore-torch", patchcore.__version__, support=support)

    def run(
        self, command: Sequence[str], *arguments: str, code: int = 0, stdin: Optional[str] = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command, which has to end with ``code``, and return what it printed."""
        done = subprocess.run(
            [*command, *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def compare(
        self,
        *arguments: str,
        code: int = 0,
        options: Sequence[str] = (),
        summary: str = "no patches",
        stdin: Optional[str] = None,
    ) -> str:
        """Run a program both ways and return what it printed, which must be the same, as must the exit code."""
        expected = self.run(self.python, *arguments, code=code, stdin=stdin)
        actual = self.run(self.patchcore, *options, *arguments, code=code, stdin=stdin)
        assert actual.stdout == expected.stdout
        *lines, last = actual.stderr.splitlines(keepends=True)
        assert last == f"patchcore: {summary}\n"
        assert "".join(lines) == expected.stderr
        return expected.stdout

    def in_run(self, *modules: str, libraries: Sequence[str] = ("shop",), **settings: Any) -> dict[str, str]:
        """Return what ``patchcore run`` puts into the environment of every process of a run.

        Args:
            modules: local patch modules, from the folder of the programs.
            libraries: that they patch.
            settings: see :class:`patchcore.settings.Settings`; others are those of plugins.
        """
        from patchcore.builtin.run.session import (
            Session,  # conftest is for tests that look at what imports patchcore, too
        )
        from patchcore.settings import LocalModule, Settings

        local = tuple(LocalModule(name, str(self.folder)) for name in modules)
        own = {name: settings.pop(name) for name in set(settings) & set(Settings._fields)}
        session = Session(
            "run", os.getpid(), Settings(modules=local, values=settings, **own), libraries=tuple(libraries)
        )
        environment = session.environment({})
        return {**environment, "PYTHONPATH": ""} if self.door == "pth" else environment

    def child(
        self, code: str, *flags: str, run: Optional[Mapping[str, str]] = None, exit_code: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run code as a child process of a run, by default of one that applies the patch module ``deals``.

        Args:
            code: of the process.
            flags: of the interpreter.
            run: see :meth:`in_run`.
            exit_code: what it has to end with.
            environment: further variables; ``PYTHONPATH`` goes after what the run puts there.
        """
        run = self.in_run("deals") if run is None else run
        path = os.pathsep.join(filter(None, [run.get("PYTHONPATH"), environment.pop("PYTHONPATH", "")]))
        return self.run(
            [*self.python, *flags, "-c", code], code=exit_code, **{**run, "PYTHONPATH": path, **environment}
        )
