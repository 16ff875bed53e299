"""Operators of compiled modules: their counterparts on an NPU, and branches that run them only on CUDA.

``if x.is_cuda: kernel(x) else: portable(x)`` takes the portable branch on an NPU. A test that is rewritten to
``x.is_npu`` would take the kernel, so that it stays as it is where an NPU has no such kernel.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

import libcst as cst
from libcst import metadata as md

from npu_migrate.migrate.extensions import rule_of_operator
from npu_migrate.migrate.names import LOAD_EXT, Names
from npu_migrate.migrate.program import Program, parts_of, read
from npu_migrate.migrate.recording import Record
from npu_migrate.migrate.rules import RuleTable
from npu_migrate.migrate.syntax import dotted, literal, root

__all__ = ["NO_KERNELS", "Kernels", "ProjectKernels", "compiled_by", "kernel_users", "report_operators"]

_BRANCH = "kernel.branch"
#: How the modules are called that projects of the OpenMMLab family compile.
_COMPILED = re.compile(r"\w+_(cuda|ext|cuda_ext)")
_EXTENSION = re.compile(r"ext$|extension$", re.IGNORECASE)
#: The functions that compile for the CPU alone: of torch.utils.cpp_extension, of setuptools.
_OF_CPU = ("CppExtension", "Extension")
_JUMPS = (cst.Return, cst.Raise, cst.Continue, cst.Break)
#: How often a name may stand for another one before it is given up.
_ALIASES = 3

Branch = Union[cst.If, cst.IfExp]


class ProjectKernels(NamedTuple):
    """The facts about kernels that the files of a project share.

    Args:
        compiled: names of modules that the project compiles.
        modules: names of its Python modules.
        users: names of its functions, autograd ones too, that call an operator without a kernel on an NPU.
    """

    compiled: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()

    def may_be_in(self, source: str) -> bool:
        """Return whether a source may import a module that the project compiles."""
        return any(
            name in self.compiled or (name not in self.modules and _COMPILED.fullmatch(name))
            for line in re.findall(r"^[^#\n]*\bimport\b.*", source, re.MULTILINE)
            for name in re.findall(r"\w+", line)
        )


NO_KERNELS = ProjectKernels()


class Guard(NamedTuple):
    """A test for CUDA before an operator without a kernel on an NPU.

    Args:
        test: of the branch.
        operator: its name.
        kept: the expression that has to stay as it is, so that an NPU takes the other side; the test, or the value of
            the variable that it asks; ``None`` where the variable decides other things as well.
    """

    test: cst.BaseExpression
    operator: str
    kept: Optional[cst.BaseExpression]


class _Sides(NamedTuple):
    """The two sides of a test for CUDA: the code that runs on CUDA, and the code that runs elsewhere."""

    cuda: Sequence[cst.CSTNode]
    other: Sequence[cst.CSTNode]
    rest_is_cuda: bool  # ``if not x.is_cuda: return portable(x)``: CUDA follows


class Kernels:
    """The uses that a module makes of operators without a kernel on an NPU.

    Args:
        program: the module.
        names: its names.
        table: the rules.
        project: the facts of other modules.
    """

    def __init__(self, program: Program, names: Names, table: RuleTable, project: ProjectKernels) -> None:
        self.program = program
        self.names = names
        self.table = table
        self.project = project
        self.imports: dict[Any, str] = {}  # statements that import a compiled module, and its name
        self._modules: set[str] = set()  # the names of these here
        for node in program.imports:
            self._read_import(node)
        self.users: set[str] = set()
        words = set(re.findall(r"\w+", program.module.code))
        operators = {name.rpartition(".")[2] for name in table.names_of("kernel")} - {"*"}
        #: Whether any operator may be called here: most modules of a project call none.
        self.any = bool(self._modules or "_ext" in words or words & operators or words & project.users)
        if self.any:
            self._find_users()

    def guards(self) -> Iterator[Guard]:
        """Yield the tests for CUDA before an operator without a kernel on an NPU."""
        found: dict[cst.BaseExpression, str] = {}
        for branch in self.program.branches if self.any else ():
            sides = self._sides(branch)
            operator = self.used_in(sides.cuda) if sides is not None else None
            if operator is not None and sides is not None and self.used_in(sides.other) is None:
                found[branch.test] = operator
        for test, operator in found.items():
            assignment = self._decided_by(test)
            if assignment is None:
                yield Guard(test, operator, test)
                continue
            uses = (reference.node for reference in assignment.references)
            alone = all(use in found or any(parent in found for parent in self.program.ancestors(use)) for use in uses)
            yield Guard(test, operator, self.names.value_of(assignment) if alone else None)

    def _decided_by(self, test: cst.BaseExpression) -> Optional[md.Assignment]:
        """Return the assignment of the variable that a test for CUDA asks, ``None`` where it asks a device itself."""
        if isinstance(test, cst.UnaryOperation):
            return self._decided_by(test.expression)
        if isinstance(test, cst.BooleanOperation):
            parts = [part for part in (test.left, test.right) if self._tests_for_cuda(part, 0) is not None]
            decided = [self._decided_by(part) for part in parts]
            return None if None in decided else decided[0]
        local = self.names.local(test) if isinstance(test, cst.Name) else ()
        return local[0] if local else None

    def used_in(self, nodes: Iterable[cst.CSTNode]) -> Optional[str]:
        """Return the first operator without a kernel on an NPU that code calls; not those behind a test for CUDA."""
        stack = list(nodes)[::-1]
        while stack:
            node = stack.pop()
            inside: Iterable[cst.CSTNode] = parts_of(node)
            if isinstance(node, (cst.Name, cst.Attribute)):
                found = self._operator(node)
                if found is not None:
                    return found
                inside = [node.value] if isinstance(node, cst.Attribute) and root(node) is None else []
            elif isinstance(node, cst.Arg):
                inside = [node.value]
            elif isinstance(node, (cst.If, cst.IfExp)):
                sides = self._sides(node)
                if sides is not None:
                    inside = () if sides.rest_is_cuda else sides.other
            elif isinstance(node, (cst.IndentedBlock, cst.Module)):
                inside = self._without_cuda(node.body)
            stack += list(inside)[::-1]
        return None

    def _operator(self, node: Union[cst.Name, cst.Attribute]) -> Optional[str]:
        base = root(node)
        if base is None:
            return None
        if base.value in self._modules and all(self._is_nothing(other) for other in self.names.local(base)):
            return dotted(node)
        meaning = self.names.meaning(node)
        if meaning is None:
            return base.value if base.value in self.users else None
        found = self.table.find("kernel", meaning.name)
        if found is not None:
            return None if found[0].level == "auto" else meaning.name
        return next((part for part in meaning.name.split(".") if part in self.project.users), None)

    def _is_nothing(self, assignment: md.Assignment) -> bool:
        """Return whether an assignment assigns ``None``, as after an import that fails."""
        return dotted(self.names.value_of(assignment) or cst.Name("?")) == "None"

    def _without_cuda(self, body: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        for statement in body:
            yield statement
            if isinstance(statement, cst.If):
                sides = self._sides(statement)
                if sides is not None and sides.rest_is_cuda:
                    return

    def _sides(self, branch: Branch) -> Optional[_Sides]:
        """Return the sides of a branch that tests for CUDA, ``None`` where the other side only raises an error."""
        on_cuda = self._tests_for_cuda(branch.test, 0)
        if on_cuda is None:
            return None
        if isinstance(branch, cst.IfExp):
            sides = [branch.body], [branch.orelse]
            return _Sides(*(sides if on_cuda else sides[::-1]), rest_is_cuda=False)
        then: Sequence[cst.CSTNode] = [branch.body]
        follows = branch.orelse is None and _jumps(branch.body)
        otherwise: Sequence[cst.CSTNode] = self._behind(branch) if follows else [branch.orelse] if branch.orelse else ()
        made = _Sides(then, otherwise, False) if on_cuda else _Sides(otherwise, then, follows)
        return None if made.other and _raises(made.other) else made

    def _behind(self, branch: cst.If) -> Sequence[cst.CSTNode]:
        block: Any = self.program.parents[branch]
        body = list(getattr(block, "body", ()))
        return body[body.index(branch) + 1 :] if branch in body else ()

    def _tests_for_cuda(self, test: cst.BaseExpression, depth: int) -> Optional[bool]:
        """Return whether a test that is true means CUDA; ``None`` where it says nothing about CUDA."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            inside = self._tests_for_cuda(test.expression, depth)
            return None if inside is None else not inside
        if isinstance(test, cst.BooleanOperation):
            left = self._tests_for_cuda(test.left, depth)
            return left if left is not None else self._tests_for_cuda(test.right, depth)
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            target = test.comparisons[0]
            if "cuda" not in (literal(test.left), literal(target.comparator)):
                return None
            if isinstance(target.operator, (cst.Equal, cst.In)):
                return True
            return False if isinstance(target.operator, (cst.NotEqual, cst.NotIn)) else None
        if isinstance(test, cst.Call):
            meaning = self.names.meaning(test.func)
            return True if meaning is not None and meaning.name == "torch.cuda.is_available" else None
        if isinstance(test, cst.Attribute) and test.attr.value == "is_cuda":
            return True
        if isinstance(test, cst.Name) and depth < _ALIASES:
            local = self.names.local(test)
            value = self.names.value_of(local[0]) if len(local) == 1 else None
            return self._tests_for_cuda(value, depth + 1) if value is not None else None
        return None

    def _read_import(self, node: Any) -> None:
        if isinstance(node, cst.Import):
            for alias in node.names:
                name = str(dotted(alias.name)).rpartition(".")[2]
                if name in self.project.compiled:
                    self._add(node, name, [alias])
        elif node.module is not None and self._is_compiled(str(dotted(node.module)).rpartition(".")[2], node.relative):
            aliases = () if isinstance(node.names, cst.ImportStar) else node.names
            self._add(node, str(dotted(node.module)).rpartition(".")[2], aliases)
        elif not isinstance(node.names, cst.ImportStar):
            for alias in node.names:
                if self._is_compiled(str(dotted(alias.name)), node.relative):
                    self._add(node, str(dotted(alias.name)), [alias])

    def _is_compiled(self, name: str, relative: Any) -> bool:
        return name in self.project.compiled or bool(
            relative and name not in self.project.modules and _COMPILED.fullmatch(name)
        )

    def _add(self, node: Any, name: str, aliases: Iterable[cst.ImportAlias]) -> None:
        self.imports.setdefault(node, name)
        for alias in aliases:
            bound = alias.asname.name if alias.asname is not None else root(alias.name)
            if isinstance(bound, cst.Name):
                self._modules.add(bound.value)

    def _find_users(self) -> None:
        """Find the functions and aliases of the module that call such operators, and those that call these."""
        defined = list(_definitions(self.program.module.body))
        count = -1
        while count < len(self.users):
            count = len(self.users)
            for name, node in defined:
                if name not in self.users and self.used_in([node]) is not None:
                    self.users.add(name)


def _definitions(body: Iterable[Any]) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield the functions of a module that a call runs: no classes of models, which are made on any device."""
    for statement in body:
        if isinstance(statement, cst.FunctionDef) or (isinstance(statement, cst.ClassDef) and _is_autograd(statement)):
            yield statement.name.value, statement.body
        elif isinstance(statement, cst.SimpleStatementLine):
            for part in statement.body:
                if isinstance(part, cst.Assign):
                    for target in part.targets:
                        if isinstance(target.target, cst.Name):
                            yield target.target.value, part.value


def _is_autograd(defined: cst.ClassDef) -> bool:
    return any(str(dotted(base.value)).rpartition(".")[2] == "Function" for base in defined.bases)


def _last(body: Any) -> Any:
    """Return the last statement of a block."""
    statements = body.body
    last = statements[-1] if statements else None
    return last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last


def _jumps(body: Any) -> bool:
    return isinstance(_last(body), _JUMPS)


def _raises(side: Sequence[Any]) -> bool:
    """Return whether code does nothing but raise an error, after statements without branches."""
    node = side[-1]
    last = _last(node.body if isinstance(node, cst.Else) else node) if hasattr(node, "body") else None
    return isinstance(last, cst.Raise)


def report_operators(record: Record, kernels: Kernels) -> None:
    """Report the counterparts of operators of compiled modules, and keep the tests for CUDA that guard them."""
    program, table = record.program, kernels.table
    for node, name in kernels.imports.items():
        rule = rule_of_operator(table, name)
        if rule is not None:
            optional = any(isinstance(parent, cst.Try) for parent in program.ancestors(node))
            level = "review" if optional else "unsupported"
            record.report(node, rule, level, f"{name} is a module that the project compiles for CUDA")
    listed = set()
    for call in program.calls:
        meaning = kernels.names.meaning(call.func)
        if meaning is not None and meaning.name == LOAD_EXT and call.args:
            listed |= set(_report_listed(record, call, table))
    for chain in program.chains:
        meaning = kernels.names.meaning(chain)
        found = table.find("kernel", meaning.name) if meaning is not None else None
        if found is not None and meaning is not None and meaning.name not in listed:
            listed.add(meaning.name)
            record.report(chain, found[0])
    for guard in kernels.guards():
        operator = guard.operator.rpartition(".")[2] if guard.operator.startswith("mmcv.") else guard.operator
        if guard.kept is None:
            note = f"this is true on an NPU too, where {operator} may have no kernel: test a tensor instead, x.is_cuda"
            record.note(guard.test, _BRANCH, "unsupported", note)
        else:
            record.keep(guard.kept)
            note = (
                f"not changed, so that an NPU takes the other branch: {operator} may have no kernel; if it has, test "
                "is_npu"
            )
            record.note(guard.test, _BRANCH, "review", note)


def _report_listed(record: Record, call: cst.Call, table: RuleTable) -> Iterator[str]:
    """Report the operators that ``load_ext("_ext", [...])`` asks for."""
    module, *others = call.args
    for argument in others:
        if isinstance(argument.value, (cst.List, cst.Tuple)):
            for element in argument.value.elements:
                name = f"mmcv.{literal(module.value)}.{literal(element.value)}"
                found = table.find("kernel", name)
                if found is not None:
                    yield name
                    record.report(element.value, found[0])


def kernel_users(source: str, table: RuleTable, project: ProjectKernels) -> frozenset[str]:
    """Return the names of a module's functions, autograd ones too, that call operators without a kernel on an NPU.

    Raises:
        libcst.ParserSyntaxError: it is not Python.
    """
    if not re.search(r"\b_ext\b|\bmmcv\.ops\b", source) and not project.may_be_in(source):
        return frozenset()
    program, names = read(source)
    return frozenset(Kernels(program, names, table, project).users)


def compiled_by(source: str) -> frozenset[str]:
    """Return the names of the modules that a ``setup.py`` compiles for CUDA.

    It says ``CUDAExtension("name", ...)`` or ``make_cuda_ext(name="name", ...)``. A source that this Python
    cannot parse compiles none.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _compiles(ast.unparse(node.func)):
            given: Mapping[Any, ast.expr] = {keyword.arg: keyword.value for keyword in node.keywords}
            name = given.get("name", node.args[0] if node.args else None)
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found.add(name.value.rpartition(".")[2])
    return frozenset(found)


def _compiles(function: str) -> bool:
    """Return whether a function of a ``setup.py`` may describe a CUDA module, by its name."""
    return bool(_EXTENSION.search(function)) and function.rpartition(".")[2] not in _OF_CPU
