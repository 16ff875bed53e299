"""Writes a lambda of the file as a function of its own: a declaration names its functions."""

from __future__ import annotations

import ast
import builtins
import copy
import symtable
from collections.abc import Iterator

from mx_driving_compat.reading.program.source import ImportedName, Scope, Source, Unknown

__all__ = ["function_of_lambda"]

_ADVICE = "write it as a function at the top of the file"


def function_of_lambda(node: ast.Lambda, name: str, scope: Scope, source: Source) -> str:
    """Return the text of a function for the end of the file that does the same as a lambda.

    The function imports the names that the lambda has from an import inside the function around it.

    Args:
        node: the lambda.
        name: of the function.
        scope: around the lambda.
        source: the file.

    Raises:
        Unknown: the lambda uses a name that only the function around it has.
    """
    made = copy.deepcopy(node)
    arguments = made.args
    arguments.defaults = [_default(value, scope) for value in arguments.defaults]
    arguments.kw_defaults = [value and _default(value, scope) for value in arguments.kw_defaults]
    imports = []
    table = symtable.symtable(ast.unparse(made), "lambda", "eval")
    bound = {symbol for inner in _tables(table) for symbol in _names(inner, free=False)}
    # since Python 3.12 a comprehension has no table of its own (PEP 709)
    bound |= {inner.id for inner in ast.walk(made) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)}
    for used in dict.fromkeys(symbol for inner in _tables(table) for symbol in _names(inner, free=True)):
        local = scope.names.get(used)
        if used in bound:
            raise Unknown(f"{used} has two meanings in the lambda", _ADVICE)
        if used == "cls" and scope.owner is not None and used not in scope.names:
            _rename(made, used, scope.owner)
        elif isinstance(local, ImportedName):
            imports.append(f"    {local.statement}\n")
        elif used in scope.names or used in ("super", "__class__") or _is_mangled(used):
            raise Unknown(f"the lambda uses {used}, which only the code around it has", _ADVICE)
        elif used not in source.defined and not hasattr(builtins, used):
            raise Unknown(f"the lambda uses {used}, which is not defined in the file", _ADVICE)
    return f"def {name}({ast.unparse(arguments)}):\n{''.join(imports)}    return {ast.unparse(made.body)}\n"


def _default(node: ast.expr, scope: Scope) -> ast.expr:
    """Return a default as it is where the lambda stands, as a literal if possible: a loop may change its name."""
    try:
        return ast.parse(repr(scope.literal(node)), mode="eval").body
    except Unknown:
        return node


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for inner in table.get_children():
        yield from _tables(inner)


def _names(table: symtable.SymbolTable, *, free: bool) -> Iterator[str]:
    """Yield the names that an expression has from outside, or binds itself."""
    for symbol in table.get_symbols():
        outside = symbol.is_global() or (table.get_type() == "module" and not symbol.is_assigned())
        if outside == free and not symbol.is_free():
            yield symbol.get_name()


def _rename(node: ast.AST, name: str, new: str) -> None:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id == name:
            inner.id = new


def _is_mangled(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")
