"""The command line that installs distributions: every hint of patchcore and of its plugins comes from this module."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional
from urllib.parse import unquote

from patchcore.builtin.install import project
from patchcore.builtin.install.distributions import CORE, known_distributions
from patchcore.planning.distributions import version_of

__all__ = ["install_arguments", "install_command", "install_line_of_a_page", "python_command"]

#: A name with extras; the rest of a requirement, a version for example, is unchanged.
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)(\[[^]]*\])?")


def install_command(*requirements: str) -> str:
    """Return the command line that installs distributions for this Python, wherever the user stands.

    The package index has the distributions of this project after a release only. Until then they come from where
    patchcore was installed from: a checkout, a repository, or a folder with wheels. The line then also names
    the missing distributions of this project that they need. Any distribution that is installed from a
    folder is installed from that folder again.

    Args:
        requirements: as for pip, ``npu-emulator``, ``torch-npu-patches[torch]`` or ``rich>=12``; and options of pip.

    Examples:
        >>> import patchcore as pc
        >>> pc.install_command("rich>=12").endswith(" -m pip install 'rich>=12'")
        True
    """
    source = _find_source(requirements)
    return f"{source.before}{_installer()} {_arguments(requirements, source)}{source.after}"


def install_arguments(*requirements: str) -> str:
    """Return the arguments of ``pip install`` that :func:`install_command` has, for the use with another Python."""
    source = _find_source(requirements)
    return f"{_arguments(requirements, source)}{source.after}"


def install_line_of_a_page(*requirements: str, released: bool = project.RELEASED) -> str:
    """Return the command line that README and docs show: for readers in a checkout who have nothing installed.

    Args:
        requirements: see :func:`install_command`.
        released: whether the package index has the distributions.
    """
    source = _INDEX if released else _Source(_in_this_folder)
    return f"python -m pip install {' '.join(_locate(requirements, source, fresh=True))}"


class _Source(NamedTuple):
    """Where the distributions of this project come from.

    Args:
        locate: returns the argument for pip from a name, its extras, and the folder in a checkout.
        options: of ``pip install``.
        before, after: stand around the command line.
    """

    locate: Callable[[str, str, str], str]
    options: tuple[str, ...] = ()
    before: str = ""
    after: str = ""


_INDEX = _Source(lambda name, extras, folder: f"{name}{extras}")


def _in_this_folder(name: str, extras: str, folder: str) -> str:
    return f"{folder if folder == '.' else f'./{folder}'}{extras}"


def _find_source(requirements: Iterable[str]) -> _Source:
    """Return where to get ``requirements`` for this Python, as far as they are distributions of this project."""
    ours = {CORE, *(distribution.name for distribution in known_distributions())}
    if project.RELEASED or ours.isdisjoint(_parse(requirement)[0] for requirement in requirements):
        return _INDEX
    origin = _origin(CORE)
    folder = _folder_of(origin)
    own = Path(__file__).resolve().parents[3]  # without an installation, a checkout on sys.path
    root = next((root for root in (folder, own) if root is not None and (root / "plugins").is_dir()), None)
    if root is not None:
        return _Source(lambda name, extras, below: f"{os.path.normpath(root / below)}{extras}")
    if "vcs_info" in origin:
        return _Source(lambda name, extras, below: _in_repository(origin, name, extras, below))
    if folder is not None and folder.suffix == ".whl":
        return _INDEX._replace(options=("--find-links", str(folder.parent)))
    if project.URL:
        clone = f"git clone {shlex.quote(project.URL)} {CORE} && "
        return _Source(lambda name, extras, below: f"./{os.path.normpath(f'{CORE}/{below}')}{extras}", before=clone)
    return _Source(_in_this_folder, after="  # in a checkout of patchcore")


def _in_repository(origin: dict[str, Any], name: str, extras: str, folder: str) -> str:
    """Return the argument for a distribution in the repository that ``origin`` names, at the same commit."""
    version = origin["vcs_info"]
    below = os.path.normpath(f"{origin.get('subdirectory', '.')}/{folder}")
    place = "" if below == "." else f"#subdirectory={below}"
    return f"{name}{extras} @ {version['vcs']}+{origin['url']}@{version['commit_id']}{place}"


def _arguments(requirements: Iterable[str], source: _Source) -> str:
    return " ".join([*map(shlex.quote, source.options), *_locate(requirements, source)])


def _locate(requirements: Iterable[str], source: _Source, *, fresh: bool = False) -> Iterator[str]:
    """Yield the arguments of pip, quoted for a shell.

    Args:
        requirements: see :func:`install_command`.
        source: of the distributions of this project.
        fresh: whether they are for an environment that has nothing installed, not for this one.
    """
    folders = {distribution.name: distribution.folder for distribution in known_distributions()}
    folders[CORE] = "."
    for requirement in requirements if source is _INDEX else _with_needed(requirements, fresh):
        name, extras = _parse(requirement)
        origin = {} if fresh or (source is _INDEX and name in folders) else _origin(name)
        folder = _folder_of(origin)
        if folder is not None and folder.is_dir():
            yield from ["-e"] if origin["dir_info"].get("editable") else []
            yield shlex.quote(f"{folder}{extras}")
        elif name in folders:
            yield shlex.quote(source.locate(name, extras, folders[name]))
        else:
            yield shlex.quote(requirement)


def _with_needed(requirements: Iterable[str], fresh: bool) -> list[str]:
    """Return the requirements, and before each the missing distributions of this project that it needs."""
    direct = {distribution.name: distribution.needs for distribution in known_distributions()}

    def needs(name: str) -> Iterator[str]:
        for needed in direct[name]:
            yield from needs(needed)
            yield needed

    found = list(requirements)
    named = {_parse(requirement)[0] for requirement in found}
    for requirement in tuple(found):
        name = _parse(requirement)[0]
        for needed in (CORE, *needs(name)) if name in direct else ():
            if needed not in named and (fresh or version_of(needed) is None):
                named.add(needed)
                found.insert(found.index(requirement), needed)
    return found


def _parse(requirement: str) -> tuple[str, str]:
    """Return the name and the extras of a requirement; empty texts for an option of pip and for a path."""
    found = _REQUIREMENT.match(requirement)
    return (found[1], found[2] or "") if found else ("", "")


def _origin(name: str) -> dict[str, Any]:
    """Return the record of where a distribution was installed from (PEP 610); an empty one if it has none."""
    from patchcore.stdlib import metadata

    try:
        text = metadata.distribution(name).read_text("direct_url.json") if name else None
        origin = json.loads(text or "{}")
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return {}
    return origin if isinstance(origin, dict) and isinstance(origin.get("url"), str) else {}


def _folder_of(origin: dict[str, Any]) -> Optional[Path]:
    """Return the folder or file that a distribution was installed from, ``None`` if there is none, or none any more."""
    url = str(origin.get("url", ""))
    if not url.startswith("file://") or "vcs_info" in origin:
        return None
    text = unquote(url[len("file://") :])
    path = Path(text[1:] if os.name == "nt" else text)  # file:///C:/folder
    return path if path.exists() else None


def _installer() -> str:
    """Return the beginning of the command line: pip, or uv in an environment of uv, which has no pip."""
    # Not by the finders of sys.meta_path. Before Python 3.12, that of setuptools takes a process that looks for pip
    # for one of pip, and `import setuptools` fails from then on (setuptools 80, `DistutilsMetaFinder.spec_for_pip`).
    if PathFinder.find_spec("pip") is None and shutil.which("uv"):
        return f"uv pip install --python {shlex.quote(sys.executable or 'python3')}"
    return f"{python_command()} -m pip install"


def python_command() -> str:
    """Return how a shell starts this Python: ``python`` if that is the first one on PATH, else its path."""
    found = shutil.which("python")
    is_first = found is not None and os.path.dirname(os.path.abspath(found)) == os.path.dirname(sys.executable)
    return "python" if is_first else shlex.quote(sys.executable or "python3")
