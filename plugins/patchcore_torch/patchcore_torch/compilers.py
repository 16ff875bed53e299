"""Removes the attributes that the compilers of torch store on a function, because they are wrong while it is patched.

- dynamo stores the parameters of each function (torch 2.13, ``torch/_dynamo/variables/functions.py``,
  ``_spec_cache``), and has no guard on the code of methods: compiled calls would ignore a later patch.
- dynamo has a table of the functions of torch that it may put in a graph, which it fills once, by name (torch 2.13,
  ``torch/_dynamo/trace_rules.py``). If a function written in C is patched at that time, the table has the wrapper, and
  after revert the function is missing.
- TorchScript has a table of builtins by ``id(function)`` (``torch/jit/_builtins.py``). It compiles a call of a function
  in this table as the builtin, without the patch.
- TorchScript compiles six functions of torch, for example ``F.interpolate``, from the source of their overloads, which
  it finds by name (``torch/_jit_internal.py``, ``_overloaded_fns``), also without the patch.
- torch stores compiled graphs on disk: see :mod:`patchcore_torch.caches`.
"""

from __future__ import annotations

import weakref
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Callable

from patchcore.plugin import executed_module, qualified_name
from patchcore_torch import caches, later, overrides, private_torch

__all__ = ["mark"]

#: Packages whose functions dynamo may put in a graph by their names.
_IN_GRAPHS = ("torch", "einops")
#: The functions of torch that are patched now, and the entries that were removed for them: table, key and entry.
_marked: weakref.WeakSet[Any] = weakref.WeakSet()
_taken: weakref.WeakKeyDictionary[Any, list[tuple[dict[Any, Any], Any, Any]]] = weakref.WeakKeyDictionary()


def mark(function: Any, original: Any, in_class: bool) -> Callable[[], None]:
    """Remove the attributes that compilers have stored on ``function``; see the hook ``register_marks``.

    Args:
        function: a wrapper, or a function whose body is written.
        original: the function that it replaces.
        in_class: whether it is a method.

    Returns:
        A function that does this again after the patch, and restores the entries of the tables.
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
        getattr(private_torch, "dynamo_parameters", {}).pop(function, None)  # some releases of torch lack it
    if in_class and getattr(getattr(private_torch, "dynamo_output_codes", None), "seen", True):
        private_torch.dynamo.reset()


def _take_builtin(ref: weakref.ref[Any]) -> None:
    """Remove a function from TorchScript's tables of builtins and overloads."""
    function = ref()
    if function is not None and function in _marked and _is_loaded("jit"):
        name = f"__torch__.{function.__module__}.{function.__qualname__}"
        builtins: Any = getattr(private_torch, "builtin_table", dict)()  # some releases of torch lack one of the two
        for table, key in ((builtins, id(function)), (getattr(private_torch, "overloads", {}), name)):
            if key in table:
                _taken.setdefault(function, []).append((table, key, table.pop(key)))


def _is_loaded(name: str) -> bool:
    """Return whether a module of torch has been imported, to the end."""
    return executed_module(f"torch.{name}") is not None
