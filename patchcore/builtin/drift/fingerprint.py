"""Takes the fingerprint of an unpatched target: a digest of its source, so that a later change of it is noticed.

A fingerprint is read from the source of the library, which need not be imported for that. A target that the source does
not show (a function in C, an entry of a registry, a function made in a loop) is read as an object if its module is
imported.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Callable, Optional

from patchcore.builtin.drift.definitions import Definition, ForeignDefinition, Sources
from patchcore.builtin.drift.recorded import ABSENT_SOURCE, Fingerprint
from patchcore.builtin.drift.syntax import Shown, digest, normalised, signature_text
from patchcore.declare.changes import Change, Replace
from patchcore.declare.slots import Slot
from patchcore.declare.target import Target
from patchcore.errors import CONTAINED, TargetNotFound, Unseen
from patchcore.objects.binding import wrapped_callable
from patchcore.objects.generated import signature_of
from patchcore.objects.modules import ABSENT, executed_module, is_class

__all__ = ["COMPILED", "Originals", "source_fingerprint"]

#: The source of a function or class that has none.
COMPILED = "compiled"

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Originals:
    """Takes the fingerprints of targets.

    Args:
        original_of: returns the unpatched value of a slot; by default its present value.
        import_missing: import the modules of targets that the source does not show.
        from_sources: read sources only, so that the result does not depend on the modules that are imported.
        trees: see :class:`Sources`; with it, sources only are read.
    """

    def __init__(
        self,
        original_of: Optional[Callable[[Slot], Any]] = None,
        *,
        import_missing: bool = False,
        from_sources: bool = False,
        trees: Optional[Mapping[str, Path]] = None,
    ) -> None:
        self.sources = Sources(trees)
        self._original_of = original_of or Slot.lookup
        self._import_missing = import_missing
        self._from_sources = from_sources or bool(trees)
        self._nodes: dict[str, tuple[ast.AST, ...]] = {}
        self._texts: dict[str, str] = {}

    def fingerprint(self, change: Change, target: Target) -> Fingerprint:
        """Return the fingerprint of the target of ``change``.

        Args:
            change: the change of the target; it finds the slot.
            target: its target, with its module.

        Raises:
            TargetNotFound: there is no such thing in the library.
            Unseen: the source does not show it, and the module is not imported.
            Exception: the import of the module failed with it, with ``import_missing``.
        """
        try:
            return self._of_definition(self.sources.find(target))
        except ForeignDefinition as error:
            return Fingerprint(f"of {error.args[0]}")
        except Unseen:
            module = self._imported(target)
            if module is None and not self._import_missing:
                raise
            with CONTAINED:
                module = module or importlib.import_module(target.module)
        except TargetNotFound:  # its source does not show it: it is made at run time
            module = self._imported(target)
            if module is None:
                if change.may_be_absent and self._has_owner(target):
                    return Fingerprint(ABSENT_SOURCE)
                raise
        return self._of_object(self._original_of(change.find_slot(target, module)))

    def source(self, digest: str) -> str:
        """Return the normalised source of a target whose fingerprint was taken, ``""`` where it has none.

        Args:
            digest: of its source, as the fingerprint has it.
        """
        if digest not in self._texts:
            try:
                self._texts[digest] = normalised(self._nodes.get(digest, ()))
            except RecursionError:
                return ""
        return self._texts[digest]

    def _imported(self, target: Target) -> Optional[ModuleType]:
        return None if self._from_sources else executed_module(target.module)

    def _has_owner(self, target: Target) -> bool:
        """Return whether only the last step of a target that the source lacks is not there."""
        try:
            self.sources.find(Target(target.module, target.path[:-1]))
        except TargetNotFound:
            return False
        except (Unseen, ForeignDefinition):
            pass
        return True

    def _of_definition(self, definition: Definition) -> Fingerprint:
        node = definition.node
        source = digest(definition.nodes)
        if not isinstance(node, ast.Module):
            self._nodes[source] = definition.nodes
        if isinstance(node, _FUNCTIONS):
            return Fingerprint(source, signature_text(node.args))
        if isinstance(node, (ast.ClassDef, ast.Module)):
            bound = self.sources.members(definition)
            members = {name: digest(nodes) for name, nodes in sorted(bound.items())}
            return Fingerprint(source, self._signature_of_class(definition), members)
        return Fingerprint(source)

    def _signature_of_class(self, definition: Definition) -> str:
        if not isinstance(definition.node, ast.ClassDef):
            return ""
        for name in ("__init__", "__new__"):
            try:
                made = self.sources.inside(definition, name)
            except (Unseen, TargetNotFound):
                return ""
            if isinstance(made.node, _FUNCTIONS):
                return signature_text(made.node.args, bound=True)
        return ""

    def _of_object(self, raw: Any) -> Fingerprint:
        """Return the fingerprint of ``raw``, the value of a slot."""
        if raw is ABSENT:
            return Fingerprint(ABSENT_SOURCE)
        value = wrapped_callable(raw)
        target = _where(value)
        if target is not None:
            try:
                definition = self.sources.find(target)
            except (Unseen, ForeignDefinition, TargetNotFound):
                pass
            else:
                if _is_of(definition, value):
                    return self._of_definition(definition)
        if callable(value):
            return Fingerprint(COMPILED if _code(value) is None else "made at run time", _signature_of(value))
        return Fingerprint(f"a {type(value).__name__}")


def source_fingerprint(target: Target) -> Optional[tuple[str, str]]:
    """Return a digest of the source of a target, and its signature, to compare two releases of a library.

    Reads sources only: imports nothing, and does not depend on the modules that are imported. A change of comments,
    docstrings or layout leaves the digest as it is.

    Args:
        target: with its module.

    Returns:
        Digest and signature; the signature is empty if the target is no function or class. ``None`` if no source shows
        the target: it is made at run time, or by C code.

    Raises:
        TargetNotFound: there is no such module, or its source has no such name; the message has the nearest one.

    Examples:
        >>> from patchcore import Target
        >>> from patchcore.plugin import source_fingerprint
        >>> source_fingerprint(Target.parse("statistics:mean"))[1]
        '(data)'
    """
    try:
        found = Originals(from_sources=True).fingerprint(Replace(target, replacement=None), target)
    except Unseen:
        return None
    return found.source, found.signature


def _where(value: Any) -> Optional[Target]:
    """Return the target that an object's ``__module__`` and ``__qualname__`` name, ``None`` without them."""
    if isinstance(value, ModuleType):
        return Target(value.__name__, ())
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name or not name:
        return None
    return Target(module, tuple(name.split(".")))


def _is_of(definition: Definition, value: Any) -> bool:
    """Return whether ``value`` was made by ``definition``, and not by another one of the same name."""
    code = _code(value)
    if code is None:
        return is_class(value) or isinstance(value, ModuleType)
    node = definition.node
    if not isinstance(node, _FUNCTIONS):
        return False
    return code.co_firstlineno == min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _code(value: Any) -> Optional[CodeType]:
    code = getattr(value, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _signature_of(value: Any) -> str:
    try:
        found = signature_of(value)
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace(annotation=p.empty, default=_default(p.default)) for p in found.parameters.values()]
    return str(found.replace(parameters=parameters, return_annotation=found.empty))


def _default(value: Any) -> Any:
    if value is inspect.Parameter.empty:
        return value
    plain = isinstance(value, (str, bytes, int, float, complex, type(None)))
    return Shown(ascii(value) if plain else "...")
