"""Makes the changes of a modeling module: a replacement for each function whose formula is in ``families.json``.

An entry of that file has a formula, the kernel that computes the same, and which of the formula's parameters and
attributes is which argument of the kernel. Each kernel has a function ``takes_...`` that decides for each call.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, Optional

import patchcore as pc
from patchcore.plugin import module_file
from transformers_npu.families.formulas import Formula
from transformers_npu.families.reading import Item, may_have_roles, read_items

__all__ = ["Family", "families", "gated_mlp_changes", "rms_norm_changes", "rotary_changes", "sinks_changes"]

#: The packages whose modules are looked at: of transformers, and of ``trust_remote_code=True``.
PACKAGES = ("transformers.models.*", "transformers_modules.*")


class Family(NamedTuple):
    """A formula with its kernel.

    Args:
        role: ``RMSNorm, plain``.
        kernel: ``norms:rms_norm``, a function in a module of :mod:`transformers_npu.kernels`.
        arguments: by argument of the kernel, a name in the formula (``P0``, ``S1``) or a constant.
        examples: one of transformers 5 and one of 4 if they have one, ``llama:LlamaRMSNorm.forward``. Tests use them.
        formula: its text.
    """

    role: str
    kernel: str
    arguments: dict[str, str]
    examples: list[str]
    formula: str


@functools.lru_cache(maxsize=1)
def families() -> dict[str, Family]:
    """Return the families of ``families.json``, by formula."""
    rows = json.loads(Path(__file__).with_name("families.json").read_text(encoding="utf-8"))
    return {row["formula"]: Family(**row) for row in rows}


def rms_norm_changes(module: ModuleType) -> list[pc.Replace]:
    """Return the changes of the RMSNorms in a module.

    Args:
        module: imported.
    """
    return list(_changes(module, "norms"))


def rotary_changes(module: ModuleType) -> list[pc.Replace]:
    """Return the changes of the rotary embeddings in a module; argument as above."""
    return list(_changes(module, "rotary"))


def gated_mlp_changes(module: ModuleType) -> list[pc.Replace]:
    """Return the changes of the gated MLPs in a module; argument as above."""
    return list(_changes(module, "mlps"))


def sinks_changes(module: ModuleType) -> list[pc.Replace]:
    """Return the changes of the attentions with sinks in a module; argument as above."""
    return list(_changes(module, "sinks"))


def _changes(module: ModuleType, kernels: str) -> Iterator[pc.Replace]:
    path = module_file(module.__name__)
    if path is None or not str(path).endswith(".py"):
        return
    for item, family in _found(str(path), _stamp(str(path))):
        if family.kernel.partition(":")[0] == kernels:
            function = _live(module, item)
            if function is not None:
                replacement, takes = _made(item, family, _methods(module, item))
                yield pc.Replace(f"{module.__name__}:{item.name}", replacement, when_call=takes)


def _stamp(path: str) -> Optional[tuple[int, int]]:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


@functools.lru_cache(maxsize=64)  # three patches look at a module one after another; verify applies each many times
def _found(path: str, stamp: Optional[tuple[int, int]]) -> tuple[tuple[Item, Family], ...]:
    """Return the functions in a file whose formula is in the table."""
    try:
        source = Path(path).read_bytes()
        items = list(read_items(source)) if may_have_roles(source) else []
    except (OSError, SyntaxError, ValueError):
        return ()
    known = families()
    return tuple([(item, known[item.formula.text]) for item in items if item.formula and item.formula.text in known])


def _live(module: ModuleType, item: Item) -> Optional[FunctionType]:
    """Return the function that the module has under the item's name, if it is the one that was read."""
    found: Any = module
    for name in item.name.split("."):
        found = vars(found).get(name) if isinstance(found, (ModuleType, type)) else None
    if type(found) is not FunctionType or found.__code__.co_firstlineno != item.line:
        return None
    return found if found.__module__ == module.__name__ else None


def _methods(module: ModuleType, item: Item) -> dict[str, Any]:
    """Return the methods that the formula includes, by name, as objects of the class find them."""
    assert item.formula is not None
    klass = vars(module).get(item.name.partition(".")[0])
    return {name: getattr(klass, name) for name in sorted(item.formula.methods)}


def _made(item: Item, family: Family, methods: dict[str, Any]) -> tuple[Any, Any]:
    """Return the replacement of a function and the predicate for its calls, with the function's own parameters."""
    assert item.formula is not None
    module, _, name = family.kernel.partition(":")
    kernels = importlib.import_module(f"transformers_npu.kernels.{module}")
    given = ", ".join(f"{key}={_argument(value, item.formula, item.node)}" for key, value in family.arguments.items())
    parameters = _parameters(item.node)
    own = item.node.name
    condition = f"takes({given})"
    if methods:  # a subclass may have others
        condition = (
            f"all(getattr(type({item.node.args.args[0].arg}), n, None) is m for n, m in methods) and {condition}"
        )
    source = f"def {own}({parameters}):\n    return kernel({given})\n"
    source += f"def takes_{own}({parameters}):\n    return {condition}\n"
    space = {
        "__name__": __name__,
        "kernel": getattr(kernels, name),
        "takes": getattr(kernels, f"takes_{name}"),
        "methods": tuple(methods.items()),
    }
    exec(compile(source, f"<{family.kernel} for {item.name}>", "exec"), space)
    return space[own], space[f"takes_{own}"]


def _argument(value: str, formula: Formula, node: ast.FunctionDef) -> str:
    name = formula.names.get(value)
    if name is None:
        return value  # a constant
    return f"{node.args.args[0].arg}.{name}" if value[0] == "S" else name


def _parameters(node: ast.FunctionDef) -> str:
    """Return the parameters of a function as source, without annotations."""
    plain = ast.parse(ast.unparse(node.args).join(("def f(", "): pass"))).body[0]
    assert isinstance(plain, ast.FunctionDef)
    for each in ast.walk(plain.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    return ast.unparse(plain.args)
