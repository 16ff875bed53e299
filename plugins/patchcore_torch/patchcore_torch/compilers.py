"""What compilers of torch know of a function, and have to find out again when its body changes.

- dynamo keeps the parameters of a function by the function (torch 2.13, ``torch/_dynamo/variables/functions.py``,
  ``_spec_cache``), and has no guard on the code of methods: what it compiled goes on without a later patch.
- dynamo looks up functions of torch by name, once, to know which of them it puts in a graph (torch 2.13,
  ``torch/_dynamo/trace_rules.py``): then it knows the wrapper of a function in C, and not the function.
- TorchScript compiles functions of torch that it has a builtin for, ``torch.norm`` say, as that builtin, by a table of
  ``id(function)`` (``torch/jit/_builtins.py``), and would not look at the patched function.
- Compiled graphs are kept on disk: see :mod:`patchcore_torch.caches`.
"""

from __future__ import annotations

import weakref
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Callable, Optional

from patchcore.objects.modules import executed_module
from patchcore_torch import caches, overrides, private_torch

__all__ = ["mark"]

#: Packages whose functions dynamo may put in a graph by their names.
_IN_GRAPHS = ("torch", "einops")


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
    if overrides.takes_part(original) or getattr(original, "__module__", "").partition(".")[0] in _IN_GRAPHS:
        caches.hold(function)
    # neither a closure nor a reference, which would count as a user of the module when that is imported again
    in_c = original if type(original) is BuiltinFunctionType else None
    return MethodType(_undo, (weakref.ref(function), in_c, in_class, _take_builtin(function)))


def _undo(made: tuple[weakref.ref[Any], Any, bool, Optional[tuple[dict[int, str], str]]]) -> None:
    ref, in_c, in_class, builtin = made
    function = ref()
    _forget(function, in_class)
    if in_c is not None and _is_loaded("_dynamo") and private_torch.dynamo_rules.cache_info().currsize:
        rules = private_torch.dynamo_rules()
        if function in rules:
            rules[in_c] = rules.pop(function)
    caches.release(function)
    if builtin is not None and function is not None:
        builtin[0][id(function)] = builtin[1]


def _forget(function: Any, in_class: bool) -> None:
    if not _is_loaded("_dynamo"):
        return
    if type(function) is FunctionType:
        private_torch.dynamo_parameters.pop(function, None)
    if in_class and private_torch.dynamo_output_codes.seen:
        private_torch.dynamo.reset()


def _take_builtin(function: Any) -> Optional[tuple[dict[int, str], str]]:
    """Take ``function`` out of TorchScript's table of builtins; return the table, and what it had."""
    if not _is_loaded("jit") or not getattr(function, "__module__", "").startswith("torch."):
        return None
    table = private_torch.builtin_table()  # made now: it would be made of patched functions later
    found = table.pop(id(function), None)
    return None if found is None else (table, found)


def _is_loaded(name: str) -> bool:
    """Tell whether a module of torch has been imported, to the end."""
    return executed_module(f"torch.{name}") is not None
