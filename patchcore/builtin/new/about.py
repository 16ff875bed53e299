"""The author, licence and source address of a new plugin."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from patchcore.errors import SettingsError

__all__ = ["DEFAULT_LICENSE", "PluginMetadata", "find_about"]

#: That of patchcore.
DEFAULT_LICENSE = "Apache-2.0"
_SPDX = re.compile(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*")
#: ``git@host.example:team/project.git``, the form of ssh that is no URL.
_SCP = re.compile(r"(?:[^@/:]+@)?([^@/:]+\.[^@/:]+):(?!/)(.+)")


class PluginMetadata(NamedTuple):
    """The metadata of a new plugin that its patches do not decide.

    Args:
        license: an SPDX expression.
        author, email: of its author, empty if git knows none.
        source: the address of the repository, empty if it has none.

    Examples:
        >>> from patchcore.plugin import PluginMetadata
        >>> PluginMetadata(author="Ann").license
        'Apache-2.0'
    """

    license: str = DEFAULT_LICENSE
    author: str = ""
    email: str = ""
    source: str = ""

    @property
    def lines(self) -> str:
        """The lines for the table ``[project]`` of pyproject.toml; a comment stands for an author who is not known."""
        known = {name: value for name, value in (("name", self.author), ("email", self.email)) if value}
        person = ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in known.items())
        authors = f"authors = [{{ {person} }}]" if known else '# TODO authors = [{ name = "...", email = "..." }]'
        return f'license = "{self.license}"\n{authors}\n'

    @property
    def urls(self) -> str:
        """The table ``[project.urls]`` of pyproject.toml, empty without an address."""
        return f"\n[project.urls]\nSource = {json.dumps(self.source)}\n" if self.source else ""


def find_about(directory: Path, license: str) -> PluginMetadata:
    """Return the metadata of a plugin in ``directory``: author and address as git is configured there.

    Args:
        directory: that the plugin is written to.
        license: an SPDX expression.

    Raises:
        SettingsError: ``license`` is none.
    """
    name, email = (_git(directory, "config", f"user.{part}") for part in ("name", "email"))
    return PluginMetadata(_canonical(license), name, email, _address(_git(directory, "remote", "get-url", "origin")))


def _canonical(license: str) -> str:
    """Return an SPDX expression in its usual spelling."""
    try:
        from packaging.licenses import canonicalize_license_expression

        return str(canonicalize_license_expression(license))
    except ImportError:  # packaging before 24.2 knows no licences
        if _SPDX.fullmatch(license):
            return license
    except ValueError:
        pass
    raise SettingsError(
        f"--license {license!r} is no SPDX expression; write Apache-2.0, MIT, or LicenseRef-Proprietary for a licence "
        "that has no name there"
    )


def _git(directory: Path, *arguments: str) -> str:
    """Return the output of a git command, empty if it fails or there is no git."""
    git = shutil.which("git")
    if git is None:
        return ""
    done = subprocess.run([git, "-C", str(directory), *arguments], capture_output=True, text=True, errors="replace")
    return str(done.stdout).strip() if done.returncode == 0 else ""


def _address(remote: str) -> str:
    """Return the page of a remote repository, without a password that it may have; empty for a folder."""
    scp = _SCP.fullmatch(remote)
    try:
        parts = urlsplit(f"ssh://{scp[1]}/{scp[2]}" if scp else remote)
        host, number = parts.hostname, parts.port
    except ValueError:  # a port that is no number
        return ""
    if parts.scheme not in ("http", "https", "ssh") or not host:
        return ""
    port = f":{number}" if number and parts.scheme != "ssh" else ""
    scheme = "http" if parts.scheme == "http" else "https"
    path = re.sub(r"(\.git)?/*$", "", parts.path)
    return f"{scheme}://{host}{port}{path}"
