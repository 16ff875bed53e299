"""The change that makes changes of modules as they are imported, for a package whose modules are not known before."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any, Callable, Union

from patchcore.declare.changes import Change, SlotChange, as_callable, resolve
from patchcore.declare.target import Target
from patchcore.errors import DeclarationError

__all__ = ["EachModule"]

_MODULES = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\.\*")


class EachModule(Change):
    """Look at each module of a package when its import ends, and make the changes that a function returns for it.

    For patches whose targets are not known before: all classes of a library that have some property, in models that
    will be written next year. The changes become changes of the patch: reports, counters and reverts have each of them.
    Modules that are loaded already are looked at when the patch is applied. A module is looked at once, also if it is
    reloaded.

    Args:
        modules: ``"package.*"`` for all modules in a package, at any depth, without the package itself.
        changes: called with each module; returns its changes: ``Replace``, ``Wrap`` and others of one slot, with
            targets in that module. Or the target of such a function. If it raises, the patch fails.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import sys
        >>> import patchcore as pc
        >>> def doubled(original, price):
        ...     return 2 * original(price)
        >>> def changes(module):
        ...     return [pc.Wrap(f"{module.__name__}:{name}", doubled) for name in vars(module) if name.endswith("tax")]
        >>> patcher = pc.Patcher([pc.Patch("demo.taxes", pc.EachModule("demo_taxes.*", changes))])
        >>> sys.modules["demo_taxes.se"] = module = type(sys)("demo_taxes.se")
        >>> exec("def food_tax(price): return price // 4", vars(module))
        >>> with patcher:
        ...     module.food_tax(40), patcher.report()["demo.taxes"].changes[1].target
        (20, 'demo_taxes.se:food_tax')
        >>> module.food_tax(40)
        10
        >>> del sys.modules["demo_taxes.se"]
    """

    modules: str
    changes: Any

    waits = False
    shares_slots = True

    def __init__(self, modules: str, changes: Union[str, Callable[[ModuleType], Iterable[SlotChange]]]) -> None:
        where = f"EachModule({modules!r})"
        if not isinstance(modules, str) or not _MODULES.fullmatch(modules):
            raise DeclarationError(f"{where}: write 'package.*'")
        found = as_callable(changes, "changes", where)
        super().__init__(target=Target(modules[:-2], ()), modules=modules, changes=found)

    @property
    def libraries(self) -> tuple[str, ...]:
        return ()  # nothing happens as long as there is no such module

    @property
    def source(self) -> Any:
        return self.changes

    @property
    def runs(self) -> tuple[Any, ...]:
        return (self.changes,)

    def claims(self, target: Target) -> tuple[Target, ...]:
        return ()  # they are known when the module is imported

    def covers_module(self, name: str) -> bool:
        """Return true if the module called ``name`` is one of those that are looked at."""
        return name.startswith(self.modules[:-1])

    def changes_of(self, module: ModuleType) -> list[SlotChange]:
        """Return the changes for ``module``; imports the function if it is given as a target.

        Raises:
            DeclarationError: it returned something else.
        """
        found = list(resolve(self.changes)(module))
        for change in found:
            if not isinstance(change, SlotChange) or change.target.module != module.__name__:
                raise DeclarationError(
                    f"{self}: {self.changes} must return changes of slots in {module.__name__}, like "
                    f"Wrap('{module.__name__}:name', wrapper); it returned {change!r}"
                )
        return found

    def phrase(self, target: Target) -> str:
        return f"{self.kind} {self.modules}"

    def subject(self, target: Target) -> str:
        return self.modules
