"""What compilers of torch know of a function, and have to find out again when its body changes.

- dynamo keeps the parameters of a function by the function (torch 2.13, ``torch/_dynamo/variables/functions.py``,
  ``_spec_cache``), and has no guard on the code of methods: what it compiled goes on without a later patch.
- dynamo looks up functions of torch by name, once, to know which of them it puts in a graph (torch 2.13,
  ``torch/_dynamo/trace_rules.py``): then it knows the wrapper of a function in C, and not the function.
- TorchScript compiles functions of torch that it has a builtin for, ``torch.norm`` say, as that builtin, by a table of
  ``id(function)`` (``torch/jit/_builtins.py``), and would not look at the patched function.
  Six of torch, ``F.interpolate`` among them, it compiles from their source once for each overload that it has for
  their name (``torch/_jit_internal.py``, ``_overloaded_fns``).
- Compiled graphs are kept on disk: see :mod:`patchcore_torch.caches`.
"""

from __future__ import annotations

import weakref
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Callable

from patchcore.objects.modules import executed_module, qualified_name
from patchcore_torch import caches, later, overrides, private_torch

__all__ = ["mark"]

#: Packages whose functions dynamo may put in a graph by their names.
_IN_GRAPHS = ("torch", "einops")
#: Functions of torch that are patched, and what tables of TorchScript had for them: table, key and entry.
_marked: weakref.WeakSet[Any] = weakref.WeakSet()
_taken: weakref.WeakKeyDictionary[Any, list[tuple[dict[Any, Any], Any, Any]]] = weakref.WeakKeyDictionary()


def mark(function: Any, original: Any, in_class: bool) -> Callable[[], None]:
    """Have compilers forget what they know of ``function``; see the hook ``register_marks``.

    Args:
        function: a wrapper, or a function whose body is written.
        original: what it stands for.
        in_class: whether it is a method.

    Returns:
        What has them forget it again, and remember the builtin.
    """
    _forget(function, in_class)
    if overrides.takes_part(original) or qualified_name(original)[0].partition(".")[0] in _IN_GRAPHS:
        caches.hold(function)
    # neither a closure nor a reference, which would count as a user of the module when that is imported again
    ref = weakref.ref(function)
    if qualified_name(function)[0].startswith("torch."):
        _marked.add(function)
        later.do(MethodType(_take_builtin, ref))
    in_c = original if type(original) is BuiltinFunctionType else None
    return MethodType(_undo, (ref, in_c, in_class))


def _undo(made: tuple[weakref.ref[Any], Any, bool]) -> None:
    ref, in_c, in_class = made
    function = ref()
    _forget(function, in_class)
    found = getattr(private_torch, "dynamo_rules", None) if in_c is not None and _is_loaded("_dynamo") else None
    if found is not None and found.cache_info().currsize:
        rules = found()
        if function in rules:
            rules[in_c] = rules.pop(function)
    caches.release(function)
    _marked.discard(function)
    for table, key, entry in _taken.pop(function, ()) if function is not None else ():
        table[key] = entry


def _forget(function: Any, in_class: bool) -> None:
    if not _is_loaded("_dynamo"):
        return
    if type(function) is FunctionType:
        getattr(private_torch, "dynamo_parameters", {}).pop(function, None)  # no release has to have it
    if in_class and getattr(getattr(private_torch, "dynamo_output_codes", None), "seen", True):
        private_torch.dynamo.reset()


def _take_builtin(ref: weakref.ref[Any]) -> None:
    """Take a function out of TorchScript's tables of builtins and overloads."""
    function = ref()
    if function is not None and function in _marked and _is_loaded("jit"):
        name = f"__torch__.{function.__module__}.{function.__qualname__}"
        builtins: Any = getattr(private_torch, "builtin_table", dict)()  # a release of torch may have neither
        for table, key in ((builtins, id(function)), (getattr(private_torch, "overloads", {}), name)):
            if key in table:
                _taken.setdefault(function, []).append((table, key, table.pop(key)))


def _is_loaded(name: str) -> bool:
    """Tell whether a module of torch has been imported, to the end."""
    return executed_module(f"torch.{name}") is not None
