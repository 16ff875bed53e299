"""Finds installed distributions, and compares their versions with requirements.

Neither uses the usual parsers. Metadata is read as text, because parsing it takes longer than
everything else that is done with it. Requirements like ``mmcv>=2,<3`` and versions like ``2.1.0`` and ``2.13.0+cpu``
are compared here. :mod:`packaging` compares all others; importing it takes a tenth of the time of ``patchcore list``.
"""

from __future__ import annotations

import re
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__all__ = ["headers", "is_in", "parse_requirement", "version_of", "version_of_provider"]

_REQUIREMENT = (
    r"(?a)[ \t]*(?P<name>[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?)[ \t]*(?P<specifiers>[<>=!~](?:[^;@\[\]()\s]|[ \t])*)?"
)

#: A final release; packaging reads numbers of many digits.
_RELEASE = r"[0-9]{1,9}(?:\.[0-9]{1,9})*"
#: One comparison with a release or a release candidate. ``>`` a candidate is left to packaging, which has rules for it.
_SPECIFIER = rf" *(>=|<=|==|!=|<|>(?![^,]*c)) *({_RELEASE}(?:rc[0-9]+)?) *"
_SPECIFIERS = rf"(?:{_SPECIFIER}(?:,{_SPECIFIER})*)?"
#: Only ``===`` compares the part after the plus, where the specifier has none.
_VERSION = rf"({_RELEASE})(?:\+[a-z0-9]+(?:[._-][a-z0-9]+)*)?"

_COMPARE = {">=": ge, "<=": le, "==": eq, "!=": ne, ">": gt, "<": lt}


def headers(distribution: Distribution) -> dict[str, str]:
    """Return the headers of a distribution's metadata, the last of those that repeat."""
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key: value.strip() for key, colon, value in lines if colon}


def version_of(name: str) -> Optional[str]:
    """Return the version of distribution ``name``, ``None`` where there is none or it is broken.

    Examples:
        >>> from patchcore.plugin import version_of
        >>> version_of("no-such-distribution") is None
        True
    """
    from patchcore.stdlib import metadata

    try:
        return headers(metadata.distribution(name)).get("Version")
    except Exception:  # not installed, or a broken remainder of an installation
        return None


def version_of_provider(package: str) -> Optional[str]:
    """Return the version of the distribution that provides import package ``package``, the first on the path.

    Examples:
        >>> import importlib.metadata
        >>> from patchcore.plugin import version_of_provider
        >>> version_of_provider("pluggy") == importlib.metadata.version("pluggy")
        True
    """
    from patchcore.stdlib import metadata

    try:
        for distribution in metadata.distributions():
            try:
                version = headers(distribution).get("Version") if _provides(distribution, package) else None
            except Exception:  # the remainder of a broken installation provides nothing
                continue
            if version is not None:
                return version
    except Exception:  # finders on sys.meta_path belong to the program and may raise anything
        pass
    return None


def _provides(distribution: Distribution, package: str) -> bool:
    declared = (distribution.read_text("top_level.txt") or "").split()
    if declared:
        return package in declared
    record = "\n" + (distribution.read_text("RECORD") or "")  # torch's has ten thousand lines
    return f"\n{package}/" in record or f"\n{package}." in record


def parse_requirement(text: str) -> tuple[str, str, bool]:
    """Return the name and the specifiers of a requirement, and whether its marker holds.

    Raises:
        ValueError: it is malformed.
    """
    found = re.fullmatch(_REQUIREMENT, text)
    if found is None:  # the full parser only where there is a marker
        from packaging.requirements import Requirement

        requirement = Requirement(text)
        return requirement.name, str(requirement.specifier), requirement.marker is None or requirement.marker.evaluate()
    specifiers = found["specifiers"] or ""
    if not re.fullmatch(_SPECIFIERS, specifiers):
        from packaging.specifiers import SpecifierSet

        SpecifierSet(specifiers)  # raises if it is malformed
    return found["name"], specifiers, True


def is_in(version: str, specifiers: str) -> bool:
    """True if a version, which may be a pre-release, is in specifiers such as ``>=2,<3``.

    Raises:
        ValueError: ``version`` is not a version.
    """
    found = re.fullmatch(_VERSION, version)
    if found is None or not re.fullmatch(_SPECIFIERS, specifiers):
        from packaging.specifiers import SpecifierSet

        return SpecifierSet(specifiers).contains(version, prereleases=True)
    given = _key(found[1])
    return all(_COMPARE[sign](given, _key(bound)) for sign, bound in re.findall(_SPECIFIER, specifiers))


def _key(version: str) -> tuple[list[int], bool]:
    """Return the sort key of a release or candidate: ``2.0`` equals ``2`` and is later than ``2.0rc1``."""
    release, candidate, _ = version.partition("rc")
    return list(map(int, re.sub(r"(\.0+)+$", "", release).split("."))), not candidate
