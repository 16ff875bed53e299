"""Reads ``AtomicPatch``, ``RegistryPatch``, ``LegacyPatch`` and ``Patch(function)`` calls as changes of patchcore."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from mx_driving_compat.reading.declarations import Code, Construction, Remark, problem_of
from mx_driving_compat.reading.program.dotted import DottedTarget, split_target
from mx_driving_compat.reading.program.lambdas import function_of_lambda
from mx_driving_compat.reading.program.source import Scope, Source, Unknown
from mx_driving_compat.reading.program.versions import precheck_requirement
from mx_driving_compat.reading.program.walking import FoundCall
from patchcore import PatchcoreError
from patchcore.plugin import PluginNames

__all__ = ["CONSTRUCTORS", "AtomicReader", "ReadChange", "arguments_of", "brief"]

#: The parameters of the classes of patches, in order.
CONSTRUCTORS: Mapping[str, Sequence[str]] = {
    "AtomicPatch": ("target", "replacement"),
    "RegistryPatch": ("registry", "module_cls"),
    "LegacyPatch": ("func", "options", "target_module"),
    "Patch": ("func", "options", "priority", "patch_failure_warning"),
    "LegacyPatchWrapper": ("func", "options", "priority", "patch_failure_warning"),
}
_WIDTH = 90


class ReadChange(NamedTuple):
    """The result of reading one patch.

    Args:
        line: where it is.
        change: ``None`` if it could not be translated.
        requires: the versions of libraries that it needs.
        left: the work that is left to do by hand.
        notes: remarks on how it was read.
    """

    line: int
    change: Optional[Construction]
    requires: tuple[str, ...] = ()
    left: tuple[Remark, ...] = ()
    notes: tuple[Remark, ...] = ()


class AtomicReader:
    """Reads calls that make patches; collects the methods and the lambdas that have to become functions.

    Args:
        source: the file.
        names: of the new plugin.
    """

    def __init__(self, source: Source, names: PluginNames) -> None:
        self.source = source
        self.names = names
        #: Names of ``functions.py``, each with its object of ``replacements.py``.
        self.functions: dict[str, str] = {}
        #: Functions for the end of ``replacements.py``, by name.
        self.lambdas: dict[str, str] = {}

    def read(self, found: FoundCall) -> ReadChange:
        """Return the change of an ``AtomicPatch``, a ``RegistryPatch`` or a ``LegacyPatch``."""
        kind = self.source.imported(found.node.func) or ""
        readers = {"AtomicPatch": self._atomic, "RegistryPatch": self._registry, "LegacyPatch": self._legacy}
        return self._attempt(found, lambda: readers[kind](found))

    def call(self, found: FoundCall, module: str) -> ReadChange:
        """Return the change of a ``Patch(function)`` that was added for ``module``."""
        return self._attempt(found, lambda: self._call(found, arguments_of(found, "Patch"), module))

    def reference(self, node: ast.expr, scope: Scope, use: str, *, in_class: bool = False) -> str:
        """Return the target of an object of the file in the new package.

        Args:
            node: the expression that names the object, or a lambda.
            scope: around it.
            use: its purpose, the name of a lambda from then on: ``"scale_replacement"``.
            in_class: whether it is to be put in a class. A static method, taken as a target, would stay one there.

        Raises:
            Unknown: it names none.
        """
        found = self._lambda(node, scope, use)
        if found is not None:
            return f"{self.names.package}.replacements:{found}"
        return self._target(scope.reference(node), in_class=in_class)

    def _lambda(self, node: ast.expr, scope: Scope, use: str) -> Optional[str]:
        """Return the name of the function that a lambda becomes, ``None`` for another expression."""
        found = scope.follow_local(node)
        if not isinstance(found, ast.Lambda):
            return None
        plain = name = re.sub(r"\W+", "_", use)
        number = 1
        while True:
            text = function_of_lambda(found, name, scope, self.source)
            if name not in self.source.defined and self.lambdas.setdefault(name, text) == text:
                return name
            number += 1
            name = f"{plain}_{number}"

    def _target(self, reference: str, *, in_class: bool) -> str:
        if ":" in reference:  # imported inside the function
            if reference.endswith(":"):
                raise Unknown(f"{reference[:-1]} is a module")
            return split_target(reference.replace(":", ".")).target
        root, _, attribute = reference.partition(".")
        if root not in self.source.defined:
            raise Unknown(f"{root} is not defined in the file")
        if in_class and attribute and self._may_be_bound(root, attribute):
            return f"{self.names.package}.functions:{self._function(reference)}"
        return f"{self.names.package}.replacements:{reference}"

    def _may_be_bound(self, root: str, attribute: str) -> bool:
        """Return whether the attribute may be another object than the class holds, as with a static method."""
        owner = self.source.defined[root]
        if not isinstance(owner, ast.ClassDef):
            return False
        member = self.source.member(owner, attribute)
        is_plain = isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)) and not member.decorator_list
        return not is_plain and not isinstance(member, ast.ClassDef)

    def _function(self, reference: str) -> str:
        """Return the name in ``functions.py`` for a method."""
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", reference)
        plain = wanted = "_".join(filter(None, re.split(r"\W|_", words.lower())))
        number = 1
        while self.functions.get(wanted, reference) != reference:
            number += 1
            wanted = f"{plain}_{number}"
        self.functions[wanted] = reference
        return wanted

    def _attempt(self, found: FoundCall, read: Any) -> ReadChange:
        lambdas = dict(self.lambdas)
        made = self._try(found, read)
        if made.change is None:
            self.lambdas = lambdas  # nothing names those of a patch that is left
        return made

    def _try(self, found: FoundCall, read: Any) -> ReadChange:
        line = found.line
        requires, doubt = found.conditions
        if doubt:
            advice = "say with requires=, when= or default=False when the change is to be made"
            return ReadChange(line, None, requires, (Remark(line, brief(found.node), f"{doubt}; {advice}"),))
        try:
            made: ReadChange = read()
        except (Unknown, PatchcoreError) as reason:
            advice = f"{reason}; {getattr(reason, 'advice', 'declare it by hand')}"
            return ReadChange(line, None, requires, (Remark(line, brief(found.node), advice),))
        problem = problem_of(made.change) if made.change is not None else ""
        if problem:
            return ReadChange(line, None, requires, (Remark(line, brief(found.node), problem),))
        return made._replace(requires=tuple(dict.fromkeys((*requires, *made.requires))))

    def _atomic(self, found: FoundCall) -> ReadChange:
        given, scope = arguments_of(found, "AtomicPatch"), found.scope
        line = found.line
        target = split_target(scope.text(_needed(given, "target")))
        notes = list(_guess(line, target))
        keywords: dict[str, Any] = {}
        arguments: list[Any] = [target.target]
        wrapper, target_wrapper = given.get("replacement_wrapper"), given.get("target_wrapper")
        replacement = given.get("replacement")
        if replacement is None:
            target_wrapper = _needed({"target_wrapper": target_wrapper}, "target_wrapper")
            keywords["factory"] = self._later(target_wrapper, scope, _use(target, "target_wrapper"))
        elif wrapper is not None:
            names = (
                self._own(wrapper, scope, _use(target, "replacement_wrapper")),
                self._own(replacement, scope, _use(target, "replacement")),
            )
            keywords["factory"] = Code("_wrapped({}, {})".format(*map(_quoted, names)))
        else:
            arguments.append(self._replacement(replacement, scope, target, notes))
        if "runtime_check" in given:
            keywords["when_call"] = self._later(given["runtime_check"], scope, _use(target, "runtime_check"))
        if "aliases" in given:
            known = "names bound to the same object are found; declare a change for what is another object"
            notes.append(Remark(line, f"aliases={ast.unparse(given['aliases'])} of {target.target}", known))
        requires, left = self._precheck(found, given, target.target)
        return ReadChange(line, Construction("Replace", tuple(arguments), keywords), requires, left, tuple(notes))

    def _replacement(self, node: ast.expr, scope: Scope, target: DottedTarget, notes: list[Remark]) -> Any:
        try:
            value = scope.literal(node)
        except Unknown:
            return self.reference(node, scope, _use(target, "replacement"), in_class=target.in_class)
        if not isinstance(value, str):
            return value
        named = split_target(value)
        notes += _guess(node.lineno, named)
        return named.target

    def _registry(self, found: FoundCall) -> ReadChange:
        given, scope = arguments_of(found, "RegistryPatch"), found.scope
        line = found.line
        registry = split_target(scope.text(_needed(given, "registry")))
        if "module_factory" in given:
            raise Unknown("module_factory makes the class later", "make it at the top of a module, and Register that")
        keywords = {name: scope.literal(given[name]) for name in ("name", "force") if name in given}
        if keywords.get("force") is True:
            del keywords["force"]  # the default
        cls = self.reference(_needed(given, "module_cls"), scope, "registered")
        requires, left = self._precheck(found, given, registry.target)
        change = Construction("Register", (registry.target, cls), keywords)
        return ReadChange(line, change, requires, left, tuple(_guess(line, registry)))

    def _legacy(self, found: FoundCall) -> ReadChange:
        given = arguments_of(found, "LegacyPatch")
        return self._call(found, given, found.scope.text(_needed(given, "target_module")))

    def _call(self, found: FoundCall, given: Mapping[str, ast.expr], module: str) -> ReadChange:
        keywords: dict[str, Any] = {"module": module}
        if "options" in given:
            options = found.scope.literal(given["options"])
            if options:
                keywords["options"] = options
        function = self.reference(_needed(given, "func"), found.scope, f"patch_{module}")
        return ReadChange(found.line, Construction("Call", (function,), keywords))

    def _precheck(
        self, found: FoundCall, given: Mapping[str, ast.expr], target: str
    ) -> tuple[tuple[str, ...], tuple[Remark, ...]]:
        """Return the versions that a ``precheck=`` requires, or the work that is left to do by hand."""
        precheck = given.get("precheck")
        if precheck is None:
            return (), ()
        try:
            reference: Optional[str] = found.scope.reference(precheck)
        except Unknown:
            reference = None
        requirement = precheck_requirement(found.scope.follow(precheck), reference, self.source)
        if requirement is not None:
            return (requirement,), ()
        advice = "say the same with requires=, needs= or when=, or leave it out: a target that is not there is reported"
        line = precheck.lineno
        return (), (Remark(line, f"precheck={brief(precheck)} of {target}", advice),)

    def _later(self, node: ast.expr, scope: Scope, use: str) -> Code:
        return Code(f"_later({_quoted(self._own(node, scope, use))})")

    def _own(self, node: ast.expr, scope: Scope, use: str) -> str:
        """Return a reference to an object of the file, or to the function that a lambda becomes."""
        function = self._lambda(node, scope, use)
        if function is not None:
            return function
        reference = scope.reference(node)
        root = reference.partition(".")[0]
        if ":" in reference or root not in self.source.defined:
            raise Unknown(f"{ast.unparse(node)} is not defined in the file")
        return reference


def arguments_of(found: FoundCall, kind: str) -> dict[str, ast.expr]:
    """Return the arguments of a call by the names of the parameters; those that are ``None`` are left out.

    Args:
        found: the call.
        kind: a key of :data:`CONSTRUCTORS`.

    Raises:
        Unknown: some of them are computed.
    """
    given = dict(zip(CONSTRUCTORS[kind], found.scope.spread(found.node.args)))
    for keyword in found.node.keywords:
        if keyword.arg is None:
            raise Unknown(f"**{ast.unparse(keyword.value)} is computed")
        given[keyword.arg] = keyword.value
    return {name: node for name, node in given.items() if not _is_none(found.scope.follow(node))}


def brief(node: ast.AST) -> str:
    """Return the source of an expression on one line, shortened."""
    text = " ".join(ast.unparse(node).replace("lambda :", "lambda:").split())  # Python 3.9 writes the space
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _needed(given: Mapping[str, Optional[ast.expr]], name: str) -> ast.expr:
    node = given.get(name)
    if node is None:
        raise Unknown(f"it has no {name}")
    return node


def _use(target: DottedTarget, argument: str) -> str:
    """Return the name of a lambda that is an argument of the patch of a target: ``scale_runtime_check``."""
    return f"{target.target.replace(':', '.').rpartition('.')[2].strip('_')}_{argument}"


def _guess(line: int, target: DottedTarget) -> list[Remark]:
    if target.found:
        return []
    module = target.target.partition(":")[0]
    return [Remark(line, module, "not found here; names suggest that it is a module")]


def _quoted(text: str) -> str:
    return f'"{text}"'
