"""What is installed, read from metadata as text: parsing it takes longer than all else that is done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__all__ = ["headers", "version_of", "version_of_provider"]


def headers(distribution: Distribution) -> dict[str, str]:
    """Return the headers of a distribution's metadata, the last of those that repeat."""
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key: value.strip() for key, colon, value in lines if colon}


def version_of(name: str) -> Optional[str]:
    """Return the version of distribution ``name``, ``None`` where there is none or it is broken."""
    from patchcore.stdlib import metadata

    try:
        return headers(metadata.distribution(name)).get("Version")
    except Exception:  # not there, or what is left of it
        return None


def version_of_provider(package: str) -> Optional[str]:
    """Return the version of the distribution that provides import package ``package``, the first on the path."""
    from patchcore.stdlib import metadata

    try:
        for distribution in metadata.distributions():
            try:
                version = headers(distribution).get("Version") if _provides(distribution, package) else None
            except Exception:  # what is left of a broken installation provides nothing
                continue
            if version is not None:
                return version
    except Exception:  # the finders on sys.meta_path are the program's, which may have patched what they use
        pass
    return None


def _provides(distribution: Distribution, package: str) -> bool:
    declared = (distribution.read_text("top_level.txt") or "").split()
    if declared:
        return package in declared
    record = "\n" + (distribution.read_text("RECORD") or "")  # torch's has ten thousand lines
    return f"\n{package}/" in record or f"\n{package}." in record
