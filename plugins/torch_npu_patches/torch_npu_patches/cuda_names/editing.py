"""Finds the expressions that compare something with the text of a CUDA device, and edits them.

Edited are ``==`` and ``!=`` with ``"cuda"``, ``"cuda:0"``, the type of a tensor (``"torch.cuda.FloatTensor"``) or an
f-string that begins so; ``in`` and ``not in``; ``startswith``; patterns of ``match``; tables whose keys are names of
devices; ``x.type`` or ``str(x)`` with a name that the module gives such a text to, ``KIND = "cuda"``; and
``x.device.type`` or ``str(x.device)`` with anything that is no constant, ``self.device.type`` for example. A function
that names NPUs itself has a branch of its own for them, and is left alone.
"""

from __future__ import annotations

import ast
import bisect
import copy
import functools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

import patchcore as pc
from torch_npu_patches.cuda_names.lines import Line, note
from torch_npu_patches.cuda_names.listing import Row, verdicts
from torch_npu_patches.cuda_names.running import npu_text
from torch_npu_patches.transfer_to_npu.devices import CUDA, NPU, npu_name, npu_tensor_type

__all__ = ["DEVICES", "OWN_BRANCH", "edit", "edit_script", "find", "names", "names_npu", "units"]

#: The text of a device in a source. The source around it decides whether a line may be edited: only functions with such
#: a line are parsed.
_TEXT = re.compile(r"""cuda(?::\d*|:\{[^"'\n]*|\.\w*)?["']""")
_TORCH = "torch."  # of the type of a tensor
_BEFORE = re.compile(r"""([=!]=\s*|\bstartswith\(\s*\(?[^()]*|\bin\s*[(\[{][^()\[\]{}]*|\bcase\b[^\n]*)f?$""")
_AFTER = re.compile(r"\s*([=!]=|(not\s+)?in\b|:)")
_REACH = 200  # characters

_WORD = re.compile(r"\w+")
_PREFIXES = (f"{CUDA}:", f"{_TORCH}{CUDA}", f"{_TORCH}{CUDA}.")
_COMPARISON = re.compile("[=!]=")
#: ``x.type`` and ``str(x.device)``, not compared with a constant. Each begins with a text that re finds fast.
_TYPE = re.compile(r"""\.type\b(?!\s*[=!]=\s*f?["'])""")
_STR = re.compile(r"""str\([\w.]*device\w*\)(?!\s*[=!]=\s*f?["'])""")
_OWNER = 60  # characters before ``.type``, in which the name of its owner begins
#: The name that is given a text. A search for it in the whole module would take a tenth of a second.
_NAME = re.compile(r"(\w+)\s*(?::[^=\n,()]*)?$")

#: The types of devices of torch 2.13 (c10/core/DeviceType.cpp), with the names of other back ends.
DEVICES = frozenset(
    (
        "cpu",
        "cuda",
        "fpga",
        "gaudi",
        "hip",
        "hpu",
        "ipu",
        "lazy",
        "maia",
        "meta",
        "mkldnn",
        "mlu",
        "mps",
        "mtia",
        "musa",
    )
    + ("opencl", "opengl", "tpu", "ve", "vulkan", "xla", "xpu")
)

#: The reasons for which functions, and statements outside of them, are left alone. A list may decide otherwise.
OWN_BRANCH = ("its function names npu itself", "its statement names npu itself")

_ast: Any = ast  # patterns are in it since Python 3.10
_RUNNING = "torch_npu_patches.cuda_names.running"

#: Found in texts and names that mean NPUs.
_NPU_WORD = re.compile(r"(?<![a-z])(npu|ascend)(?![a-z])", re.IGNORECASE)


def find(text: str) -> list[int]:
    """Return the numbers of the lines of a source that :func:`edit` may change. For :class:`patchcore.Rules`."""
    compared = (
        start
        for start, end in _texts(text)
        if _AFTER.match(text, end) or _BEFORE.search(text[max(0, start - _REACH) : start])
    )
    found = list(_line_numbers(text, compared))
    given = _named(text)
    if given:
        found += _lines_with(given, text)
    found += _lines_of_devices(text)
    return sorted(set(found))


def _line_numbers(text: str, places: Iterable[int]) -> Iterator[int]:
    """Yield the number of the line of each of ``places``, which are in order."""
    number, last = 1, 0
    for place in places:
        number += text.count("\n", last, place)
        last = place
        yield number


@functools.lru_cache(maxsize=8)  # of a module it is called twice
def _texts(text: str) -> Sequence[tuple[int, int]]:
    """Return where the texts of devices are in a source, with their quotes."""
    found = ((_start_of(text, match.start()) - 1, match.end()) for match in _TEXT.finditer(text))
    return [(start, end) for start, end in found if start >= 0 and text[start] in "\"'"]


def _start_of(text: str, place: int) -> int:
    """Return where the text with ``cuda`` at ``place`` begins: before ``torch.``, if that is there."""
    before = place - len(_TORCH)
    return before if text.startswith(_TORCH, max(0, before)) else place


def _lines_with(given: frozenset[str], text: str) -> Iterator[int]:
    """Yield the numbers of the lines that, with the line before, may compare ``x.type`` or ``str(x)`` with a name."""
    lines = ["", *text.split("\n")]
    for number in _line_numbers(text, (match.start() for match in _COMPARISON.finditer(text))):
        for last in (number, number + 1):
            line = "".join(lines[last - 1 : last + 1])
            if (".type" in line or "str(" in line) and not given.isdisjoint(_WORD.findall(line)):
                yield last


def _lines_of_devices(text: str) -> Iterator[int]:
    """Yield the numbers of the lines that, with the lines beside them, may compare the devices of two objects."""
    places = [
        match.start()
        for match in _TYPE.finditer(text)
        if "device" in text[max(0, match.start() - _OWNER) : match.start()].lower()
    ]
    places += [match.start() for match in _STR.finditer(text)]
    lines = ["", *text.split("\n"), ""] if places else []
    for number in _line_numbers(text, sorted(places)):
        if _COMPARISON.search("\n".join(lines[number - 1 : number + 2])):
            yield number


@functools.lru_cache(maxsize=8)  # of a module it is called for each function that is edited
def _named(text: str) -> frozenset[str]:
    """Return the names that a source gives the text of a CUDA device to: variables, attributes, parameters."""
    found = set()
    for start, end in _texts(text):
        before, equals, between = text[max(0, start - _REACH) : start].rpartition("=")
        if not equals or between.strip() or before.endswith(("=", "!", "<", ">")) or "{" in text[start:end]:
            continue
        name = _NAME.search(before)
        if name is not None:
            found.add(name[1])
    return frozenset(found)


def edit(tree: ast.Module, source: pc.Source, listed: Optional[Mapping[tuple[int, str], Row]] = None) -> set[int]:
    """Edit a module in place; return the numbers of the edited lines. For :class:`patchcore.Rules`.

    Args:
        tree, source: of the module.
        listed: the rows of a list about its lines, by line and expression; ``None`` for the list of the plugin.

    Raises:
        SettingsError: the list of the plugin is malformed.
    """
    editor = _Editor(source, verdicts(source.name, source.file) if listed is None else listed)
    for unit in units(tree.body, source.lines):
        editor.edit(unit)
    return editor.lines


def edit_script(tree: ast.AST, function: str, module: str) -> bool:
    """Edit a function that ``torch.jit.script`` has read, in place; return whether anything was edited.

    TorchScript calls no function of :mod:`.running`. It has ``in`` for lists of texts, and methods of texts.

    Args:
        tree: of the function; another patch may have put ``npu`` there.
        function: the source of the function.
        module: the source of its module.
    """
    if names(ast.parse(textwrap.dedent(function)), _NPU_WORD):
        return False
    editor = _ScriptEditor(_named(module))
    editor.visit(tree)
    return editor.edited


def units(statements: Iterable[ast.stmt], lines: Sequence[int]) -> Iterator[ast.stmt]:
    """Yield the functions, and the statements outside of functions, that have one of ``lines``.

    Each is left alone if it names NPUs itself.

    Args:
        statements: of a module or class.
        lines: numbers, in order.
    """
    for statement in statements:
        if not has_line(statement, lines):
            continue
        if isinstance(statement, ast.ClassDef):
            yield from units(statement.body, lines)
        else:
            yield statement


def has_line(statement: ast.stmt, lines: Sequence[int]) -> bool:
    """Return true if one of ``lines``, numbers in order, is in a statement."""
    place = bisect.bisect_left(lines, statement.lineno)
    return place < len(lines) and lines[place] <= (statement.end_lineno or statement.lineno)


def names_npu(unit: ast.stmt, source: pc.Source) -> bool:
    """Return true if the code of a unit names NPUs. The search in its text, which is fast, rules out most units."""
    text = "\n".join(source.text_lines[unit.lineno - 1 : unit.end_lineno]).lower()
    return ("npu" in text or "ascend" in text) and names(unit, _NPU_WORD)


def names(node: ast.AST, word: re.Pattern[str]) -> bool:
    """Return true if code names something: in a text, a name, an attribute or an import, as the source has them."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant):
            text = inner.value if isinstance(inner.value, str) else ""
        elif isinstance(inner, ast.Attribute):
            text = inner.attr
        elif isinstance(inner, ast.Name):
            text = "" if inner.id.startswith("_@") else inner.id  # a name that an edit has put there
        elif isinstance(inner, ast.alias):
            text = inner.name
        else:
            continue
        if word.search(text):
            return True
    return False


def _cuda_text(node: ast.AST) -> bool:
    """Return true for ``"cuda"``, ``"cuda:0"``, f-strings that begin with ``cuda:``, and types of tensors on CUDA."""
    if isinstance(node, ast.JoinedStr):
        first = node.values[0] if node.values else None
        return isinstance(first, ast.Constant) and str(first.value) == f"{CUDA}:"
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return bool(npu_name(text) or npu_tensor_type(text))


def _cuda_prefix(node: ast.AST) -> bool:
    """Return true for the texts of :func:`_cuda_text`, and for those that they may begin with: ``"cuda:"``."""
    return _cuda_text(node) or (isinstance(node, ast.Constant) and node.value in _PREFIXES)


def _npu_text(node: ast.expr) -> ast.expr:
    """Return the text of the NPU of the same number, for a node that :func:`_cuda_prefix` accepts."""
    if isinstance(node, ast.JoinedStr):
        return ast.copy_location(ast.JoinedStr([ast.copy_location(ast.Constant("npu:"), node), *node.values[1:]]), node)
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, str)
    return ast.copy_location(ast.Constant(npu_text(node.value)), node)


def _collection(node: ast.AST, is_cuda: Callable[[ast.AST], bool] = _cuda_text) -> Optional[list[ast.expr]]:
    """Return the elements of a list, tuple or set display that has a CUDA device."""
    elements = node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else None
    return elements if elements is not None and any(map(is_cuda, elements)) else None


def _startswith(node: ast.Call) -> Optional[ast.Attribute]:
    """Return ``x.startswith`` of the call ``x.startswith(text)`` with one argument, ``None`` for other calls."""
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr == "startswith" and len(node.args) == 1:
        return function
    return None


def _is_device(node: ast.expr) -> bool:
    """Return true for ``x.type``, ``x.type()`` and ``str(x)``."""
    if isinstance(node, ast.Attribute):
        return node.attr == "type"
    return isinstance(node, ast.Call) and (
        (isinstance(node.func, ast.Name) and node.func.id == "str")
        or (isinstance(node.func, ast.Attribute) and node.func.attr == "type" and not node.args)
    )


def _last_name(node: ast.expr) -> str:
    """Return ``kind`` for ``kind`` and ``self.kind``; empty for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_named(left: ast.expr, right: ast.expr, given: frozenset[str]) -> bool:
    """Return true for ``x.type`` or ``str(x)``, compared with one of the names ``given``."""
    return (_is_device(left) and _last_name(right) in given) or (_is_device(right) and _last_name(left) in given)


def _is_of_device(node: ast.expr) -> bool:
    """Return true for ``x.device.type``, ``torch.device(x).type`` and ``str(x.device)``."""
    if not _is_device(node):
        return False
    owner = node.value if isinstance(node, ast.Attribute) else next(iter(getattr(node, "args", ())), node)
    return "device" in _last_name(owner.func if isinstance(owner, ast.Call) else owner).lower()


def _are_devices(left: ast.expr, right: ast.expr) -> bool:
    """Return true if one side is of a device, and the other may be: it is no constant."""
    return (_is_of_device(left) and not isinstance(right, ast.Constant)) or (
        _is_of_device(right) and not isinstance(left, ast.Constant)
    )


def _is_table(node: ast.Dict) -> bool:
    """Return true for a table whose keys are texts, all of them names of devices, CUDA among them."""
    texts = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return (
        len(texts) == len(node.keys)
        and any(npu_name(text) is not None for text in texts)
        and all(text.partition(":")[0] in DEVICES for text in texts)
    )


class _Editor(ast.NodeTransformer):
    """Edits the expressions of one module, and notes each line."""

    def __init__(self, source: pc.Source, listed: Mapping[tuple[int, str], Row]) -> None:
        self._source = source
        self._listed = listed
        self._leave = ""  # why the unit at hand is left alone
        self._names = _named(source.text)
        self.lines: set[int] = set()

    def edit(self, unit: ast.stmt) -> None:
        """Edit one unit of the module."""
        is_function = isinstance(unit, (ast.FunctionDef, ast.AsyncFunctionDef))
        self._leave = OWN_BRANCH[not is_function] if names_npu(unit, self._source) else ""
        self.generic_visit(unit)

    def visit(self, node: ast.AST) -> Any:
        """Edit a node; most statements of a long function have no line to edit, and are left out."""
        return node if isinstance(node, ast.stmt) and not has_line(node, self._source.lines) else super().visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Edit ``x == "cuda"``, ``x in ("cuda", ...)``, ``"cuda" in x`` and their negations."""
        if len(node.ops) > 1:
            if self._has_device([node.left, *node.comparators]):
                shown = self._source.segment(node)
                line = Line(self._source.file, node.lineno, shown, why="it is a chain of comparisons")
                note(self._source.notes, line)
            self.generic_visit(node)
            return node
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        if isinstance(operator, (ast.Eq, ast.NotEq)) and (_cuda_text(left) or _cuda_text(right)):
            value, text = (left, right) if _cuda_text(right) else (right, left)
            if isinstance(value, ast.Constant):
                return node
            shown = f"{self._source.segment(value)} {'in' if isinstance(operator, ast.Eq) else 'not in'} "
            shown += f"({self._source.segment(text)}, {_shown(_npu_text(text))})"
            name = "same" if isinstance(operator, ast.Eq) else "different"
            return self._call(node, name, [self.visit(value), text], shown)
        if isinstance(operator, (ast.Eq, ast.NotEq)) and (
            _is_named(left, right, self._names) or _are_devices(left, right)
        ):
            shown = f"{self._source.segment(node)}, cuda as {NPU}"
            name = "alike" if isinstance(operator, ast.Eq) else "unlike"
            return self._call(node, name, [self.visit(left), self.visit(right)], shown)
        if isinstance(operator, (ast.In, ast.NotIn)):
            if _cuda_prefix(left):
                shown = f"{self._source.segment(node)}, or {_shown(_npu_text(left))}"
                found = self._call(node, "within", [left, self.visit(right)], shown)
                if found is node or isinstance(operator, ast.In):
                    return found
                return ast.copy_location(ast.UnaryOp(ast.Not(), found), node)
            elements = _collection(right)
            if elements is not None:
                added = [_npu_text(element) for element in elements if _cuda_text(element)]
                shown = f"{self._source.segment(node)}, or {', '.join(map(_shown, added))}"
                place = self._place(node, shown)
                self.generic_visit(node)
                if place is None:
                    return node
                elements.extend(added)
                return ast.copy_location(ast.BoolOp(ast.Or(), [self._reached(node, place), node]), node)
        self.generic_visit(node)
        return node

    def _has_device(self, parts: Sequence[ast.expr]) -> bool:
        """Return true if a chain of comparisons with these parts has one that is edited elsewhere."""
        return any(_cuda_text(part) or _collection(part) is not None for part in parts) or any(
            _is_named(left, right, self._names) or _are_devices(left, right) for left, right in zip(parts, parts[1:])
        )

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Edit ``x.startswith("cuda")``, also with a tuple of texts."""
        self.generic_visit(node)
        function = _startswith(node)
        if function is None:
            return node
        given = node.args[0]
        if _cuda_prefix(given):
            shown = f"{self._source.segment(function)}(({self._source.segment(given)}, {_shown(_npu_text(given))}))"
            return self._call(node, "starts", [function.value, given], shown)
        elements = _collection(given, _cuda_prefix) if isinstance(given, ast.Tuple) else None
        if elements is not None:
            place = self._place(node, f"{self._source.segment(node)}, or npu")
            if place is not None:
                elements.extend([_npu_text(element) for element in elements if _cuda_prefix(element)])
                return ast.copy_location(ast.BoolOp(ast.Or(), [self._reached(node, place), node]), node)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """Edit ``{"cuda": x, "cpu": y}``."""
        self.generic_visit(node)
        if not _is_table(node):
            return node
        return self._call(node, "table", [node], f"the entry for {CUDA}, for {NPU} too", before="table by device")

    def visit_match_case(self, node: Any) -> ast.AST:
        """Edit ``case "cuda":``, also among alternatives."""
        patterns = [inner for inner in ast.walk(node.pattern) if isinstance(inner, _ast.MatchValue)]
        cuda = [inner for inner in patterns if _cuda_text(inner.value)]
        if cuda:
            first = cuda[0]
            place = self._place(first, f"{self._source.segment(first)} | {_shown(_npu_text(first.value))}")
            if place is not None:
                node.pattern = _WithNpu().visit(node.pattern)
                ran: ast.expr = ast.UnaryOp(ast.Not(), self._reached(first, place))
                ran = ast.copy_location(ran, first)
                guard = (
                    ran if node.guard is None else ast.copy_location(ast.BoolOp(ast.And(), [ran, node.guard]), first)
                )
                node.guard = guard
        self.generic_visit(node)
        return node

    def _call(self, node: ast.expr, name: str, arguments: list[ast.expr], after: str, before: str = "") -> ast.expr:
        """Return the call of a function of :mod:`.running` for ``node``; ``node`` itself if it is left alone."""
        place = self._place(node, after, before)
        if place is None:
            return node
        function = ast.copy_location(self._source.reference(f"{_RUNNING}:{name}"), node)
        constant = ast.copy_location(ast.Constant(place), node)
        return ast.copy_location(ast.Call(function, [constant, *arguments], []), node)

    def _reached(self, node: ast.AST, place: str) -> ast.expr:
        function = ast.copy_location(self._source.reference(f"{_RUNNING}:reached"), node)
        return ast.copy_location(ast.Call(function, [ast.copy_location(ast.Constant(place), node)], []), node)

    def _place(self, node: ast.AST, after: str, before: str = "") -> Optional[str]:
        """Note the line of ``node`` and return its place; ``None`` if it is left alone."""
        line: int = node.lineno  # type: ignore[attr-defined]
        before = before or self._source.segment(node)
        row = self._listed.get((line, before))
        edited, why = (not self._leave, self._leave) if row is None else (row.edited, row.why)
        if not edited:
            note(self._source.notes, Line(self._source.file, line, before, why=why))
            return None
        self.lines.add(line)
        after = f"{after}; {why}" if why else after
        return note(self._source.notes, Line(self._source.file, line, before, after))


def _shown(node: ast.expr) -> str:
    """Return the source of a new text, in the quotes that most programs have."""
    return ast.unparse(node).replace("'", '"')


class _WithNpu(ast.NodeTransformer):
    """Adds the NPU to patterns of ``match``."""

    def visit_MatchValue(self, node: Any) -> ast.AST:
        """Make ``"cuda" | "npu"`` of ``"cuda"``."""
        if not _cuda_text(node.value):
            return node
        twin = ast.copy_location(_ast.MatchValue(_npu_text(node.value)), node)
        return ast.copy_location(_ast.MatchOr([node, twin]), node)

    def visit_MatchOr(self, node: Any) -> ast.AST:
        """Make ``"cuda" | "cpu" | "npu"`` of ``"cuda" | "cpu"``."""
        patterns: list[ast.AST] = []
        for inner in map(self.visit, node.patterns):
            patterns += inner.patterns if isinstance(inner, _ast.MatchOr) else [inner]
        node.patterns = patterns
        return node


class _ScriptEditor(ast.NodeTransformer):
    """Edits the expressions of a function for TorchScript.

    Args:
        given: names that the module of the function gives the text of a CUDA device to.
    """

    def __init__(self, given: frozenset[str]) -> None:
        self._given = given
        self.edited = False

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Make ``x in ["cuda", "npu"]`` of ``x == "cuda"``, and add NPUs to both sides of ``in``."""
        self.generic_visit(node)
        if len(node.ops) > 1:
            return node
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        if isinstance(operator, (ast.Eq, ast.NotEq)):
            if _cuda_text(left) or _cuda_text(right):
                value, text = (left, right) if _cuda_text(right) else (right, left)
                self.edited = True
                contained: ast.cmpop = ast.In() if isinstance(operator, ast.Eq) else ast.NotIn()
                return ast.Compare(value, [contained], [ast.List([text, _npu_text(text)], ast.Load())])
            if _is_named(left, right, self._given) or _are_devices(left, right):
                self.edited = True
                return ast.Compare(_with_npu(left), [operator], [_with_npu(right)])
        if isinstance(operator, (ast.In, ast.NotIn)):
            if _cuda_prefix(left):
                self.edited = True
                twin = ast.Compare(_npu_text(left), [operator], [copy.deepcopy(right)])
                return ast.BoolOp(ast.Or() if isinstance(operator, ast.In) else ast.And(), [node, twin])
            elements = _collection(right)
            if elements is not None:
                self.edited = True
                elements.extend([_npu_text(element) for element in elements if _cuda_text(element)])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Make ``x.startswith("cuda") or x.startswith("npu")`` of ``x.startswith("cuda")``."""
        self.generic_visit(node)
        function = _startswith(node)
        if function is None or not _cuda_prefix(node.args[0]):
            return node
        self.edited = True
        return ast.BoolOp(ast.Or(), [node, ast.Call(copy.deepcopy(function), [_npu_text(node.args[0])], [])])

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """Make ``{"cuda": x, "npu": x}`` of ``{"cuda": x}``."""
        self.generic_visit(node)
        if _is_table(node):
            self.edited = True
            for key, value in list(zip(node.keys, node.values)):
                if key is not None and _cuda_text(key):
                    node.keys.append(_npu_text(key))
                    node.values.append(copy.deepcopy(value))
        return node


def _with_npu(device: ast.expr) -> ast.expr:
    """Return the text of a device with ``npu`` in place of ``cuda``."""
    return ast.Call(ast.Attribute(device, "replace", ast.Load()), [ast.Constant(CUDA), ast.Constant(NPU)], [])
