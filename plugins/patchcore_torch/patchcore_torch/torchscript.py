"""TorchScript calls a patched function through Python, instead of compiling the source of its original.

``torch.jit.script`` reads source. It finds that of the original, through ``__wrapped__``, and would compile it with the
globals of the wrapper: the script would run without the patch, and nothing would say so. So it gets another function
to compile.

- For a function: another one with the types of the original that calls the patched function through Python. TorchScript
  gets it from ``__prepare_scriptable__``, whether the function is scripted or called by a scripted one
  (torch 2.13, ``torch/jit/_script.py`` and ``torch/jit/_recursive.py``).
- A method has no such hook. It is marked as ``torch.jit.ignore`` marks methods, which are called through Python.
"""

from __future__ import annotations

import linecache
import sys
import weakref
from types import FunctionType, MethodType
from typing import Any

from patchcore_torch import private_torch

__all__ = ["mark"]

_NEEDED = "torch._jit_internal"

#: Methods that were patched before torch was loaded: they are marked together with the first one after that. A script
#: reaches none of them before: modules and script classes are made with torch.
_early: weakref.WeakSet[Any] = weakref.WeakSet()


def mark(function: Any, original: Any, in_class: bool) -> None:
    """Declare to TorchScript how to call ``function``.

    Args:
        function: a wrapper, dispatcher or counter.
        original: the function that it replaces.
        in_class: whether it is a method.
    """
    modifiers = getattr(sys.modules.get(_NEEDED), "FunctionModifiers", None)
    while modifiers is not None and _early:
        method = _early.pop()
        if hasattr(method, "__wrapped__"):  # it is patched still
            _mark_method(method, method.__wrapped__, modifiers)
    if not in_class and not _is_left_out(original, modifiers):
        # Not functools.partial, which a patch may have replaced, and no closure, which would count as a user of the
        # function's module when that is imported again.
        function.__prepare_scriptable__ = MethodType(_scriptable, [function, original])
    elif modifiers is None:
        _early.add(function)
    else:
        _mark_method(function, original, modifiers)


def _is_left_out(original: Any, modifiers: Any) -> bool:
    """True if a decorator of torch has told TorchScript already to compile ``original`` nowhere."""
    # of functions only: another object may be a proxy, whose code this would run
    present = original.__dict__.get("_torchscript_modifier") if type(original) is FunctionType else None
    return modifiers is not None and present not in (None, modifiers.EXPORT, modifiers.DEFAULT)


def _mark_method(function: Any, original: Any, modifiers: Any) -> None:
    left_out = _is_left_out(original, modifiers)
    function._torchscript_modifier = original._torchscript_modifier if left_out else modifiers.IGNORE


def _scriptable(made: list[Any]) -> Any:
    """Return the function that TorchScript compiles in the place of another.

    Args:
        made: the function, its original, and the earlier result for it, if any.

    Raises:
        RuntimeError: the types of ``original`` cannot be told; with the patches that it is from.
    """
    function, original = made[:2]
    if made[2:] == []:
        made.append(_adapter(function, original))
    return made[2]


def _adapter(function: Any, original: Any) -> Any:
    import torch

    try:
        schema = torch.jit.script(original).schema
    except Exception as error:
        raise RuntimeError(
            f"TorchScript cannot call {_described(function)}: it calls what is patched through Python, with the types "
            f"of the original, and it cannot compile the original ({_first_line(error)}). "
            "Use torch.jit.trace, or script it without the patch"
        ) from error
    name = original.__name__
    arguments = schema.arguments
    types = ", ".join(argument.type.annotation_str for argument in arguments)
    returned = schema.returns[0].type.annotation_str
    passed = ", ".join(argument.name for argument in arguments)
    source = (
        f"def {name}({_header(arguments)}):\n    # type: ({types}) -> {returned}\n    return _pc_called({passed})\n"
    )
    by_name = ", ".join(f"{a.name}={a.name}" if a.kwarg_only else a.name for a in arguments)
    inner = f"def {name}({passed}):\n    # type: ({types}) -> {returned}\n    return _pc_called({by_name})\n"
    called = _defined(inner, name, function, function)
    called._torchscript_modifier = private_torch.FunctionModifiers.IGNORE
    made = _defined(source, name, called, function)
    defaults = tuple(a.default_value for a in arguments if a.has_default_value() and not a.kwarg_only)
    made.__defaults__ = defaults or None
    made.__kwdefaults__ = {a.name: a.default_value for a in arguments if a.has_default_value() and a.kwarg_only} or None
    return made


def _header(arguments: Any) -> str:
    parts: list[str] = []
    for argument in arguments:
        if argument.kwarg_only and "*" not in parts:
            parts.append("*")
        parts.append(f"{argument.name}=None" if argument.has_default_value() else argument.name)
    return ", ".join(parts)


def _defined(source: str, name: str, called: Any, function: Any) -> Any:
    filename = f"<patchcore script of {_name(function)} {id(called):x}>"
    namespace: dict[str, Any] = {"__name__": function.__module__, "_pc_called": called}
    exec(compile(source, filename, "exec"), namespace)  # text made from names and types only
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    return namespace[name]


def _name(function: Any) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def _described(function: Any) -> str:
    """The place of ``function`` and the patches that put it there."""
    from patchcore.plugin import patches_behind

    place, names = patches_behind(function)
    return f"{place}, which is patched by {' and '.join(names)}" if place else f"the patched {_name(function)}"


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
