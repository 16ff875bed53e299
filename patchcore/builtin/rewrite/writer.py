"""Applies :class:`~patchcore.Rewrite`: modules are compiled with edited trees, loaded functions get the edited code.

A module that is imported later runs the edited code. In a loaded module, each function gets the edited code of the
function at the same place in the source. All functions with the same code are found, wherever they are, also the
original that a wrapper of another patch keeps. A revert gives them their own code back. Codes are compared, not only
names and lines: a function that was not made from the present source is not changed.

``builtins.compile`` is patched for each such change, so that texts which the program compiles itself are edited, too.
"""

from __future__ import annotations

import builtins
import gc
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from patchcore.builtin.rewrite import pytests
from patchcore.builtin.rewrite.changes import Rewrite, Rules
from patchcore.builtin.rewrite.compiling import Edited, edit, edit_tree, may_mention, mentions, nested, original_code
from patchcore.builtin.rewrite.kept import NOTHING, Result, Results, Stamp, check_packages, results_of, stamp_of
from patchcore.builtin.rewrite.texts import Text, TextCodes, compile_by
from patchcore.declare.changes import resolve
from patchcore.declare.slots import NamespaceSlot, Slot
from patchcore.engine.application import Application, ChangeState
from patchcore.engine.context import WriteContext, Writer
from patchcore.engine.importing import compiles_as_python_does
from patchcore.errors import DeclarationError, describe_error
from patchcore.objects.modules import is_initializing, loaded_modules, namespace_of
from patchcore.objects.printable import counted
from patchcore.report import APPLIED

if TYPE_CHECKING:
    from patchcore.engine.engine import Engine

__all__ = ["BEGIN", "RewriteWriter", "Rewriter"]

logger = logging.getLogger("patchcore")

#: The function that an edited script calls first.
BEGIN = "patchcore.builtin.rewrite.scripts:begin"

#: Whether the body of a module runs edited code, or has run before.
_EXECUTED, _LOADED = "executed", "loaded"


class RewriteWriter(Writer):
    """Applies changes of the kind :class:`~patchcore.Rewrite`."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._rewriter = Rewriter(engine)

    def write(self, context: WriteContext) -> None:
        application, state = context.application, context.state
        assert isinstance(state.change, Rewrite)
        rules = state.change.found_rules()
        check_packages(rules)
        with self._engine.journal.lock:
            compile_slot = NamespaceSlot(builtins, "compile", "builtins:compile")
            if state.control is not None or not context.write(
                compile_slot, build=self._rewriter.compile_over, rebind=True
            ):
                return
            state.control = self._rewriter.begin(application, state, state.change, rules)
        self._rewriter.follow()


class _File(NamedTuple):
    """A source file whose module runs edited code, or ran it before a revert.

    Args:
        module: its name.
        data: the source that the module was made from.
        originals: the codes of the unedited source, in the order of the source; the first is that of the module.
        places: by code, original or edited: its number in that order.
        loaded: by number, the code object that loaded functions had before they got edited code.
        names: the names that were added to the module for the objects that its edited functions use.
    """

    module: str
    data: bytes
    originals: tuple[CodeType, ...]
    places: dict[CodeType, int]
    loaded: dict[int, CodeType]
    names: set[str]

    @classmethod
    def of(cls, module: str, data: bytes, original: CodeType) -> _File:
        """Return the entry of a module that is about to be edited."""
        originals = tuple(nested(original))
        return cls(module, data, originals, {each: number for number, each in enumerate(originals)}, {}, set())

    def add(self, code: CodeType) -> None:
        """Add the codes of the module after an edit."""
        for number, each in enumerate(nested(code)):
            self.places.setdefault(each, number)

    def meets(self, code: CodeType) -> None:
        """Remember the code object of a function that is about to change; a revert puts the same object back."""
        place = self.places[code]
        if code == self.originals[place]:
            self.loaded.setdefault(place, code)


class Rewriter:
    """Compiles modules for all changes of the kind; a :class:`~patchcore.engine.importing.Compiler`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._active: list[_Rewriting] = []
        self._files: dict[str, _File] = {}  # by path
        self._keeping: list[_Rewriting] = []  # those whose rules keep their results
        self._others: list[_Rewriting] = []
        self._results: Optional[Results] = None  # of these
        self._texts = TextCodes()
        self._caches = _Caches()
        pytests.TESTERS.add(self)

    def compile_over(self, below: Any, slot: Slot) -> Any:
        """Return the ``compile`` for a layer: the function that the first change made does the edits of all changes."""
        if any(type(layer.change) is Rewrite for _, layer in self._engine.journal.makers(below)):
            return below
        return compile_by(self, below)

    def begin(self, application: Application, state: ChangeState, change: Rewrite, rules: Rules) -> _Rewriting:
        """Edit modules by ``rules`` from now on; return the control that ends it."""
        begun = _Rewriting(self, application, state, change, rules)
        self._activate([*self._changes(), begun])
        self._engine.watch.compile_with(self)
        return begun

    def fail(self, culprit: _Rewriting, error: Exception) -> None:
        """Fail the patch of ``culprit``."""
        if culprit is self._caches:
            logger.debug("pytest's bytecode: %s", describe_error(error))
            self._caches.is_off = True
            return
        self._engine.fail(culprit.application, culprit.state, error)

    def end(self, ended: _Rewriting) -> None:
        """Edit modules without ``ended`` from now on, and give loaded functions the code without its edits."""
        self._activate([each for each in self._changes() if each is not ended])
        if not self._active:
            self._engine.watch.compile_with(None)
        self._exchange(self._files)
        if not self._active:
            self._forget()

    def _changes(self) -> list[_Rewriting]:
        """Return the applied changes, without the edit of pytest that goes with them."""
        return [each for each in self._active if each is not self._caches]

    def edits(self, name: str, file: str) -> bool:
        """Return true if the module ``name`` with the source ``file`` may get edited lines; see :mod:`.pytests`."""
        if not self._covers(name, file):
            return False
        rules = _with_words(self._concerned(name, file))
        try:
            with open(file, "rb") as opened:
                return not rules or may_mention(opened.read(), rules)
        except OSError:
            return False

    def _forget(self) -> None:
        """Remove the objects of edited functions from their modules, except where such a function is running."""
        running = {(code.co_filename, code) for code in _running()}
        for path, file in self._files.items():
            edited = [code for code in file.places if code not in file.originals]
            if not any((path, code) in running for code in edited):
                space = namespace_of(sys.modules.get(file.module)) or {}
                for name in file.names:
                    space.pop(name, None)
        self._files = {}

    def follow(self) -> None:
        """Give the functions of loaded modules the code that the applied changes make."""
        found = {}
        for name, module in loaded_modules().items():
            loader = _loader_of(module)
            if loader is None or not self._covers(name, loader.path):
                continue
            if name != "__main__" and is_initializing(module):  # functions that it has yet to define follow at its end
                self._engine.watch.join(name, lambda name, module: self.follow())
            if loader.path in self._files or self._take_up(name, loader):
                found[loader.path] = self._files[loader.path]
        self._exchange(found)

    def _take_up(self, name: str, loader: SourceFileLoader) -> bool:
        """Return true if an applied change may edit the module ``name``, which was imported before the change."""
        try:
            data = loader.get_data(loader.path)
            rules = _with_words(self._concerned(name, loader.path))
            if rules and not may_mention(data, rules):
                return False
            # a script has no bytecode cache, which would be written here
            code = original_code(data, loader.path) if loader.name == "__main__" else loader.get_code(loader.name)
        except (OSError, SyntaxError, ValueError, ImportError):  # its source is gone, or is being edited
            return False
        assert code is not None
        if rules and not mentions(code, rules):
            return False
        self._files[loader.path] = _File.of(name, data, code)
        return True

    def concerns(self, name: str, file: str) -> bool:
        result = None if self._results is None else self._results.get(file)
        if result is NOTHING and not self._others:  # the usual case; this is called for each module that is imported
            return False
        if result is None:
            concerned = self._concerned(name, file)
            if not concerned:
                self._keep(file, stamp_of(file), concerned, None)
            return bool(concerned)
        if result.parts:
            return True
        for number, notes in zip(result.rules, result.notes):  # on the lines that the rules have left alone
            self._keeping[number].noted(file, notes)
        return any(each.concerns(name, file) for each in self._others)

    def _covers(self, name: str, file: str) -> bool:
        return bool(self._concerned(name, file))

    def _concerned(self, name: str, file: str) -> list[_Rewriting]:
        """Return the applied changes that edit the module ``name`` with the source ``file``."""
        return [each for each in self._active if each.concerns(name, file)]

    def _activate(self, changes: Sequence[_Rewriting]) -> None:
        """Edit modules for ``changes`` from now on, in this order."""
        self._active = [*changes, self._caches] if changes else []
        self._keeping = [each for each in changes if each.rules.depends_on]
        self._others = [each for each in changes if not each.rules.depends_on]
        self._results = results_of([(each.change.modules, each.rules) for each in self._keeping])

    def _keep(
        self, path: str, stamp: Optional[Stamp], concerned: Sequence[_Rewriting], edited: Optional[Edited]
    ) -> None:
        """Keep what the changes ``concerned`` did with a source, if all of them keep their results."""
        if self._results is not None and stamp is not None and all(each in self._keeping for each in concerned):
            numbers = [self._keeping.index(each) for each in concerned]
            self._results.put(path, stamp, Result.of(edited, numbers))

    def code_of(self, name: str, loader: SourceFileLoader, *, alone: bool) -> tuple[CodeType, Mapping[str, Any]]:
        path = loader.path
        stamp = stamp_of(path)
        result = None if alone or self._results is None else self._results.get(path)
        code, data = _read(name, loader)
        concerned, edited = self._concerned(name, path), None
        # Another change may edit the module, too: then the result is not used.
        if result is not None and [self._keeping[number] for number in result.rules] == concerned:
            edited = result.edited(code)
        if edited is None:
            rules = _with_words(concerned)
            if rules and not (may_mention(data, rules) and mentions(code, rules)):
                self._keep(path, stamp, concerned, None)
                return code, {}
        file = _File.of(name, loader.get_data(path), code)
        if edited is not None:
            self._note(file, concerned, edited, _EXECUTED)
        else:
            edited = self._edit(file, _EXECUTED, whole=alone)
            if not alone and self._concerned(name, path) == concerned:  # none of them has failed
                self._keep(path, stamp, concerned, edited)
        if edited is None or not edited.parts:
            return code, {}
        self._files[path] = file
        if alone:
            return edited.code, {}
        file.names.update(edited.needs)
        return edited.code, _names(edited)

    def code_of_script(self, file: str, data: bytes) -> Optional[CodeType]:
        """Return the code to run for the script ``file`` with the source ``data``; ``None`` if no change edits it."""
        if not self._covers("__main__", file):
            return None
        try:
            code = original_code(data, file)
        except (SyntaxError, ValueError):  # Python raises the error itself when it compiles the script
            return None
        entry = _File.of("__main__", data, code)
        edited = self._edit(entry, _EXECUTED, first=BEGIN, whole=True)
        if edited is None or not edited.parts:
            return None
        self._files[file] = entry
        return edited.code

    def code_of_text(self, text: Text) -> Optional[CodeType]:
        """Return the code to run for a text that the program compiles; ``None`` if no change edits it."""
        worded = _with_words(self._concerned(text.name, text.place))
        if worded and not any(word in text.source for each in worded for word in each.texts):
            return None
        while True:
            concerned = self._concerned(text.name, text.place)
            rules = [_naming(each) for each in concerned]
            try:
                found = edit_tree(text.name, text.file, text.source, rules, text.parse)
                if found is None:
                    return None
                code = self._texts.compile(text, found.tree, found.source.needs) if any(found.lines) else None
            except (SyntaxError, RecursionError):  # Python raises the error itself when it compiles the text
                return None
            except Exception as error:
                self._blame(concerned, error)
                continue
            for each, lines, notes in zip(concerned, found.lines, found.notes):
                each.noted(text.file, notes)
                each.note(text.file, text.file, lines, frozenset(), _EXECUTED)
            return code

    def _blame(self, concerned: Sequence[_Rewriting], error: Exception) -> None:
        """Fail the change whose rules raised ``error``; if it is not known, the last change."""
        if type(error) is _EditError:
            self.fail(error.culprit, error.error)
        else:
            self.fail(concerned[-1], error)

    def _edit(self, file: _File, when: str, *, first: str = "", whole: bool = False) -> Optional[Edited]:
        """Return a module compiled with the edits of all applied changes; a change whose rules raise fails.

        ``None`` if it has no line that may be edited.

        Args:
            file: of the module.
            when: :data:`_EXECUTED` if the body of the module runs the edited code, :data:`_LOADED` if it has run.
            first, whole: see :func:`patchcore.builtin.rewrite.compiling.edit`.
        """
        path = file.originals[0].co_filename
        while True:
            concerned = self._concerned(file.module, path)
            rules = [_naming(each) for each in concerned]
            try:
                edited = edit(file.module, file.originals[0], file.data, rules, first=first, whole=whole)
                if edited is None:
                    return None
                if [each.co_name for each in nested(edited.code)] != [each.co_name for each in file.originals]:
                    raise DeclarationError(f"rules={concerned[-1].rules!r} added or removed a function in {path}")
            except RecursionError:  # the source is nested too deeply for a tree
                return None
            except Exception as error:  # the import continues, without the changes of that patch
                self._blame(concerned, error)
                continue
            self._note(file, concerned, edited, when)
            return edited

    def _note(self, file: _File, concerned: Sequence[_Rewriting], edited: Edited, when: str) -> None:
        path = file.originals[0].co_filename
        if edited.parts:
            file.add(edited.code)
        for each, lines, notes in zip(concerned, edited.lines, edited.notes):
            each.noted(path, notes)
            each.note(file.module, path, lines, edited.top_level & lines, when)

    def _exchange(self, files: Mapping[str, _File]) -> None:
        """Give every function of ``files``, and of edited texts, the code that the applied changes make."""
        codes: dict[str, dict[CodeType, CodeType]] = {}  # by path: equal codes may come from two files
        needs: dict[str, Mapping[str, Any]] = {}
        for path, file in list(files.items()):
            edited = self._edit(file, _LOADED) if self._covers(file.module, path) else None
            if edited is None or not edited.parts:
                order = [file.loaded.get(place, code) for place, code in enumerate(file.originals)]
            else:
                order, needs[path] = list(nested(edited.code)), _names(edited)
            others = {code: order[place] for code, place in file.places.items() if code != order[place]}
            if others:
                codes[path] = others
        of_texts = self._texts.exchanged(self.code_of_text)
        if not codes and not of_texts:
            return
        for function in _functions({"__main__", *[file.module for file in files.values()]}):
            old = function.__code__
            if id(old) in of_texts:
                function.__code__ = of_texts[id(old)]
                continue
            new = codes[old.co_filename].get(old) if old.co_filename in codes else None
            if new is not None:
                files[old.co_filename].meets(old)
                added = needs.get(old.co_filename, {})
                function.__globals__.update(added)
                files[old.co_filename].names.update(added)
                function.__code__ = new


class _Rewriting:
    """One applied change; see :class:`patchcore.engine.application.Control`."""

    def __init__(
        self, rewriter: Rewriter, application: Application, state: ChangeState, change: Rewrite, rules: Rules
    ) -> None:
        self.application = application
        self.state = state
        self.rules = rules
        self._rewriter = rewriter
        self.change = change
        self._own = getattr(rules.edit, "__module__", "")  # never edited: rules would lose the words they search for
        self._concerns: dict[tuple[str, str], bool] = {}  # by module and file
        self._lines: dict[str, int] = {}  # by module
        self._ran: dict[str, tuple[str, frozenset[int]]] = {}  # by file, the edited lines of the module's top level
        state.status, state.reason = APPLIED, "nothing to edit in the modules that were imported so far"

    def concerns(self, name: str, file: str) -> bool:
        """Return true if the change edits the module called ``name`` with the source ``file``."""
        if not self.application.in_force:
            return False
        known = self._concerns.get((name, file))
        if known is None:
            try:
                known = self._concerns[name, file] = self._covers(name, file)
            except Exception as error:
                self._rewriter.fail(self, error)
                return False
        return known

    def _covers(self, name: str, file: str) -> bool:
        if not self.change.covers_module(name) or name == self._own:
            return False
        return self.rules.concerns is None or bool(self.rules.concerns(name, file))

    def noted(self, file: str, notes: Sequence[Any]) -> None:
        """Hand the notes that the rules have made about a source to the plugin that has the rules."""
        if self.rules.noted is not None:
            try:
                self.rules.noted(file, notes)
            except Exception as error:
                self._rewriter.fail(self, error)

    def note(self, name: str, file: str, lines: frozenset[int], top_level: frozenset[int], when: str) -> None:
        """Record the edited lines of a module, and which of them are at its top level; see ``_edit``."""
        if not lines:
            return
        self._lines[name] = len(lines)
        if top_level and self._ran.get(file, ("",))[0] != _EXECUTED:
            self._ran[file] = when, top_level
        self.state.wrote(name)
        parts = [f"{counted(sum(self._lines.values()), 'line')} in {counted(len(self._lines), 'module')}"]
        for late, (how, some) in self._ran.items():
            if how == _LOADED:
                numbers = f"{counted(len(some), 'line')} at its top level ran before that"
                parts.append(f"{late}: {numbers}; import it later, or use patchcore run")
        self.state.reason = "; ".join(parts)

    def catch_up(self, name: str, module: ModuleType) -> None:
        """Do nothing: :meth:`Rewriter.follow` edits the functions of modules that were imported unnoticed."""

    def withdraw(self) -> list[str]:
        """Give the functions their code back; return remarks on edited lines at the top level that ran."""
        self._rewriter.end(self)
        ran, self._ran = self._ran, {}
        return [
            f"{file}: {counted(len(lines), 'edited line')} ran when the module was imported; what they did stays"
            for file, (how, lines) in ran.items()
            if how == _EXECUTED
        ]


class _Caches(_Rewriting):
    """The edit of pytest that goes with every change: see :mod:`patchcore.builtin.rewrite.pytests`."""

    def __init__(self) -> None:
        self.rules = pytests.CACHES
        self.is_off = False

    def concerns(self, name: str, file: str) -> bool:
        return name == pytests.MODULE and not self.is_off

    def note(self, name: str, file: str, lines: frozenset[int], top_level: frozenset[int], when: str) -> None:
        """Do nothing: the edit is none of the change's own."""


class _EditError(Exception):
    """The rules of the change ``culprit`` raised ``error``."""

    def __init__(self, culprit: _Rewriting, error: Exception) -> None:
        super().__init__(describe_error(error))
        self.culprit = culprit
        self.error = error


def _with_words(concerned: Sequence[_Rewriting]) -> Sequence[Rules]:
    """Return the rules of changes; empty if some of them edit modules without any words."""
    rules = [each.rules for each in concerned]
    return rules if all(each.words for each in rules) else ()


def _naming(rewriting: _Rewriting) -> Rules:
    """Return the rules of a change with functions that raise :class:`_EditError` in place of any error."""

    def naming(function: Callable[..., Iterable[int]]) -> Callable[..., Iterable[int]]:
        def call(*arguments: Any) -> Iterable[int]:
            try:
                return list(function(*arguments))
            except Exception as error:
                raise _EditError(rewriting, error) from error

        return call

    rules = rewriting.rules
    return rules.evolve(edit=naming(rules.edit), find=None if rules.find is None else naming(rules.find))


def _read(name: str, loader: SourceFileLoader) -> tuple[CodeType, bytes]:
    """Return the code of a module, and the data that Python read for it: the bytecode, else the source."""
    found: list[bytes] = []

    def get_data(path: str) -> bytes:
        data = type(loader).get_data(loader, path)
        found.append(data)
        return data

    loader.get_data = get_data  # type: ignore[method-assign]
    try:
        code = loader.get_code(name)
    finally:
        del loader.get_data
    assert code is not None
    return code, found[-1] if found else b""


def _names(edited: Edited) -> Mapping[str, Any]:
    """Return the objects that edited code uses, by the name under which it finds them."""
    return {name: resolve(target) for name, target in edited.needs.items()}


def _loader_of(module: ModuleType) -> Optional[SourceFileLoader]:
    loader: Any = (namespace_of(module) or {}).get("__loader__")
    return loader if compiles_as_python_does(loader) else None


def _running() -> Iterator[CodeType]:
    """Yield the code of every frame that runs or is suspended."""
    for frame in sys._current_frames().values():
        below: Optional[FrameType] = frame
        while below is not None:
            yield below.f_code
            below = below.f_back
    for found in gc.get_objects():
        kind = type(found)
        if kind is GeneratorType:
            yield found.gi_code
        elif kind is CoroutineType:
            yield found.cr_code
        elif kind is AsyncGeneratorType:
            yield found.ag_code


def _functions(modules: set[str]) -> Iterator[FunctionType]:
    """Yield every function of the process; first those of ``modules`` that ``gc.freeze()`` hides."""
    if gc.get_freeze_count():  # gc.freeze() hides earlier objects from gc.get_objects()
        for name in modules:
            yield from _functions_in(namespace_of(sys.modules.get(name)) or {}, set())
    for found in gc.get_objects():
        if type(found) is FunctionType:
            yield found


def _functions_in(space: Mapping[str, Any], seen: set[int]) -> Iterator[FunctionType]:
    for value in list(space.values()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        parts = (value.fget, value.fset, value.fdel) if type(value) is property else (value,)
        for part in parts:
            if type(part) is FunctionType:
                yield part
            elif isinstance(part, type) and id(part) not in seen:
                seen.add(id(part))
                yield from _functions_in(vars(part), seen)
