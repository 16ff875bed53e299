"""Changes of imports that a patcher makes. Each takes effect at once, not with ``apply()``."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Optional, Union

from mx_driving_compat.patches.application import Run, Unit
from mx_driving_compat.patches.paths import is_stub
from patchcore import DeclarationError, InjectImport, Literal, Patch, ReplaceImport, StubImport
from patchcore.plugin import APPLIED, Change, describe_error, dotted_prefixes, find_module, missing_ancestor

__all__ = ["ImportControl", "Replacement"]


class Replacement(NamedTuple):
    """The replacement of a module.

    Args:
        base: dotted name of another module, ``None`` for a module of the exports alone.
        exports: values by name; they are used instead of those of ``base``.
    """

    base: Optional[str] = None
    exports: Mapping[str, Any] = MappingProxyType({})

    @classmethod
    def of(
        cls,
        name: str,
        replacement: Union[str, Replacement, None],
        base: Optional[str],
        exports: Optional[Mapping[str, Any]],
        attrs: Mapping[str, Any],
    ) -> Replacement:
        """Combine the arguments of ``replace_import``.

        Args:
            name: of the module that is replaced, for messages.
            replacement, base: the modules that it is replaced with.
            exports, attrs: names with their objects.

        Raises:
            ValueError: two of them say different things.
        """
        given = replacement if isinstance(replacement, Replacement) else cls(replacement)
        if given.base is not None and base is not None:
            raise ValueError(f"replace_import({name!r}): {given.base!r} and base_module={base!r} are given; give one")
        twice = sorted(set(exports or ()) & set(attrs))
        if twice:
            raise ValueError(f"replace_import({name!r}): {', '.join(twice)} both in exports and as a keyword; give one")
        return cls(given.base or base, {**given.exports, **(exports or {}), **attrs})


class _ReplaceAlsoInStub(ReplaceImport):
    """Replaces a module, also one inside a package that is a stub."""

    @property
    def libraries(self) -> tuple[str, ...]:
        return ()  # needs no library


class ImportControl:
    """The changes of imports of one patcher. A method returns why it changed nothing, or an empty text.

    Attributes:
        calls: of these methods, name and arguments, to be repeated in other processes.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self._runs: list[Run] = []
        self._withdrawn: list[Run] = []
        self._at_once: dict[str, None] = {}  # modules that do not wait for an import

    def skip(self, name: str) -> str:
        """Make a module importable that is not installed, and the packages around it if they are not installed.

        The stubs are in ``sys.modules`` from now on, as programs look there: ``"flash_attn" in sys.modules``. Only
        inside an installed package that nobody has imported yet, they wait for its import, which may take seconds.

        Args:
            name: of the module.
        """
        if self._is_stub(name):
            self._load_at_once(name)
            return ""
        self.calls.append(("skip", (name,)))
        if name in sys.modules and not is_stub(name):
            return f"{name} is imported already"
        missing = missing_ancestor(name)
        if missing is None:
            return f"{name} is installed, and a stub would hide it"
        reason = self._put(f"skip_import.{name}", [StubImport(missing)])
        if not reason:
            self._load_at_once(name)
        return reason

    def inject(self, source: str, name: str, target: str) -> str:
        """Add ``name`` of module ``source`` to module ``target`` when ``target`` is imported."""
        self.calls.append(("inject", (source, name, target)))
        for module in (source, target):
            missing = missing_ancestor(module)
            if missing is not None:
                return f"there is no module {missing}"
        return self._put(f"inject_import.{target}.{name}", [InjectImport(source, name, target)])

    def replace(self, name: str, replacement: Replacement) -> str:
        """Replace module ``name``; packages around it that do not exist become stubs.

        Raises:
            Exception: from the import of the other module, if names are exported in addition.
        """
        self.calls.append(("replace", (name, replacement)))
        base, exports = replacement.base, dict(replacement.exports)
        if base is not None and not find_module(base):
            return f"there is no module {base}"
        missing = missing_ancestor(name)
        if missing is not None and missing != name:
            reason = self.skip(name.rpartition(".")[0])
            if reason:
                return reason
        with_: Any = base
        if base is None or exports:
            exports = {**(_names_of(base) if base is not None else {}), **exports}
            with_ = {key: Literal(value) if isinstance(value, str) else value for key, value in exports.items()}
        reason = self._put(f"replace_import.{name}", [_ReplaceAlsoInStub(name, with_=with_)])
        if not reason and (base is None or base in sys.modules):  # otherwise the other module would be imported
            self._load_at_once(name)
        return reason

    def enforce(self) -> None:
        """Apply the changes again that were reverted."""
        withdrawn, self._withdrawn = self._withdrawn, []
        for run in withdrawn:
            self._run(run.units)
        if withdrawn:
            for name in self._at_once:
                _load(name)

    def revert(self) -> None:
        """Undo all changes, the last one first; :meth:`enforce` applies them again."""
        for run in reversed(self._runs):
            run.revert()
        self._withdrawn += self._runs
        self._runs = []

    def _load_at_once(self, name: str) -> None:
        self._at_once[name] = None
        _load(name)

    def _put(self, name: str, changes: Sequence[Change]) -> str:
        try:
            units = [Unit(Patch(name, changes), [name])]
        except DeclarationError as error:
            return describe_error(error)
        return self._run(units)

    def _run(self, units: list[Unit]) -> str:
        run = Run(units)
        ((_, outcome),) = run.apply()
        if outcome.status != APPLIED:
            run.revert()
            return outcome.reason or outcome.status
        self._runs.append(run)
        return ""

    def _is_stub(self, name: str) -> bool:
        changes = (change for run in self._runs for unit in run.units for change in unit.patch.changes)
        stubs = (stub for change in changes if not change.provides_content for stub in change.provides)
        return any(f"{name}.".startswith(f"{stub}.") for stub in stubs)


def _load(name: str) -> None:
    """Import a replaced module, unless that would import a real package around it."""
    *packages, _ = dotted_prefixes(name)
    if not any(find_module(package) and package not in sys.modules for package in packages):
        with contextlib.suppress(ImportError):  # another finder failed; the import in the program will report it
            importlib.import_module(name)


def _names_of(module: str) -> dict[str, Any]:
    """Return the names of a module without ``__name__`` and the like."""
    return {
        key: value
        for key, value in vars(importlib.import_module(module)).items()
        if key.isidentifier() and not (key.startswith("__") and key.endswith("__"))
    }
