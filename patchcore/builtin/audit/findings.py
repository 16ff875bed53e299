"""Findings: the patches in this process, whoever made them, with their makers and conflicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, Optional

from patchcore.builtin.audit.chains import Layer, chain_to, contents_of, layers_of, reference_to, repeated
from patchcore.builtin.audit.copies import DATA, Body, Difference
from patchcore.builtin.audit.owners import (
    C_CODE,
    PYTHON,
    UNKNOWN,
    describe_owner,
    inside_of,
    owner_of,
    owner_of_file,
    owner_of_module,
    replaces_python,
    same_distribution,
    version_of_owner,
)
from patchcore.builtin.audit.recorder import Recorder
from patchcore.builtin.audit.rules import imported_owners, normal
from patchcore.builtin.audit.who import Writer, guess, short, writer_of
from patchcore.builtin.audit.writes import Write
from patchcore.builtin.explain.layers import patches_behind
from patchcore.builtin.signatures.signatures import misfit
from patchcore.declare.slots import BodySlot
from patchcore.engine.engine import ENGINE
from patchcore.engine.journal import Record
from patchcore.objects.modules import (
    ABSENT,
    class_namespace,
    is_class,
    is_stub,
    loaded_modules,
    mro_lookup,
    namespace_of,
    qualified_name,
)

__all__ = ["PATCHCORE", "Finding", "Holders", "find", "known_of"]

#: The maker of patches that patchcore applied.
PATCHCORE = "patchcore"

#: Patches of the standard library that general packages make; plugins add those of the libraries that they know.
#: Sources: typing_extensions.py, ``if not hasattr(typing, "TypeVarTuple")``; joblib/externals/loky/backend/
#: synchronize.py, ``SemLock._make_name``; setuptools/_distutils_hack/__init__.py, ``do_override``.
_KNOWN = (
    ("typing_extensions", "typing:_check_generic", "typing_extensions.py"),
    ("typing_extensions", "typing:_collect_*", "typing_extensions.py"),
    ("joblib", "multiprocessing.synchronize:SemLock.*", "joblib/externals/loky/backend/synchronize.py"),
    ("setuptools", "sys.modules['distutils*']", "_distutils_hack/__init__.py"),
)
_MOST_NAMED = 5


class Holders(NamedTuple):
    """Names that still hold the original by value: calls through them do not reach the patch.

    Args:
        number: how many there are.
        some: the first of them, as targets.
    """

    number: int
    some: tuple[str, ...]

    def __str__(self) -> str:
        more = self.number - len(self.some)
        return ", ".join(self.some) + (f" and {more} more" if more else "")


class Finding(NamedTuple):
    """A patch in this process.

    Args:
        target: the patched place, ``package.module:Class.attribute``, or ``sys.modules['name']``.
        kind: ``replaced``, ``added``, ``removed``, ``body`` (``__code__`` or defaults of the function were written) or
            ``module``.
        owner: the distribution that owns the target, see :mod:`patchcore.builtin.audit.owners`.
        by: the distribution that made the patch; ``patchcore`` for a patch of ours.
        before, after: where the code is defined that was there and that is there now.
        writer: the code that made it.
        holders: names that still hold the original.
        patches: the names of our patches that are on the target.
        conflict: why two makers are at odds here; empty if they are not.
        known: the file in which a library makes this patch in every process; empty if it is not a known one.
        follows: the target whose code has this place as a further name, and that has the same code now; empty if there
            is none. A patch of that target reaches this place.
        value, original: the code now and before; for programs.
        inherited: what a class finds in its bases where it had nothing of its own; ``ABSENT`` if there is none.
    """

    target: str
    kind: str
    owner: str
    by: str
    before: str
    after: str
    writer: Writer
    holders: Holders = Holders(0, ())
    patches: tuple[str, ...] = ()
    conflict: str = ""
    known: str = ""
    follows: str = ""
    value: Any = None
    original: Any = None
    inherited: Any = ABSENT

    def to_dict(self) -> dict[str, str]:
        """Return the view for programs: flat, with texts only."""
        layers = self._layers()
        return {
            "target": self.target,
            "kind": self.kind,
            "owner": describe_owner(self.owner),
            "by": self.by if self.by == PATCHCORE else describe_owner(self.by),
            "version": version_of_owner(self.owner),
            "before": self.before,
            "after": self.after,
            "written at": self.writer.place,
            "called from": self.writer.caller,
            "after import": self.writer.after,
            "writer is": "guessed" if self.writer.guessed else "seen" if self.writer.place else "unknown",
            "still original": str(self.holders),
            "patches": ", ".join(self.patches),
            "conflict": self.conflict,
            "known": self.known,
            "replacement": reference_to(self.value, self.target),
            "layers": "\n".join(f"{describe_owner(each.owner)}: {each.reference}" for each in layers),
            "follows": self.follows,
            "imports the target": "yes" if any(map(self._imports_target, layers)) else "",
            "misfit": self._misfit(layers) or "",
            "inherited": "" if self.inherited is ABSENT else _place(self.inherited),
            "contents": "\n".join(self._contents()),
        }

    def _contents(self) -> list[str]:
        """Return what is in a module that was made, see :func:`~patchcore.builtin.audit.chains.contents_of`."""
        is_made = self.kind == "module" and self.original is ABSENT
        return contents_of(self.target[len("sys.modules['") : -len("']")]) if is_made else []

    def _layers(self) -> tuple[Layer, ...]:
        """Return what was put in the place, in order, see :func:`~patchcore.builtin.audit.chains.layers_of`."""
        if self.kind not in ("replaced", "added"):
            return ()
        return layers_of(self.value, self.inherited if self.original is ABSENT else self.original, self.target)

    def _misfit(self, layers: Iterable[Layer]) -> Optional[str]:
        """Return why the new code does not accept every call of the original; nothing if it does."""
        if self.kind != "replaced":
            return None
        in_class = "." in self.target.partition(":")[2]
        bound = in_class and staticmethod not in (type(self.original), type(self.value))
        original = inside_of(self.original)
        found = (misfit(original, inside_of(layer.code), bound=bound) for layer in layers)
        return next(filter(None, found), None)

    def _imports_target(self, layer: Layer) -> bool:
        """True if the module of new code imports the library that is patched, or is a part of a package that does."""
        module = layer.reference.partition(":")[0]
        return any(
            same_distribution(owner, self.owner)
            for name in (module, module.partition(".")[0])
            for owner in imported_owners(name)
        )


def find(recorder: Recorder, known: Iterable[tuple[str, str, str]] = ()) -> tuple[list[Finding], Counter[str]]:
    """Return the patches, and how many differences each rule calls normal.

    Args:
        recorder: the record of this process.
        known: patches that plugins know, see the hook ``known_foreign_patches``.
    """
    differences = recorder.look()
    rules = {difference.place: _rule(difference) for difference in differences}
    patched = [difference for difference in differences if not rules[difference.place]]
    counts = Counter(rule for rule in rules.values() if rule)
    writes = _by_place(recorder.writes.found)
    ours = _ours()
    findings = [_finding(difference, recorder, writes, ours, (*_KNOWN, *known)) for difference in patched]
    holders = _holders(findings, patched)
    homes = {(id(found.original), id(found.value)): found.target for found in findings if _is_at_home(found)}
    for place, found in enumerate(findings):
        home = homes.get((id(found.original), id(found.value)), "")
        follows = home if home != found.target else ""
        findings[place] = found._replace(holders=holders.get(place, found.holders), follows=follows)
    return findings, counts


def _is_at_home(found: Finding) -> bool:
    """True if the original is defined where the patch is."""
    inside = inside_of(found.original) if _is_code(found.original) else None
    if not (type(inside) is FunctionType or is_class(inside)):
        return False
    module, name = qualified_name(inside)
    return found.target == f"{module}:{name}"


def _rule(difference: Difference) -> str:
    """Return the rule by which a difference is normal; a value of patchcore is a patch in any case."""
    value = _function_of(difference) if difference.kind == "body" else difference.now
    return "" if _patches_on(difference, value) else normal(difference)


def _patches_on(difference: Difference, value: Any) -> tuple[str, ...]:
    if not _is_code(value):
        return ()
    if difference.kind == "module" and is_stub(difference.name):
        return ("StubImport",)
    return patches_behind(value)[1]


def _function_of(difference: Difference) -> Any:
    space = namespace_of(difference.owner) if issubclass(type(difference.owner), ModuleType) else None
    value: Any = class_namespace(difference.owner).get(difference.name) if space is None else space.get(difference.name)
    return value.__func__ if type(value) in (staticmethod, classmethod) else value


def _by_place(writes: Sequence[Write]) -> Mapping[tuple[int, str], list[Write]]:
    found: dict[tuple[int, str], list[Write]] = {}
    for write in writes:
        of_body = type(write.owner) is FunctionType
        found.setdefault((id(write.owner), "" if of_body else write.name), []).append(write)
    return found


def _finding(
    difference: Difference,
    recorder: Recorder,
    writes: Mapping[tuple[int, str], list[Write]],
    ours: Mapping[tuple[int, str], Record],
    known: Sequence[tuple[str, str, str]],
) -> Finding:
    value = _function_of(difference) if difference.kind == "body" else difference.now
    patches = _patches_on(difference, value)
    key = (id(value), "") if difference.kind == "body" else (id(difference.owner), difference.name)
    own = owner_of_module(difference.module)
    seen = [write for write in writes.get(key, ()) if not _is_of_owner(writer_of(write), own)]
    home = _home(value, difference) if _is_code(value) else ""
    writer = _writer(difference, seen, home, patches, recorder)
    by = PATCHCORE if patches and not seen else writer.owner
    found = Finding(
        difference.target,
        _kind(difference),
        own,
        by,
        _place(difference.before),
        _place(difference.now),
        writer,
        patches=patches,
        value=value,
        original=difference.before,
        inherited=_inherited(difference),
    )
    states = [state.difference.now for state in recorder.seen.get(difference.place, ())]
    record = ours.get((id(difference.owner), difference.name))
    products = [layer.product for layer in record.layers] if record is not None else []
    earlier = [each for each in (*products, *(write.now for write in seen), *states) if _is_code(each)]
    conflict = _conflict(found, difference, seen, earlier, record)
    return found._replace(conflict=conflict, known=known_of(found._replace(conflict=conflict), known))


def _inherited(difference: Difference) -> Any:
    """Return what the bases of a class have under a name, ``ABSENT`` for nothing."""
    if difference.kind != "name" or not is_class(difference.owner):
        return ABSENT
    return mro_lookup(difference.owner, difference.name, skip_first=True)


def _ours() -> dict[tuple[int, str], Record]:
    """Return the records of patchcore's journal by owner and name of the place."""
    found = {}
    for record in ENGINE.journal:
        slot = record.slot.place if isinstance(record.slot, BodySlot) else record.slot
        if isinstance(slot.key, str) and record.layers:
            found[id(slot.owner), slot.key] = record
    return found


def _is_code(value: Any) -> bool:
    return value is not ABSENT and value is not DATA


def _kind(difference: Difference) -> str:
    if difference.kind != "name":
        return difference.kind
    return "added" if difference.before is ABSENT else "removed" if difference.now is ABSENT else "replaced"


def _is_of_owner(writer: Writer, own: str) -> bool:
    return same_distribution(writer.owner, own)


def _home(value: Any, difference: Difference) -> str:
    if difference.kind == "body":
        return owner_of_file(value.__code__.co_filename)
    return owner_of(value)


def _writer(
    difference: Difference, seen: Sequence[Write], home: str, patches: tuple[str, ...], recorder: Recorder
) -> Writer:
    states = recorder.seen.get(difference.place, ())
    after = states[-1].after if states else ""
    if patches:
        return Writer(PATCHCORE, after=after)
    if seen:
        return writer_of(seen[-1])
    guessed = guess(difference, "" if home in (C_CODE, UNKNOWN) else home)
    is_own = not home or home.startswith((PYTHON, "<")) or same_distribution(home, owner_of_module(difference.module))
    is_new = difference.kind == "module" and difference.before is ABSENT
    maker = UNKNOWN if is_own or is_new else home  # new code is most often the maker's
    if difference.kind == "module" and replaces_python(difference.name, difference.now):
        maker = home
    if guessed is None:
        return Writer(maker, after=after, guessed=True)
    return guessed._replace(after=after, owner=guessed.owner if maker == UNKNOWN else maker)


def _place(value: Any) -> str:
    """Return where code is defined, as a text: ``shop/patches.py:12``."""
    if not _is_code(value):
        return "nothing" if value is ABSENT else "data"
    if type(value) is Body:
        code: CodeType = value.code
        return f"{short(code.co_filename)}:{code.co_firstlineno}"
    inside = inside_of(value)
    if type(inside) is FunctionType:
        return f"{short(inside.__code__.co_filename)}:{inside.__code__.co_firstlineno}"
    if issubclass(type(value), ModuleType):
        return f"module {(namespace_of(value) or {}).get('__name__', '?')}"
    module, name = qualified_name(value)
    if is_class(value) or (type(value) is BuiltinFunctionType and name):
        return f"{module or 'builtins'}.{name}"
    kind = type(value)
    return f"a {kind.__module__}.{kind.__qualname__} object"


def _conflict(
    found: Finding,
    difference: Difference,
    seen: Sequence[Write],
    earlier: Sequence[Any],
    record: Optional[Record],
) -> str:
    """Return why several makers are at odds at one place, empty if there is one maker.

    Args:
        found: the patch.
        difference: the same.
        seen: the writes to the place.
        earlier: the code that was in the place at some time.
        record: of patchcore's journal for the place.
    """
    if difference.kind == "body":
        makers = list(dict.fromkeys(PATCHCORE if w.owner == PATCHCORE else w.owner for w in map(writer_of, seen)))
        if record is not None and PATCHCORE not in makers and makers:
            makers.append(PATCHCORE)
        return _two_owners(makers)
    value, original = difference.now, difference.before
    chain = chain_to(value, original) if _is_code(value) and _is_code(original) else []
    again = [code for code in repeated(chain) if not owner_of_file(code.co_filename).startswith(PYTHON)]
    twice = [f"applied twice: {short(code.co_filename)}:{code.co_firstlineno}" for code in again[:1]]
    values = [*earlier, *([value] if _is_code(value) else []), *chain]
    makers = _makers(values, found)
    if record is not None:
        makers += [maker for maker in (PATCHCORE, *_makers([record.original], found)) if maker not in makers]
    lost = _lost(earlier, value, original) if len(makers) > 1 else None
    lines = [*twice, *filter(None, [_two_owners(makers)])]
    if lost is not None:
        lines.append(f"{_place(lost)} is no longer called")
    return "; ".join(lines)


def _two_owners(makers: Sequence[str]) -> str:
    named = (maker if maker == PATCHCORE else describe_owner(maker) for maker in makers)
    return f"two owners: {' and '.join(named)}" if len(makers) > 1 else ""


def _makers(values: Iterable[Any], found: Finding) -> list[str]:
    """Return the distributions that have put code in a place: those that define it, and patchcore."""
    makers: list[str] = []
    for value in values:
        home = PATCHCORE if patches_behind(value)[1] else owner_of(value)
        is_general = home in (C_CODE, UNKNOWN) or home.startswith(PYTHON) or same_distribution(home, found.owner)
        if not is_general and not any(same_distribution(home, maker) for maker in makers):
            makers.append(home)
    return makers


def _lost(earlier: Sequence[Any], value: Any, original: Any) -> Optional[Any]:
    """Return code that was in the place and that the code now does not call, ``None`` if there is none."""
    for each in earlier:
        if each is not value and each is not original and not chain_to(value, each):
            return each
    return None


def known_of(found: Finding, known: Iterable[tuple[str, str, str]]) -> str:
    """Return the source of a known patch that ``found`` is, empty if it is none."""
    if found.conflict:
        return ""
    for by, target, source in known:
        if found.by == by and fnmatchcase(found.target.replace("[", "<"), target.replace("[", "<")):
            return source
    return ""


def _holders(findings: Sequence[Finding], differences: Sequence[Difference]) -> dict[int, Holders]:
    """Return the names that still hold originals, by place in ``findings``."""
    wanted: dict[int, list[int]] = {}
    for place, difference in enumerate(differences):
        before = difference.before
        if difference.kind == "name" and _is_code(before):
            wanted.setdefault(id(before), []).append(place)
    names: dict[int, list[str]] = {}
    for module, loaded in loaded_modules().items() if wanted else ():
        owner = ""
        for name, value in list((namespace_of(loaded) or {}).items()):
            for place in wanted.get(id(value), ()):
                owner = owner or owner_of_module(module)
                if not same_distribution(owner, findings[place].by):  # it keeps the original to call it
                    names.setdefault(place, []).append(f"{module}:{name}")
    return {place: Holders(len(found), tuple(found[:_MOST_NAMED])) for place, found in names.items()}
