"""Compares the parameters of a replacement with those of its target in sources: nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from inspect import Parameter, Signature
from pathlib import Path
from typing import NamedTuple, Optional

from patchcore.builtin.drift.definitions import Definition, Sources
from patchcore.builtin.drift.replacements.named import definition_of, function_of
from patchcore.builtin.drift.syntax import Shown, default_text
from patchcore.builtin.shared.sources import parse_source
from patchcore.builtin.signatures.signatures import misfit_of, signature_without_annotations, takes_anything
from patchcore.declare.changes import Change, Replace, SlotChange, Wrap
from patchcore.declare.target import Target
from patchcore.errors import TargetNotFound, Unseen

__all__ = ["Misfit", "find_misfit"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Decorators after which a function is called as it is written.
_PLAIN = frozenset({"jit", "override", "no_grad", "inference_mode", "abstractmethod", "cache", "lru_cache"})
_FORMS = ("staticmethod", "classmethod", "property")


class Misfit(NamedTuple):
    """Whether a replacement accepts every call of its target.

    Args:
        reason: as in the error when the patch is applied; empty if it accepts every call.
        error: the first call that fails, as Python says it, with the replacement's name and parameters.
        caller: where an argument is passed that the replacement lacks, ``file:line``; empty if it is required.
        is_required: true if already a call with the required arguments fails.
        missing: the optional parameters that it lacks.
    """

    reason: str
    error: str
    caller: str
    is_required: bool
    missing: tuple[str, ...]


_FITS = Misfit("", "", "", False, ())


class _Form(NamedTuple):
    signature: Signature
    form: str
    name: str


def find_misfit(change: Change, target: Target, sources: Sources) -> Optional[Misfit]:
    """Return whether a replacement takes the calls of its target; ``None`` if no source shows that.

    Args:
        change: of a patch.
        target: of the change, with its module.
        sources: has the library.
    """
    if not isinstance(change, SlotChange) or change.adds or change.predicate is not None:
        return None
    before = 1 if isinstance(change, Wrap) else 0
    if not before and not (isinstance(change, Replace) and change.replaces):
        return None
    try:
        original = sources.find(target)
        wanted = _signature(original, sources)
        in_class = _is_in_class(target, sources) and isinstance(original.node, _FUNCTIONS)
        given = _replacement(change, sources)
    except Exception:  # the source does not show it, or it is of another library
        return None
    if wanted is None and given is not None and before and takes_anything(given.signature, bound=True):
        return _FITS  # its first argument is the original; it takes the call whatever the target's decorators change
    if wanted is None or given is None or (not before and wanted.form != given.form):
        return None
    bound = in_class and wanted.form != "staticmethod"
    why = misfit_of(wanted.signature, given.signature, bound=bound, before=before)
    if why is None:
        return _FITS
    reason = f"{given.name} does not accept every call of {target}: {why}"
    error = f"{given.name}{given.signature} does not accept every call: {why.rpartition(': ')[2]}"
    required, missing, most = _lacking(wanted.signature, given.signature, before)
    caller = "" if required else _find_caller(_called(target), missing, most - bound, sources.files(target.root))
    return Misfit(reason, error, caller, required, missing)


def _replacement(change: Change, sources: Sources) -> Optional[_Form]:
    function = function_of(change)
    if function is not None:
        signature = signature_without_annotations(function)
        return None if signature is None else _Form(signature, "", function.__qualname__)
    found = definition_of(change, sources)
    return None if found is None else _signature(found, sources)


def _signature(found: Definition, sources: Sources) -> Optional[_Form]:
    node = found.node
    if isinstance(node, ast.ClassDef):
        if node.decorator_list or node.keywords:
            return None
        try:
            made = sources.inside(found, "__init__")
        except (Unseen, TargetNotFound):
            return None
        if not isinstance(made.node, _FUNCTIONS):
            return None
        first = _parameters(made.node.args)[1:]
        return _Form(Signature(first), "", found.name)
    if not isinstance(node, _FUNCTIONS):
        return None
    form = ""
    for decorator in node.decorator_list:
        at = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = _last_name(at)
        if name in _FORMS:
            form = name
        elif name not in _PLAIN:
            return None
    if form == "property":
        return None
    return _Form(Signature(_parameters(node.args)), form, found.name)


def _parameters(arguments: ast.arguments) -> list[Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    found = [
        Parameter(
            each.arg,
            Parameter.POSITIONAL_ONLY if i < len(arguments.posonlyargs) else Parameter.POSITIONAL_OR_KEYWORD,
            default=Parameter.empty if i < missing else Shown(default_text(arguments.defaults[i - missing])),
        )
        for i, each in enumerate(positional)
    ]
    if arguments.vararg is not None:
        found.append(Parameter(arguments.vararg.arg, Parameter.VAR_POSITIONAL))
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        shown = Parameter.empty if default is None else Shown(default_text(default))
        found.append(Parameter(each.arg, Parameter.KEYWORD_ONLY, default=shown))
    if arguments.kwarg is not None:
        found.append(Parameter(arguments.kwarg.arg, Parameter.VAR_KEYWORD))
    return found


def _is_in_class(target: Target, sources: Sources) -> bool:
    if len(target.path) < 2:
        return False
    return isinstance(sources.locate(Target(target.module, target.path[:-1])).node, ast.ClassDef)


def _lacking(wanted: Signature, given: Signature, before: int) -> tuple[bool, tuple[str, ...], int]:
    """Return whether required arguments do not fit, the optional parameters lacking, and the positional ones taken."""
    parameters = list(wanted.parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]

    def takes(count: int, *more: str) -> bool:
        try:
            given.bind(*[None] * (count + before), **dict.fromkeys([*names, *more]))
        except TypeError:
            return False
        return True

    if not takes(required):
        return True, (), 0
    optional = [p for p in parameters if p.default is not p.empty]
    missing = tuple(p.name for p in optional if p.kind is not p.POSITIONAL_ONLY and not takes(required, p.name))
    most = max(count for count in range(required, len(positional) + 1) if takes(count))
    return False, missing, most


def _called(target: Target) -> str:
    """Return the name under which a target is called: that of the class for its ``__init__``."""
    names = [step for step in target.path if isinstance(step, str)]
    return names[-2] if names[-1:] == ["__init__"] and len(names) > 1 else names[-1] if names else ""


def _find_caller(name: str, missing: Iterable[str], most: int, files: Iterable[Path]) -> str:
    """Return the first call in the library that passes a missing argument, ``""`` for none.

    Args:
        name: of the function.
        missing: parameters that the replacement does not take by name.
        most: the number of arguments that it takes by position.
        files: of the library.
    """
    wanted = set(missing)
    for path in files:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
            if f"{name}(" not in text and f"{name}[" not in text:
                continue
            tree = parse_source(text)
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            if _last_name(called) != name:
                continue
            if wanted.intersection(each.arg or "" for each in node.keywords) or len(node.args) > most:
                return f"{path.name}:{node.lineno}"
    return ""


def _last_name(node: ast.expr) -> str:
    """Return the name, or the last one of a dotted name, ``""`` for another expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
