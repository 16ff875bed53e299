"""The kind of change that edits the syntax tree of modules, and the rules that do the edit."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, Optional, Union

from patchcore.declare.changes import Change, as_reference, resolve
from patchcore.declare.declaration import Declaration, as_tuple, check_callables
from patchcore.declare.target import Target
from patchcore.errors import DeclarationError

__all__ = ["Rewrite", "Rules", "Source", "name_of_object"]

_MODULES = re.compile(r"\*|[^\W\d]\w*(\.[^\W\d]\w*)*(\.\*)?")


class Source:
    """A module whose syntax tree is being edited.

    Args:
        name: of the module; ``__main__`` for the program.
        file: path of its source.
        text: the source.
        lines: numbers of the lines that may be edited, in order: those that ``find`` of :class:`Rules` returned.

    Attributes:
        name, file, text, lines: the same.
        needs: the objects that the edited code uses: the name under which it finds each, and its target.
        notes: a list to which ``edit`` of :class:`Rules` appends what it wants to remember about the source; ``noted``
            gets it. With ``depends_on``, notes are kept in a file: they are texts, numbers, truth values, ``None``, and
            tuples of these.

    Examples:
        >>> import patchcore as pc
        >>> source = pc.Source("shop", "shop.py", "price = 3")
        >>> _ = source.reference("math:sqrt")
        >>> [str(target) for target in source.needs.values()]
        ['math:sqrt']
    """

    def __init__(self, name: str, file: str, text: str, lines: Sequence[int] = ()) -> None:
        self.name = name
        self.file = file
        self.text = text
        self.lines = lines
        self.needs: dict[str, Target] = {}
        self.notes: list[Any] = []

    def reference(self, target: str) -> ast.expr:
        """Return an expression for the object ``package.module:name``, which the edited code can call.

        The module imports it at its start, under a name that no source can spell and that ``import *`` leaves out.

        Raises:
            TargetError: ``target`` is no target of a name in a module.
        """
        parsed = Target.parse(target)
        name = name_of_object(target)
        self.needs[name] = parsed
        return ast.Name(name, ast.Load())

    def segment(self, node: ast.AST) -> str:
        """Return the source of ``node``, as one line; empty if it has none."""
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None)
        if not first or not last:
            return ""
        lines = [line.encode() for line in self.text_lines[first - 1 : last]]
        lines[-1] = lines[-1][: node.end_col_offset]  # type: ignore[attr-defined]
        lines[0] = lines[0][node.col_offset :]  # type: ignore[attr-defined]
        return b" ".join(b" ".join(lines).split()).decode()

    @functools.cached_property
    def text_lines(self) -> list[str]:
        """The lines of the source, without their ends."""
        return self.text.split("\n")


def name_of_object(target: str) -> str:
    """Return the name under which edited code finds the object ``target``.

    No source can spell the name. It has no dots: torch.compile takes a name with dots for a chain of attributes.
    """
    return f"_@{target}".replace(".", "/")


class Rules(Declaration):
    """How :class:`Rewrite` edits modules.

    Args:
        edit: called with an :class:`ast.Module` and the :class:`Source`, sometimes several times for a module; edits
            the tree in place and returns the numbers of the lines that it has changed. New nodes need the position of
            the node that they replace (:func:`ast.copy_location`, :func:`ast.fix_missing_locations`). It must not add
            or remove functions, classes, lambdas or comprehensions: each function of a loaded module gets the code of
            the function at the same place.
        words: texts. A module is edited only if a text constant in its code contains one of them, or if it has
            ``attributes``. Empty for every module.
        attributes: chains of names, ``"device.type"`` for ``x.device.type``. A module is also edited if a function in
            it, or its top level, uses all names of such a chain.
        find: called with the source of such a module; returns the numbers of the lines that ``edit`` may change. If
            there are none, the module is not parsed. If each of them is in a function, only these functions are
            parsed: the tree that ``edit`` gets then contains one function, inside its classes. ``None`` to parse every
            module as a whole.
        concerns: called with the name of a module and the path of its source; returns false for a module that must not
            be edited. ``None`` for every module that the change names.
        noted: called with the path of a source and the notes that ``edit`` has made about it, each time the source was
            edited, or would have been.
        depends_on: names of packages or modules. If given, the results of ``edit`` and ``find`` are kept in a file in
            the cache of the user, as Python keeps bytecode: a later process imports the same module without a search
            and without parsing. Name all that the results depend on beside the source: if a file of these packages
            changes, nothing that was kept is used. Without it, nothing is kept.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import ast
        >>> import patchcore as pc
        >>> def edit(tree, source):
        ...     found = [node for node in ast.walk(tree) if getattr(node, "value", None) == "cuda"]
        ...     for node in found:
        ...         node.value = "npu"
        ...     return [node.lineno for node in found]
        >>> pc.Rules(edit, words=["cuda"]).words
        ('cuda',)
    """

    edit: Callable[[ast.Module, Source], Iterable[int]]
    words: tuple[str, ...]
    attributes: tuple[str, ...]
    find: Optional[Callable[[str], Iterable[int]]]
    concerns: Optional[Callable[[str, str], bool]]
    noted: Optional[Callable[[str, Sequence[Any]], object]]
    depends_on: tuple[str, ...]

    def __init__(
        self,
        edit: Callable[[ast.Module, Source], Iterable[int]],
        *,
        words: Union[str, Sequence[str]] = (),
        attributes: Union[str, Sequence[str]] = (),
        find: Optional[Callable[[str], Iterable[int]]] = None,
        concerns: Optional[Callable[[str, str], bool]] = None,
        noted: Optional[Callable[[str, Sequence[Any]], object]] = None,
        depends_on: Union[str, Sequence[str]] = (),
    ) -> None:
        check_callables("Rules", edit=edit, find=find, concerns=concerns, noted=noted)
        if edit is None:
            raise DeclarationError("Rules: edit must be callable, got None")
        given = as_tuple(words, "words", "Rules")
        if not all(isinstance(word, str) and word for word in given):
            raise DeclarationError(f"Rules: words must be texts, got {words!r}")
        chains = as_tuple(attributes, "attributes", "Rules")
        if not all(isinstance(chain, str) and all(map(str.isidentifier, chain.split("."))) for chain in chains):
            raise DeclarationError(f"Rules: attributes must be names with dots between them, got {attributes!r}")
        if chains and not given:
            raise DeclarationError("Rules: attributes have no effect without words: every module is edited")
        packages = as_tuple(depends_on, "depends_on", "Rules")
        if not all(isinstance(name, str) and all(map(str.isidentifier, name.split("."))) for name in packages):
            raise DeclarationError(f"Rules: depends_on must be names of packages or modules, got {depends_on!r}")
        if packages:
            for what, function in (("edit", edit), ("find", find), ("concerns", concerns)):
                if function is not None and not _is_of_a_module(function):
                    raise DeclarationError(f"Rules: with depends_on, {what} must be a function at the top of a module")
        super().__init__(
            edit=edit,
            words=given,
            attributes=chains,
            find=find,
            concerns=concerns,
            noted=noted,
            depends_on=packages,
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts; a source without any of them is not edited. Empty if every source may be."""
        return self.words + self.attributes


def _is_of_a_module(function: Callable[..., Any]) -> bool:
    """Return true if the module and the name of a function say which one it is."""
    return isinstance(function, FunctionType) and function.__qualname__.isidentifier()  # no lambda, no inner function


class Rewrite(Change):
    """Edit the syntax tree of modules when Python compiles them, in memory.

    File names and lines stay the same, for tracebacks, debuggers and coverage. The bytecode in ``__pycache__`` is that
    of the source in the file. Functions of loaded modules get the code of the edited source; a revert gives them their
    own code back. The effects of lines at the top level of a module cannot be undone; the report counts these lines.

    The change edits modules that Python itself reads from a source file, test modules that pytest reads, and texts that
    a module gives to ``compile``. It does not edit modules that another import hook compiles from a tree (typeguard,
    beartype).

    Args:
        modules: ``"package.module"``, ``"package.*"`` for a package with all that is in it, ``"*"`` for every module
            and the script of the program.
        rules: :class:`Rules`, or their target: ``"package.module:RULES"``.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import patchcore as pc
        >>> pc.Patch("shop.devices", changes=pc.Rewrite("shop.*", rules="shop_npu.rules:RULES")).changes[0].kind
        'rewrite'
    """

    modules: str
    rules: Any

    waits = False
    adds = True
    makes_product = True
    shares_slots = True

    def __init__(self, modules: str, rules: Union[str, Rules]) -> None:
        where = f"Rewrite({modules!r})"
        if not isinstance(modules, str) or not _MODULES.fullmatch(modules):
            raise DeclarationError(f"{where}: write 'package.module', 'package.*' or '*'")
        if not isinstance(rules, (str, Target, Rules)):
            raise DeclarationError(
                f"{where}: rules must be Rules or their target 'package.module:RULES', got {rules!r}"
            )
        target = Target(modules[:-2] if modules.endswith(".*") else modules, ())
        super().__init__(target=target, modules=modules, rules=as_reference(rules, where))

    @property
    def libraries(self) -> tuple[str, ...]:
        return () if self.modules in ("*", "__main__") else (self.target.root,)

    @property
    def source(self) -> Any:
        return self.rules

    @property
    def script_words(self) -> tuple[str, ...]:
        return self.found_rules().texts if self.covers_module("__main__") else ()

    def claims(self, target: Target) -> tuple[Target, ...]:
        return ()  # changes that edit the same module do not conflict: each edits the tree that the one before made

    def covers_module(self, name: str) -> bool:
        """Return true if the module called ``name`` is one of those that the change edits."""
        if self.modules == "*":
            return True
        return name == self.target.module or (self.modules.endswith(".*") and name.startswith(self.modules[:-1]))

    def found_rules(self) -> Rules:
        """Return the rules; imports them if they are given as a target.

        Raises:
            TargetError, TargetNotFound, ImportError: there are none.
        """
        found = resolve(self.rules)
        if not isinstance(found, Rules):
            raise DeclarationError(f"{self}: {self.rules} is {found!r}, and no patchcore.Rules")
        return found

    def phrase(self, target: Target) -> str:
        return f"{self.kind} {self.modules}"

    def subject(self, target: Target) -> str:
        return self.modules
