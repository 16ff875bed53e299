"""What the installed plugins contribute, by the names that the API has for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Optional

from patchcore.patcher import Patcher
from patchcore.planning.plan import Candidate
from patchcore.settings import Settings

__all__ = ["Catalogue", "load"]


class Catalogue:
    """The patches of the installed plugins, and the user's settings for them.

    Args:
        candidates: each patch with who contributes it.
        settings: of environment and pyproject.toml.
    """

    def __init__(self, candidates: list[Candidate], settings: Settings) -> None:
        self.candidates = candidates
        self.settings = settings

    def named(self, *names: str) -> list[Candidate]:
        """Return the patches that are called by one of these names, their legacy names included, in order of names."""
        return [candidate for name in names for candidate in self.candidates if name in candidate.patch.names]


_loaded: Optional[Catalogue] = None
_counting = False


def count_calls() -> None:
    """Let every patcher of this process count calls: ``patchcore run --count`` is not among the settings read here."""
    global _counting
    _counting = True


def load(options: Optional[Mapping[str, Mapping[str, Any]]] = None) -> Catalogue:
    """Return the catalogue; plugins are loaded once.

    Args:
        options: of patches, by their names, over those that the user has set.

    Raises:
        SettingsError: a setting cannot be read.
    """
    global _loaded
    if _loaded is None:
        patcher = Patcher.discover(settings=Settings.load())
        settings = replace(patcher.settings, count=patcher.settings.count or _counting)
        _loaded = Catalogue(list(patcher.collect()), settings)
    if not options:
        return _loaded
    settings = replace(_loaded.settings, options={**_loaded.settings.options, **options})
    return Catalogue(list(Patcher.discover(settings=settings).collect()), settings)
