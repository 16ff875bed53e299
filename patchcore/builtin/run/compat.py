"""Interfaces of other patchers in a run: ``patchcore run --compat NAME``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from patchcore.builtin.install.command import install_command
from patchcore.builtin.install.distributions import known_distributions
from patchcore.errors import SettingsError, did_you_mean

if TYPE_CHECKING:
    from patchcore.patcher import Patcher
    from patchcore.plugins import Plugins
    from patchcore.settings import Settings

__all__ = ["Compat", "chosen_compat"]


class Compat(NamedTuple):
    """The interface of another patcher, for programs that were written against that one.

    Args:
        name: for ``--compat``; the entry point of the plugin has the same name.
        modules: the top-level modules that such programs import.
        take_part: called in each process of a run with its Patcher, before that is applied: lets the program find the
            interface.

    Examples:
        >>> from patchcore.plugin import Compat
        >>> Compat("old_shop", ["old_shop_patcher"], take_part=lambda patcher: None).modules
        ['old_shop_patcher']
    """

    name: str
    modules: Sequence[str]
    take_part: Callable[[Patcher], None]


def chosen_compat(settings: Settings, plugins: Plugins) -> list[Compat]:
    """Return the interfaces that the setting ``compat`` names, in its order.

    Raises:
        SettingsError: no plugin registers one of them; the message has the nearest name, or the line that installs it.
    """
    registered = _registered(plugins) if settings.get("compat") else {}
    for name in settings.get("compat") or ():
        if name not in registered:
            raise SettingsError(_refusal(name, settings, registered))
    return [registered[name] for name in settings.get("compat") or ()]


def _registered(plugins: Plugins) -> dict[str, Compat]:
    found: dict[str, Compat] = {}
    expected = "Compat(name, modules, take_part)"
    for compat in plugins.gather("register_compat", lambda item: isinstance(item, Compat), expected):
        found.setdefault(compat.name, compat)
    return found


def _refusal(name: str, settings: Settings, registered: Iterable[str]) -> str:
    where = settings.origins.get("compat", "compat")
    distributions = {each.compat: each.name for each in known_distributions() if each.compat}
    if name in distributions:
        return f"{where}: {name!r} is not installed; {install_command(distributions[name])}"
    names = sorted({*distributions, *registered})
    return f"{where} = {name!r}; expected one of {', '.join(names)}{did_you_mean(name, names)}"
