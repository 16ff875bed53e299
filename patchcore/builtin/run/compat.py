"""Interfaces of other patchers in a run: ``patchcore run --compat NAME``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from patchcore.builtin.install.command import install_command
from patchcore.builtin.install.distributions import known_distributions
from patchcore.errors import SettingsError, did_you_mean
from patchcore.objects.printable import counted

if TYPE_CHECKING:
    from patchcore.patcher import Patcher
    from patchcore.plugins import Plugins
    from patchcore.settings import Settings

__all__ = ["Compat", "chosen_compat", "compat_that_plans"]


class Compat(NamedTuple):
    """The interface of another patcher, for programs that were written against that one.

    Args:
        name: for ``--compat``; the entry point of the plugin has the same name.
        modules: the top-level modules that such programs import.
        take_part: called in each process of a run with its Patcher, before that is applied: lets the program find the
            interface.
        plan: the module that ``patchcore plan --compat NAME -- ARGUMENTS`` runs in a process of a run, with the
            arguments of a program: it prints which patches they switch on. Empty if there is none.

    Examples:
        >>> from patchcore.plugin import Compat
        >>> Compat("old_shop", ["old_shop_patcher"], take_part=lambda patcher: None).modules
        ['old_shop_patcher']
    """

    name: str
    modules: Sequence[str]
    take_part: Callable[[Patcher], None]
    plan: str = ""


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


def compat_that_plans(settings: Settings, plugins: Plugins) -> Compat:
    """Return the one interface that the setting ``compat`` names and that can plan.

    Raises:
        SettingsError: none is named, none can plan, or several can; the message has those that can.
    """
    able = [compat for compat in chosen_compat(settings, plugins) if compat.plan]
    if len(able) == 1:
        return able[0]
    known = ", ".join(sorted(compat.name for compat in _registered(plugins).values() if compat.plan))
    named = ",".join(settings.get("compat") or ())
    problem = f"{named}: {counted(len(able), 'interface')} of these can plan" if named else "no interface is named"
    raise SettingsError(
        f"{problem}; write: patchcore plan --compat NAME -- ARGUMENTS, where NAME is one of "
        f"{known or '(none installed)'}. patchcore list shows the patches of installed plugins"
    )


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
