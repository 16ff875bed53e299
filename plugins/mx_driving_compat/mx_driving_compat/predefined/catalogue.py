"""Finds the patches of installed plugins by their names in mx_driving.patcher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from patchcore import Patcher, Settings
from patchcore.plugin import Candidate, Plugins

__all__ = ["Catalogue", "load"]


class Catalogue:
    """The patches of the installed plugins, and the user's settings for them.

    Args:
        candidates: each patch with who contributes it.
        settings: of environment and pyproject.toml.
        plugins: the installed plugins.
    """

    def __init__(self, candidates: list[Candidate], settings: Settings, plugins: Optional[Plugins] = None) -> None:
        self.candidates = candidates
        self.settings = settings
        self._plugins = plugins

    def named(self, *names: str) -> list[Candidate]:
        """Return the patches with one of these names or legacy names, in the order of the names."""
        return [candidate for name in names for candidate in self.candidates if name in candidate.patch.names]

    def with_options(self, options: Mapping[str, Mapping[str, Any]]) -> Catalogue:
        """Return the patches that the same plugins contribute with these options of patches, by name."""
        settings = self.settings._replace(options={**self.settings.options, **options})
        return Catalogue(list(Patcher(plugins=self._plugins, settings=settings).collect()), settings, self._plugins)


_loaded: Optional[Catalogue] = None
_counting = False


def count_calls() -> None:
    """Make every patcher of this process count calls: ``patchcore run --count`` is no setting that is read here."""
    global _counting
    _counting = True


def load(options: Optional[Mapping[str, Mapping[str, Any]]] = None) -> Catalogue:
    """Return the catalogue; plugins are loaded once.

    Args:
        options: of patches, by name; they are stronger than the user's settings.

    Raises:
        SettingsError: a setting cannot be read.
    """
    global _loaded
    if _loaded is None:
        patcher = Patcher.discover(settings=Settings.load())
        settings = patcher.settings._replace(count=patcher.settings.count or _counting)
        _loaded = Catalogue(list(patcher.collect()), settings, patcher.plugins)
    return _loaded.with_options(options) if options else _loaded
