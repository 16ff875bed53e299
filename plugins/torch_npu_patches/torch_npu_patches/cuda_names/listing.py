"""The list of lines of known packages: which of them are edited, which are left alone, and why.

``listing.json`` contains the list, by package and version. ``python -m torch_npu_patches.cuda_names PACKAGE --write``
writes it by the rule of :mod:`.editing`. If a person has changed a verdict in the file and given a reason, the command
keeps both. For versions that are not in the list, the rule decides.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

import patchcore as pc
from patchcore.plugin import version_of, version_of_provider

__all__ = ["LISTING", "Row", "dumped", "known", "load", "public_version", "verdicts"]

#: The list that the plugin keeps.
LISTING = Path(__file__).with_name("listing.json")

_VERDICTS = {True: "on", False: "off"}


class Row(NamedTuple):
    """A line of a package that compares with ``"cuda"``, or looks for CUDA in a function with a branch for NPUs.

    Args:
        place: file, from the folder of the package, and line: ``timm/layers/fast_norm.py:41``.
        function: with its classes; empty for the top level of a module.
        source: the expression; several of one line are separated by semicolons.
        edited: whether ``torch.transfer_to_npu.library_names`` or ``.npu_branches`` edits it.
        why: why it is left alone, or why it is edited although the rule leaves it alone; empty for the others.
    """

    place: str
    function: str
    source: str
    edited: bool
    why: str = ""


def load(path: Path) -> dict[str, dict[str, list[Row]]]:
    """Return the rows of a list, by package and version.

    Raises:
        SettingsError: the file cannot be read, or is malformed.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise pc.SettingsError(f"{path}: the list of lines cannot be read: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(versions, dict) for versions in found.values()):
        raise pc.SettingsError(f"{path}: a list of lines is an object of packages, each an object of versions")
    return {
        package: {version: _rows(path, f"{package} {version}", rows) for version, rows in versions.items()}
        for package, versions in found.items()
    }


def _rows(path: Path, of: str, found: Any) -> list[Row]:
    if not isinstance(found, list):
        raise pc.SettingsError(f"{path}: {of}: expected an array of rows, got {type(found).__name__}")
    rows: dict[tuple[str, str], Row] = {}
    for number, entry in enumerate(found, 1):
        row = _row(entry)
        if row is None:
            expected = '["on" or "off", "package/file.py:line", function, expression, why], where "off" needs a reason'
            raise pc.SettingsError(f"{path}: {of}: row {number}: expected {expected}, got {str(entry)[:200]}")
        if (row.place, row.source) in rows:
            raise pc.SettingsError(f"{path}: {of}: row {number}: {row.place} {row.source} is there twice")
        rows[row.place, row.source] = row
    return list(rows.values())


def _row(entry: Any) -> Optional[Row]:
    if not isinstance(entry, list) or len(entry) != 5 or not all(isinstance(text, str) for text in entry):
        return None
    verdict, place, function, source, why = entry
    file, _, line = place.rpartition(":")
    if verdict not in _VERDICTS.values() or not (file.endswith(".py") and line.isdecimal() and source):
        return None
    return Row(place, function, source, verdict == "on", why) if why or verdict == "on" else None


def dumped(listing: Mapping[str, Mapping[str, Iterable[Row]]]) -> str:
    """Return the text of a list, one line for each row."""
    packages = []
    for package, versions in sorted(listing.items()):
        texts = []
        for version, rows in sorted(versions.items()):
            lines = [json.dumps([_VERDICTS[row.edited], *row[:3], row.why], ensure_ascii=False) for row in rows]
            texts.append(f"  {json.dumps(version)}: [\n    " + ",\n    ".join(lines) + "\n  ]")
        packages.append(f" {json.dumps(package)}: {{\n" + ",\n".join(texts) + "\n }")
    return "{\n" + ",\n".join(packages) + "\n}\n"


def public_version(package: str) -> str:
    """Return the installed version of an import package, without the part after a plus; empty if it has none."""
    return (version_of(package) or version_of_provider(package) or "").partition("+")[0]


def verdicts(module: str, file: str) -> Mapping[tuple[int, str], Row]:
    """Return the rows of the list about a module of an installed package, by line and expression.

    Args:
        module: its name.
        file: path of its source.

    Raises:
        SettingsError: the list is malformed.
    """
    package = module.partition(".")[0]
    if package not in known():
        return {}
    parts = file.split(os.sep)
    count = module.count(".") + 1 + (parts[-1] == "__init__.py")
    return _by_file(package).get("/".join(parts[-count:]), {})


@functools.cache
def known() -> dict[str, dict[str, list[Row]]]:
    """Return the list that the plugin keeps; see :func:`load`."""
    return load(LISTING)


@functools.cache
def _by_file(package: str) -> dict[str, dict[tuple[int, str], Row]]:
    found: dict[str, dict[tuple[int, str], Row]] = {}
    for row in known()[package].get(public_version(package), ()):
        file, _, line = row.place.rpartition(":")
        for source in row.source.split("; "):
            found.setdefault(file, {})[int(line), source] = row
    return found
