"""Reads the formula that a function computes, as one text, from its syntax tree.

Two functions with the same formula compute the same result, whatever they and their variables are called. The reader
follows assignments, ``if``, methods of the same class and functions of the same module. It gives up at everything
else: loops, writes in place, ``with``, exceptions. Then the function has no formula.

Parameters are ``P0``, ``P1``, ... and attributes of ``self`` are ``S0``, ``S1``, ... in the order in which the formula
mentions them. ``x.rsqrt()`` and ``torch.rsqrt(x)`` have one spelling, and so have keywords and positions of arguments
and both orders of ``+`` and ``*``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional, Union

__all__ = ["Formula", "Scope", "formula_of", "imported_names"]

#: The longest text that is followed, in characters.
LONGEST = 10000
#: How deep calls of own methods and functions are followed.
DEEPEST = 4

#: A value: its text, or the values of a tuple.
Value = Union[str, tuple["Value", ...]]

#: The names of arguments after the tensor, of functions that are also methods of tensors.
PARAMETERS = {
    "mean": ("dim", "keepdim"),
    "sum": ("dim", "keepdim"),
    "cat": ("dim",),
    "stack": ("dim",),
    "chunk": ("chunks", "dim"),
    "split": ("split_size_or_sections", "dim"),
    "unsqueeze": ("dim",),
    "flatten": ("start_dim", "end_dim"),
    "repeat_interleave": ("repeats", "dim"),
    "softmax": ("dim", "dtype"),
    "unbind": ("dim",),
}
#: The modules of torch whose functions are also methods of tensors, or are called like them.
TORCH = ("torch", "torch.nn.functional")
#: Methods that return the same values.
NEUTRAL = ("contiguous",)

_MARKS = re.compile(r"\b(?:self\.\w+|ARG\d+)\b")
_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
_COMPARE = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


class NoFormula(Exception):
    """The code is not a straight line of expressions."""


class Formula(NamedTuple):
    """The formula of a function.

    Args:
        text: with ``P0``, ``S0`` and so on.
        names: the name of the parameter or attribute that each of them stands for.
        methods: the names of the methods of the same class that it includes.
    """

    text: str
    names: Mapping[str, str]
    methods: frozenset[str]


class Scope(NamedTuple):
    """What the names in a function mean.

    Args:
        imports: by name, the module or object of another module: ``{"F": "torch.nn.functional"}``.
        functions: the functions of the module, by name.
        methods: those of the class, by name; empty for a function.
    """

    imports: Mapping[str, str]
    functions: Mapping[str, ast.FunctionDef]
    methods: Mapping[str, ast.FunctionDef]


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Return the names that the top level of a module imports from torch, math and the packages of transformers.

    Args:
        tree: of the module.

    Examples:
        >>> imported_names(ast.parse("import torch.nn.functional as F"))
        {'F': 'torch.nn.functional'}
    """
    found = {}
    guarded = [each for node in tree.body if isinstance(node, ast.If) for each in node.body]
    for node in [*tree.body, *guarded]:
        if isinstance(node, ast.Import):
            for each in node.names:
                found[each.asname or each.name.partition(".")[0]] = (
                    each.name if each.asname else each.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            # ``from ...activations import ACT2FN`` in a modeling module
            module = f"transformers.{node.module}" if node.level == 3 else node.module if not node.level else ""
            for each in node.names:
                found[each.asname or each.name] = f"{module}.{each.name}"
    known = ("torch", "math", "transformers")
    return {name: place for name, place in found.items() if place.partition(".")[0] in known}


def formula_of(function: ast.FunctionDef, scope: Scope) -> Optional[Formula]:
    """Return the formula of a function or method, ``None`` if it has none.

    Args:
        function: its definition. A method's first parameter is ``self``.
        scope: see :class:`Scope`.
    """
    walk = _Walk(scope)
    names = [each.arg for each in _parameters(function)]
    try:
        if function.args.vararg is not None:
            return None
        env: dict[str, Value] = {name: f"ARG{number}" for number, name in enumerate(names)}
        if scope.methods:
            env[names[0]] = "self"
        if function.args.kwarg is not None:
            env[function.args.kwarg.arg] = "KEYWORDS"
        value = walk.body(function.body, env)
        if value is None:
            return None
        text = _text(value)
    except (NoFormula, RecursionError):
        return None
    marks: dict[str, str] = {}
    bound: dict[str, str] = {}
    for mark in _MARKS.findall(text):
        if mark not in marks:
            kind, name = ("S", mark[5:]) if mark.startswith("self.") else ("P", names[int(mark[3:])])
            marks[mark] = f"{kind}{sum(each[0] == kind for each in bound)}"
            bound[marks[mark]] = name
    return Formula(_MARKS.sub(lambda found: marks[found[0]], text), bound, frozenset(walk.used))


def _parameters(function: ast.FunctionDef) -> Sequence[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _text(value: Value) -> str:
    if isinstance(value, str):
        return value
    return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"


def _masked(text: str) -> str:
    """Return a text without the names in it: the order of operands must not depend on names."""
    return _MARKS.sub("_", text)


class _Walk:
    """Follows the statements of a function.

    Attributes:
        used: the names of the methods of the class that were followed.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._depth = 0
        self.used: set[str] = set()

    def body(self, statements: Sequence[ast.stmt], env: dict[str, Value]) -> Optional[Value]:
        """Return the value that the statements return; ``None`` if they come to their end. Changes ``env``."""
        for number, statement in enumerate(statements):
            if isinstance(statement, ast.Return):
                return "None" if statement.value is None else self.value(statement.value, env)
            if isinstance(statement, ast.Assign):
                value = self.value(statement.value, env)
                for target in statement.targets:
                    self._bind(target, value, env)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._bind(statement.target, self.value(statement.value, env), env)
            elif isinstance(statement, ast.If):
                return self._branches(statement, statements[number + 1 :], env)
            elif isinstance(statement, ast.Pass) or _is_docstring(statement):
                continue
            else:
                raise NoFormula
        return None

    def _branches(self, statement: ast.If, rest: Sequence[ast.stmt], env: dict[str, Value]) -> Optional[Value]:
        test = _text(self.value(statement.test, env))
        yes = self.body([*statement.body, *rest], dict(env))
        no = self.body([*statement.orelse, *rest], env)
        if yes is None or no is None:
            if yes is no:
                return None
            raise NoFormula
        return yes if yes == no else self._limited(f"if({test}, {_text(yes)}, {_text(no)})")

    def _bind(self, target: ast.expr, value: Value, env: dict[str, Value]) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            if any(isinstance(each, ast.Starred) for each in target.elts):
                raise NoFormula
            if isinstance(value, tuple) and len(value) != len(target.elts):
                raise NoFormula
            for number, each in enumerate(target.elts):
                self._bind(each, value[number] if isinstance(value, tuple) else f"{value}[{number}]", env)
        else:
            raise NoFormula

    def value(self, node: ast.expr, env: Mapping[str, Value]) -> Value:
        """Return the value of an expression."""
        value = self._value(node, env)
        if isinstance(value, str):
            return self._limited(value)
        return value

    def _limited(self, text: str) -> str:
        if len(text) > LONGEST:
            raise NoFormula
        return text

    def text(self, node: ast.expr, env: Mapping[str, Value]) -> str:
        """Return the value of an expression as text."""
        return _text(self.value(node, env))

    def _value(self, node: ast.expr, env: Mapping[str, Value]) -> Value:
        if isinstance(node, ast.Name):
            return env.get(node.id, self._scope.imports.get(node.id, f"<{node.id}>"))
        if isinstance(node, ast.Constant):
            constant = node.value
            if constant is ...:
                return "..."
            return repr(int(constant) if isinstance(constant, float) and constant.is_integer() else constant)
        if isinstance(node, ast.Tuple):
            if any(isinstance(each, ast.Starred) for each in node.elts):
                return f"({', '.join(self._starred(each, env) for each in node.elts)})"
            return tuple(self.value(each, env) for each in node.elts)
        if isinstance(node, ast.List):
            return f"[{', '.join(self._starred(each, env) for each in node.elts)}]"
        if isinstance(node, ast.Attribute):
            return f"{self.text(node.value, env)}.{node.attr}"
        if isinstance(node, ast.UnaryOp):
            operand = self.text(node.operand, env)
            if isinstance(node.op, ast.USub):
                return f"-{operand}" if operand.isdigit() else f"(-{operand})"
            if isinstance(node.op, ast.Not):
                return f"(not {operand})"
            raise NoFormula
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return self._operation(type(node.op), self.text(node.left, env), self.text(node.right, env))
        if isinstance(node, ast.BoolOp):
            word = " and " if isinstance(node.op, ast.And) else " or "
            return f"({word.join(self.text(each, env) for each in node.values)})"
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
            left, right = self.text(node.left, env), self.text(node.comparators[0], env)
            return f"({left} {_COMPARE[type(node.ops[0])]} {right})"
        if isinstance(node, ast.IfExp):
            yes, no = self.text(node.body, env), self.text(node.orelse, env)
            return f"if({self.text(node.test, env)}, {yes}, {no})"
        if isinstance(node, ast.Subscript):
            value, key = self.value(node.value, env), self._key(node.slice, env)
            if isinstance(value, tuple) and key.isdigit() and int(key) < len(value):
                return value[int(key)]
            return f"{_text(value)}[{key}]"
        if isinstance(node, ast.ListComp) and len(node.generators) == 1:
            return self._comprehension(node, env)
        if isinstance(node, ast.Call):
            return self._call(node, env)
        raise NoFormula

    def _comprehension(self, node: ast.ListComp, env: Mapping[str, Value]) -> str:
        (generator,) = node.generators
        if generator.ifs or generator.is_async:
            raise NoFormula
        targets = generator.target.elts if isinstance(generator.target, ast.Tuple) else [generator.target]
        inner = dict(env)
        for number, target in enumerate(targets):
            self._bind(target, f"EACH{number}", inner)
        each = ", ".join(f"EACH{number}" for number in range(len(targets)))
        return f"[{self.text(node.elt, inner)} for {each} in {self.text(generator.iter, env)}]"

    def _starred(self, node: ast.expr, env: Mapping[str, Value]) -> str:
        return f"*{self.text(node.value, env)}" if isinstance(node, ast.Starred) else self.text(node, env)

    def _key(self, node: ast.AST, env: Mapping[str, Value]) -> str:
        if isinstance(node, ast.Tuple):
            return ", ".join(self._key(each, env) for each in node.elts)
        if isinstance(node, ast.Slice):
            parts = [node.lower, node.upper, node.step]
            texts = ["" if part is None else self.text(part, env) for part in parts]
            if texts[0] == "0":
                texts[0] = ""
            return ":".join(texts[: 3 if texts[2] not in ("", "1") else 2])
        if isinstance(node, ast.expr):
            return self._starred(node, env)
        raise NoFormula

    def _operation(self, kind: type[ast.operator], left: str, right: str) -> str:
        if (kind is ast.Pow and right == "2") or (kind is ast.Mult and left == right):
            return f"sq({left})"
        if kind in (ast.Add, ast.Mult) and _masked(left) > _masked(right):
            left, right = right, left
        return f"({left} {_BINARY[kind]} {right})"

    def _call(self, node: ast.Call, env: Mapping[str, Value]) -> Value:
        called, args = node.func, [self._starred(each, env) for each in node.args]
        keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise NoFormula
            keywords[keyword.arg] = self.text(keyword.value, env)
        if isinstance(called, ast.Name) and called.id not in env and called.id in self._scope.functions:
            return self._follow(self._scope.functions[called.id], node, env, None)
        if not isinstance(called, ast.Attribute):
            return self._plain(self.text(called, env), args, keywords)
        owner = self.text(called.value, env)
        if owner == "self" and called.attr in self._scope.methods:
            self.used.add(called.attr)
            return self._follow(self._scope.methods[called.attr], node, env, "self")
        if owner in TORCH or owner == "math":
            return self._tensor(called.attr, args, keywords, f"{owner}.{called.attr}")
        if owner == "self":  # a module that the object holds
            return self._plain(f"self.{called.attr}", args, keywords)
        return self._tensor(called.attr, [owner, *args], keywords, "")

    def _follow(
        self, function: ast.FunctionDef, node: ast.Call, env: Mapping[str, Value], owner: Optional[str]
    ) -> Value:
        """Return the value of a call of a function whose source is known."""
        if self._depth >= DEEPEST or function.args.vararg or function.args.kwarg or _decorators(function):
            raise NoFormula
        if any(isinstance(each, ast.Starred) for each in node.args):
            raise NoFormula
        names = [each.arg for each in _parameters(function)]
        inner: dict[str, Value] = {}
        positional = [self.value(each, env) for each in node.args]
        if owner is not None:
            positional.insert(0, owner)
        if len(positional) > len(names):
            raise NoFormula
        inner.update(zip(names, positional))
        for keyword in node.keywords:
            inner[str(keyword.arg)] = self.value(keyword.value, env)
        defaults = function.args.defaults
        for each, default in zip(names[len(names) - len(defaults) :] if defaults else [], defaults):
            inner.setdefault(each, self.value(default, {}))
        if set(inner) != set(names):
            raise NoFormula
        self._depth += 1
        found = self.body(function.body, inner)
        self._depth -= 1
        return "None" if found is None else found

    def _plain(self, name: str, args: Sequence[str], keywords: Mapping[str, str]) -> str:
        return f"{name}({', '.join([*args, *(f'{key}={keywords[key]}' for key in sorted(keywords))])})"

    def _tensor(self, name: str, args: Sequence[str], keywords: Mapping[str, str], full: str) -> str:
        """Return the text of an operation on tensors: the same for a function and a method."""
        if name.endswith("_") and not name.endswith("__"):
            raise NoFormula  # writes in place
        if not args:
            return self._plain(full or name, args, keywords)
        named = dict(keywords)
        first, rest = args[0], list(args[1:])
        if name in NEUTRAL and not rest and not named:
            return first
        if name in PARAMETERS and len(rest) <= len(PARAMETERS[name]) and not any(each[:1] == "*" for each in rest):
            named.update(zip(PARAMETERS[name], rest))
            rest = []
        if (name == "square" and not rest) or (name == "pow" and rest == ["2"]):
            return f"sq({first})"
        if name == "type_as" and len(rest) == 1:
            name, rest = "to", [f"{rest[0]}.dtype"]
        if name in ("to", "type") and (rest, list(named)) in (([], ["dtype"]), (rest[:1], [])) and (rest or named):
            target = rest[0] if rest else named["dtype"]
            name, rest, named = (
                ("float", [], {}) if target in ("torch.float32", "torch.float") else ("to", [target], {})
            )
        return self._plain(name, [first, *rest], named)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _decorators(function: ast.FunctionDef) -> bool:
    """Return true if a decorator may change the function; those of transformers for kernels from its hub do not."""
    names = (ast.unparse(each) for each in function.decorator_list)
    return any(not re.match(r"use_kernel_func_from_hub\(", name) for name in names)
