"""Reads the calls on a patcher: patches added and disabled, imports changed, settings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from mx_driving_compat.predefined.table import find_entry
from mx_driving_compat.reading.calls.atomic import AtomicReader, ReadChange, arguments_of, brief
from mx_driving_compat.reading.calls.classes import PatchClasses, grouped
from mx_driving_compat.reading.calls.imports import IMPORT_CALLS
from mx_driving_compat.reading.calls.settings import INTERNAL_FORMAT, SETTING_CALLS, Setting, internal_format
from mx_driving_compat.reading.declarations import PatchDeclaration, Provided, Remark
from mx_driving_compat.reading.program.source import (
    Function,
    Scope,
    Source,
    Unknown,
    called_name,
    line_of,
    receiver_root,
)
from mx_driving_compat.reading.program.walking import FoundCall, Walker, function_scope, run_at_once
from patchcore import PatchcoreError

__all__ = ["Configuration"]

_PATCHERS = ("Patcher", "PatcherBuilder", "LegacyPatcherBuilder", "default_patcher", "default_patcher_builder")
#: Names of methods that other objects than patchers often have.
_COMMON_NAMES = ("add", "disable", "build", "apply", "apply_all")
#: Calls of other functions that need no counterpart.
_SILENT = ("print", "print_info", "info", "debug", "warning")
_WRAPPERS = ("Patch", "LegacyPatchWrapper")
_TORCH = "torch-npu-patches"


class Configuration:
    """Everything that a file does with a patcher; filled by :meth:`read`.

    Args:
        source: the file.
        reader: for the patches that are made in place.
        classes: the patch classes of the file.
    """

    def __init__(self, source: Source, reader: AtomicReader, classes: PatchClasses) -> None:
        self.source = source
        self.reader = reader
        self.classes = classes
        self.plugin = reader.names.plugin
        self.patches: list[PatchDeclaration] = []
        self.provided: list[Provided] = []
        self.settings: list[Setting] = []
        self.left: list[Remark] = []
        self.notes: list[Remark] = []
        #: Names of disabled patches with their lines, kept until all patches are known.
        self.disabled: list[Setting] = []
        #: The distributions with patches that the file uses or disables.
        self.distributions: set[str] = set()
        #: The ``id`` of each call that was read.
        self.seen: set[int] = set()
        self._configuring: dict[int, Function] = {}
        self._added: set[str] = set()
        self._adds_classes = False
        self._patcher_names = set(self._find_patcher_names())
        self._handlers = {
            "add": self._add,
            "apply_all": self._apply_all,
            "add_module_patch": self._add_module_patch,
            "disable": self._disable,
            "disable_patches": self._disable,
            **dict.fromkeys(IMPORT_CALLS, self._change_imports),
            **dict.fromkeys(SETTING_CALLS, self._set),
            "allow_internal_format": self._internal_format,
            "disallow_internal_format": self._internal_format,
            "build": self._build,
            "apply": self._build,
            "with_precision_debugger": self._no_counterpart,
        }
        self._functions = {
            "Patcher": self._patcher,
            "configure_patcher_logging": self._logging,
            "set_patcher_log_level": self._logging,
            "ensure_mmcv_version": self._mmcv_version,
            "patch_mmcv_version": self._mmcv_version,
        }

    def read(self) -> None:
        """Read every function and the body of the file, then the classes that no patcher adds."""
        for found, function in self._calls():
            handler = self._handler(found)
            if handler is None:
                continue
            self.seen.add(id(found.node))
            if function is not None:
                self._configuring[id(function)] = function
            try:
                handler(found)
            except (Unknown, PatchcoreError) as reason:
                self._leave(found, reason)
        for name in self.classes.classes:
            if name not in self._added:
                self._declare_class(name, used=not self._adds_classes)
        self.left += self._beside()

    def is_unmistakable(self, call: ast.Call) -> bool:
        """Return whether a call must be of a patcher's method or constructor, whatever object it is called on."""
        if self.source.imported(call.func) == "Patcher":
            return bool(call.args or call.keywords)
        is_method = isinstance(call.func, ast.Attribute) and self.source.imported(call.func) is None
        return is_method and called_name(call) in self._handlers and called_name(call) not in _COMMON_NAMES

    def _calls(self) -> Iterator[tuple[FoundCall, Optional[Function]]]:
        """Yield every call with the function around it."""
        walker = Walker(self.source)
        module = Scope(self.source.constants, is_module=True)
        for found in walker.calls(self.source.tree.body, module):
            yield found, None
        for function, owner in _outermost_functions(self.source.tree.body):
            if function.name != "patches" or owner not in self.classes.classes:
                for found in walker.calls(function.body, function_scope(function, Scope(self.source.constants))):
                    yield found, function

    def _handler(self, found: FoundCall) -> Any:
        imported = self.source.imported(found.node.func)
        if imported is not None:
            return self._functions.get(imported)
        if not isinstance(found.node.func, ast.Attribute):
            return None
        name = called_name(found.node)
        if name in _COMMON_NAMES and name != "apply_all" and not self._is_patcher(found.node.func.value):
            return None
        return self._handlers.get(name)

    def _find_patcher_names(self) -> Iterator[str]:
        """Yield the names of parameters and variables that are patchers."""
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.arg) and node.annotation is not None and "Patcher" in ast.unparse(node.annotation):
                yield node.arg
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                root = receiver_root(node.value)
                made = self.source.imported(root.func if isinstance(root, ast.Call) else root)
                if made in _PATCHERS:
                    yield from (target.id for target in node.targets if isinstance(target, ast.Name))

    def _is_patcher(self, receiver: ast.expr) -> bool:
        root = receiver_root(receiver)
        if self.source.imported(root.func if isinstance(root, ast.Call) else root) in _PATCHERS:
            return True
        nodes = list(ast.walk(receiver))
        names = [node.id for node in nodes if isinstance(node, ast.Name)]
        names += [node.attr for node in nodes if isinstance(node, ast.Attribute)]
        return any(n in self._patcher_names or "patcher" in n.lower() or "builder" in n.lower() for n in names)

    def _add(self, found: FoundCall) -> None:
        for item in found.scope.spread(found.node.args):
            node = found.scope.follow(item)
            try:
                if isinstance(node, ast.Call) and self.source.imported(node.func) is not None:
                    self._add_direct(FoundCall(node, found.scope, found.conditions))
                else:
                    self._add_class(found, node)
            except (Unknown, PatchcoreError) as reason:
                self._leave(found, reason)
        if any(keyword.arg == "options" for keyword in found.node.keywords):
            advice = "options= was handed to patches(); a patch here has options=, which its functions are called with"
            self.left.append(Remark(found.line, brief(found.node), advice))

    def _apply_all(self, found: FoundCall) -> None:
        if isinstance(found.node.func, ast.Attribute):
            self._add_class(found, found.node.func.value)

    def _add_class(self, found: FoundCall, node: ast.expr) -> None:
        name = self.source.imported(node)
        if name is not None:
            self._provide(found, name)
            return
        reference = found.scope.reference(node)
        if reference in self.classes.classes:
            self._adds_classes = True
            self._declare_class(reference, used=True, found=found)
            return
        statement = self.source.defined.get(reference.partition(".")[0])
        if isinstance(statement, ast.ImportFrom):
            self._adds_classes = True
            file = f"{(statement.module or '').replace('.', '/')}.py"
            raise Unknown(f"{reference} is from {file}", "run patchcore new --from on that file, too")
        raise Unknown(f"{reference} is no patch class of this file")

    def _declare_class(self, name: str, *, used: bool, found: Optional[FoundCall] = None) -> None:
        if name in self._added:
            return
        self._added.add(name)
        made = self.classes.read(name)
        line = self.classes.classes[name].lineno
        if not made:
            if used or "patches" in {getattr(s, "name", "") for s in self.classes.classes[name].body}:
                advice = "nothing could be read from its patches(); declare its changes by hand"
                self.left.append(Remark(line, f"class {name}", advice))
            return
        if not used:
            self.notes.append(Remark(line, f"class {name}", "nothing in the file adds it; declared with default=False"))
        if not used or not all(patch.is_complete for patch in made):  # an incomplete patch is not applied in part
            made = [patch._replace(keywords={**patch.keywords, "default": False}) for patch in made]
        for patch in made:
            self._declare(patch, found)

    def _add_direct(self, found: FoundCall) -> None:
        kind = self.source.imported(found.node.func)
        if kind in _WRAPPERS:
            raise Unknown("a Patch(function) is added for a module, with add_module_patch()")
        if kind not in ("AtomicPatch", "RegistryPatch", "LegacyPatch"):
            raise Unknown(f"{brief(found.node)} is none of the patches that are known")
        self.classes.seen.add(id(found.node))
        read = self.reader.read(found._replace(conditions=found.conditions._replace(doubt="")))
        self._declare_change(read, found)

    def _declare_change(self, read: ReadChange, found: FoundCall, **keywords: Any) -> None:
        known_as = _name_of(read)
        for patch in grouped(f"{self.plugin}.{known_as}", read.line, [read], keywords):
            self._declare(patch._replace(known_as=known_as), found)

    def _declare(self, patch: PatchDeclaration, found: Optional[FoundCall] = None) -> None:
        """Keep a patch; make it ``default=False`` if it may not be added, or if part of it is left to do by hand."""
        keywords = dict(patch.keywords)
        if found is not None and found.conditions.requires:
            keywords["requires"] = list(dict.fromkeys((*keywords.get("requires", ()), *found.conditions.requires)))
        if found is not None and found.conditions.doubt:
            advice = f'{found.conditions.doubt}; enable it there ("--enable {patch.name}"), or say with when= where'
            self.left.append(Remark(found.line, brief(found.node), advice))
            keywords["default"] = False
        if not patch.is_complete:
            keywords["default"] = False
        self.patches.append(patch._replace(keywords=keywords))

    def _add_module_patch(self, found: FoundCall) -> None:
        arguments = list(found.scope.spread(found.node.args))
        if not arguments:
            raise Unknown("it names no module")
        module = found.scope.text(arguments[0])
        for argument in arguments[1:]:
            self._module_patch(found, found.scope.follow(argument), module)

    def _module_patch(self, found: FoundCall, node: ast.expr, module: str) -> None:
        if not isinstance(node, ast.Call) or self.source.imported(node.func) not in _WRAPPERS:
            self.left.append(Remark(found.line, brief(node), "it is no Patch(function); declare it by hand"))
            return
        inner = FoundCall(node, found.scope, found.conditions)
        self.classes.seen.add(id(node))
        try:
            given = arguments_of(inner, "Patch")
            name = self.source.imported(found.scope.follow(given["func"])) if "func" in given else None
            if name is not None:
                self._provide(inner, name)
                return
            keywords: dict[str, Any] = {}
            if "priority" in given:
                keywords["priority"] = found.scope.literal(given["priority"])
        except Unknown as reason:
            self._leave(inner, reason)
            return
        read = self.reader.call(inner._replace(conditions=found.conditions._replace(doubt="")), module)
        self._declare_change(read, inner, **keywords)

    def _patcher(self, found: FoundCall) -> None:
        """Read the constructor of 1.0: ``Patcher({"mmcv": [Patch(f)]}, {"disabled", "names"})``."""
        given = dict(zip(("module_patches", "blacklist", "allow_internal_format"), found.node.args))
        given.update((keyword.arg, keyword.value) for keyword in found.node.keywords if keyword.arg)
        table = found.scope.follow(given["module_patches"]) if "module_patches" in given else None
        if table is not None and not isinstance(table, ast.Dict):
            raise Unknown(f"{brief(table)} is no dictionary that is written out")
        for key, value in zip(table.keys, table.values) if isinstance(table, ast.Dict) else ():
            if key is None:
                raise Unknown(f"**{brief(value)} is computed")
            for item in found.scope.items(value):
                self._module_patch(found, found.scope.follow(item), found.scope.text(key))
        if "blacklist" in given:
            self._disable_all(found, found.scope.items(given["blacklist"]))
        if "allow_internal_format" in given:
            node = ast.Call(found.node.func, [given["allow_internal_format"]], [])
            self._internal_format(found._replace(node=ast.copy_location(node, found.node)))

    def _provide(self, found: FoundCall, name: str) -> None:
        predefined = find_entry(name)
        if predefined is None:
            raise Unknown(f"{name} is no patch of mx_driving.patcher")
        line = found.line
        self.provided.append(Provided(line, name, predefined.patches, predefined.distribution, predefined.default))
        self.distributions.add(predefined.distribution)
        if not predefined.default:
            self.settings.append(Setting(line, "enable", list(predefined.patches), found.conditions.doubt))
        if found.node.keywords or (called_name(found.node) in _WRAPPERS and len(found.node.args) > 1):
            advice = (
                f"options of {name} are set in [tool.patchcore.options]; see patchcore explain {predefined.patches[0]}"
            )
            self.notes.append(Remark(line, brief(found.node), advice))

    def _disable(self, found: FoundCall) -> None:
        self._disable_all(found, list(found.scope.spread(found.node.args)))

    def _disable_all(self, found: FoundCall, nodes: list[ast.expr]) -> None:
        for node in nodes:
            name = self._patch_name(found, node)
            self.disabled.append(Setting(found.line, "disable", name, found.conditions.doubt))

    def _patch_name(self, found: FoundCall, node: ast.expr) -> str:
        try:
            return found.scope.text(node)
        except Unknown:
            pass
        if isinstance(node, ast.Attribute) and node.attr in ("name", "__name__"):
            node = node.value
        imported = self.source.imported(node)
        if imported is not None:
            return imported
        reference = found.scope.reference(node)
        return self.classes.name_of(reference) if reference in self.classes.classes else reference

    def _change_imports(self, found: FoundCall) -> None:
        for name, summary, changes in IMPORT_CALLS[called_name(found.node)](found, self.reader):
            keywords = {"summary": summary}
            patch = PatchDeclaration(f"{self.plugin}.{name}", found.line, changes, keywords, known_as=name)
            self._declare(patch, found)

    def _set(self, found: FoundCall) -> None:
        self.settings += SETTING_CALLS[called_name(found.node)](found)

    def _internal_format(self, found: FoundCall) -> None:
        self.provided.append(Provided(found.line, "allow_internal_format", (INTERNAL_FORMAT,), _TORCH, True))
        self.distributions.add(_TORCH)
        self.settings += internal_format(found)

    def _build(self, found: FoundCall) -> None:
        if found.node.args or found.node.keywords:
            self._internal_format(found)

    def _mmcv_version(self, found: FoundCall) -> None:
        advice = 'mmcv_npu.mmcv_version.mmcv_version(VERSION, "mmdet", "mmdet3d") returns the patch that does'
        raise Unknown("no function here shows another version of mmcv", advice)

    def _logging(self, found: FoundCall) -> None:
        raise Unknown("messages are a matter of settings", 'on_failure = "raise", log = "debug" in [tool.patchcore]')

    def _no_counterpart(self, found: FoundCall) -> None:
        raise Unknown(
            "there is no such thing here", 'record = { path = "records" } in [tool.patchcore], for patchcore compare'
        )

    def _beside(self) -> Iterator[Remark]:
        """Yield calls of other functions in the functions that configure a patcher."""
        for function in self._configuring.values():
            for statement in run_at_once(function.body):
                call = statement.value if isinstance(statement, ast.Expr) else None
                if isinstance(call, ast.Call) and id(call) not in self.seen and called_name(call) not in _SILENT:
                    advice = "it is done where the patcher is configured, which no one does here; do it in the program"
                    yield Remark(line_of(call), brief(call), advice)

    def _leave(self, found: FoundCall, reason: Exception) -> None:
        advice = getattr(reason, "advice", "declare it by hand")
        self.left.append(Remark(found.line, _call_text(found.node), f"{reason}; {advice}"))


def _call_text(node: ast.Call) -> str:
    """Return the source of a call, without the calls before it in a chain."""
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        plain = ast.Call(ast.Name(node.func.attr, ast.Load()), node.args, node.keywords)
        return f"...{brief(plain)}"
    return brief(node)


def _outermost_functions(body: Iterable[ast.AST], owner: str = "") -> Iterator[tuple[Function, str]]:
    """Yield the functions that are in no other function, each with the name of its class."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node, owner
        else:
            inner = node.name if isinstance(node, ast.ClassDef) else owner
            yield from _outermost_functions(ast.iter_child_nodes(node), inner)


def _name_of(read: ReadChange) -> str:
    """Return the last part of the name for a patch that is a single change."""
    if read.change is None:
        return f"line_{read.line}"
    text = str(read.change.arguments[0])
    if read.change.function == "Call":
        return text.rpartition(".")[2].rpartition(":")[2]
    return re.sub(r"[^\w.+-]+", "_", text.partition(":")[2])
