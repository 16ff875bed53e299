"""Keeps the results of rules in files, from one process to the next, as Python keeps bytecode in ``__pycache__``.

To search the modules of a large library for the words of rules takes some percent of the time of their import; to parse
and compile functions takes longer. Rules that name all that they depend on (``depends_on`` of :class:`patchcore.Rules`)
do this work once. Their results are valid as long as Python, the source (by its size and the time of its last change)
and the files of these packages stay the same.

There is one file for each combination of rules, in ``patchcore/rewrite`` of the user's cache. It contains code that
later processes run, so a folder that other users can enter is not used. A file that is damaged, or of another version
of anything, is not used and is replaced. With ``PYTHONDONTWRITEBYTECODE`` nothing is written.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import logging
import marshal
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple, Optional

from patchcore.builtin.rewrite.changes import Rules
from patchcore.builtin.rewrite.compiling import Edited, Part, with_parts
from patchcore.builtin.shared.files import private_folder, refuse_shared, user_cache, write_whole
from patchcore.declare.target import Target
from patchcore.errors import DeclarationError, describe_error
from patchcore.objects.modules import module_file

__all__ = ["NOTHING", "Result", "Results", "Stamp", "check_packages", "results_of", "stamp_of"]

logger = logging.getLogger("patchcore")

#: Size in bytes and time of the last change in nanoseconds of a file.
Stamp = tuple[int, int]

#: The modules that a rule is for, and the rule.
_Rule = tuple[str, Rules]

#: The most sources in a file. When there are more, those that the present process has not imported are dropped.
_MOST = 50_000
_CHECKSUM_SIZE = 4  # bytes


class Result(NamedTuple):
    """What rules did with one source.

    Args:
        rules: the numbers of those that edit the module; the others leave it alone.
        parts, lines, top_level, needs, notes: see :class:`Edited`; targets as texts.
    """

    rules: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()
    lines: tuple[tuple[int, ...], ...] = ()
    top_level: tuple[int, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()
    notes: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of(cls, edited: Optional[Edited], rules: Sequence[int]) -> Result:
        """Return the result for a source; ``None`` stands for one without a line that may be edited."""
        if edited is None or not (edited.parts or any(edited.notes)):
            return cls()
        needs = tuple((name, str(target)) for name, target in edited.needs.items())
        lines = tuple(tuple(sorted(some)) for some in edited.lines)
        notes = tuple(map(tuple, edited.notes))
        return cls(tuple(rules), tuple(edited.parts), lines, tuple(edited.top_level), needs, notes)

    def edited(self, code: CodeType) -> Optional[Edited]:
        """Return the edited module, from the code that Python has for it; ``None`` if it is not the same code."""
        try:
            for place, part in self.parts:
                _check_same(_code_at(code, place), part)
        except (LookupError, TypeError, ValueError):
            return None
        return Edited(
            with_parts(code, self.parts),
            self.parts,
            [frozenset(some) for some in self.lines],
            frozenset(self.top_level),
            {name: Target.parse(target) for name, target in self.needs},
            self.notes,
        )


#: Most sources have nothing that rules look for.
NOTHING = Result()


def _code_at(code: CodeType, place: Sequence[int]) -> CodeType:
    for number in place:
        code = code.co_consts[number]
        if type(code) is not CodeType:
            raise TypeError
    return code


def _check_same(old: CodeType, new: CodeType) -> None:
    if (old.co_name, old.co_firstlineno, old.co_freevars) != (new.co_name, new.co_firstlineno, new.co_freevars):
        raise ValueError


class Results:
    """The results of one combination of rules, by path of the source.

    Args:
        rules: in the order in which they edit, each with the modules that it is for.
    """

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._version = _version(rules).encode()
        names = "\n".join([sys.prefix, str(importlib.util.MAGIC_NUMBER), *map(_identity, rules)])
        self._name = f"{rules[0][1].edit.__module__}-{zlib.crc32(names.encode()):08x}"
        self._known = self._read()
        self._new: dict[str, tuple[Any, ...]] = {}

    def get(self, path: str) -> Optional[Result]:
        """Return the result for the source ``path`` as it is now; ``None`` if there is none.

        Called for each module that is imported.
        """
        entry = self._known.get(path)
        if entry is None:
            return None
        try:
            found = os.stat(path)
        except OSError:
            return None
        if entry[0] != (found.st_size, found.st_mtime_ns):
            return None
        return NOTHING if len(entry) == 1 else Result(*entry[1:])

    def put(self, path: str, stamp: Stamp, result: Result) -> None:
        """Keep the result for the source ``path``, which had ``stamp`` before it was read."""
        entry = (stamp, *result) if result != NOTHING else (stamp,)
        self._known[path] = self._new[path] = entry

    def write(self) -> None:
        """Add the new results to the file."""
        if not self._new or sys.dont_write_bytecode:
            return
        try:
            path = private_folder(_folder()) / self._name
            entries = {**self._read(), **self._new}
            if len(entries) > _MOST:
                entries = self._known if len(self._known) <= _MOST else self._new
            data = len(self._version).to_bytes(4, "little") + self._version + marshal.dumps(entries)
            write_whole(path, zlib.crc32(data).to_bytes(_CHECKSUM_SIZE, "little") + data)
        except (OSError, RuntimeError, ValueError) as error:  # notes that marshal cannot write are a ValueError
            logger.debug("results of rules are not kept: %s", describe_error(error))
        self._new = {}

    def _read(self) -> dict[str, tuple[Any, ...]]:
        try:
            content = (refuse_shared(_folder()) / self._name).read_bytes()
        except (OSError, RuntimeError) as error:
            logger.debug("results of rules are not read: %s", describe_error(error))
            return {}
        checksum, data = content[:_CHECKSUM_SIZE], content[_CHECKSUM_SIZE:]
        end = 4 + int.from_bytes(data[:4], "little")
        # marshal may end the process on damaged data
        if zlib.crc32(data).to_bytes(_CHECKSUM_SIZE, "little") != checksum or data[4:end] != self._version:
            return {}
        found: dict[str, tuple[Any, ...]] = marshal.loads(data[end:])
        return found


def stamp_of(path: str) -> Optional[Stamp]:
    """Return the stamp of a file; ``None`` if it cannot be read."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


_results: dict[tuple[str, ...], Results] = {}  # of this process, by the rules


def check_packages(rules: Rules) -> None:
    """Check that the packages exist on which the results of ``rules`` depend.

    Raises:
        DeclarationError: one of them does not exist, or has no files.
    """
    for name in rules.depends_on:
        if not _files_of(name):
            raise DeclarationError(f"Rules: depends_on has {name!r}, which is no package or module with a file")


def results_of(rules: Sequence[_Rule]) -> Optional[Results]:
    """Return the results of a combination of rules that name all that they depend on; ``None`` for no rules."""
    if not rules:
        return None
    key = tuple(map(_identity, rules))
    found = _results.get(key)
    if found is None:
        if not _results:
            atexit.register(_write_all)
        found = _results[key] = Results(rules)
    return found


def _write_all() -> None:
    for results in list(_results.values()):
        results.write()


def _identity(rule: _Rule) -> str:
    modules, rules = rule
    functions = [each for each in (rules.edit, rules.find, rules.concerns) if each is not None]
    names = [f"{each.__module__}:{each.__qualname__}" for each in functions]
    return "|".join([modules, *names, *rules.texts, *rules.depends_on])


def _version(rules: Sequence[_Rule]) -> str:
    """Return a text that changes with Python and with the files on which the results depend."""
    packages = dict.fromkeys(name for _, each in rules for name in (*each.depends_on, __name__.rpartition(".")[0]))
    stamps = [f"{path} {stamp_of(path)}" for name in packages for path in _files_of(name)]
    python = f"{sys.version} {importlib.util.MAGIC_NUMBER!r} {sys.flags.optimize}"
    return "\n".join([python, *map(_identity, rules), *stamps])


@functools.cache
def _files_of(name: str) -> Sequence[str]:
    """Return the files of a package or module, without its bytecode."""
    file = module_file(name)
    if file is None:
        return []
    if not os.path.basename(file).startswith("__init__."):
        return [file]
    return sorted(_files_in(os.path.dirname(file)))


def _files_in(folder: str) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if each != "__pycache__"]
        yield from (os.path.join(place, each) for each in files)


def _folder() -> Path:
    return user_cache() / "patchcore" / "rewrite"
