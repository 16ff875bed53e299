"""Rules for changing names, arguments and texts. They are data, from TOML files of this plugin, of others and of users.

[[rule]]
id = "cuda.namespace"
kind = "attr"
match = ["torch.cuda.synchronize", "torch.cuda.amp.*"]
replace = "torch.npu.*"      # a * stands for the part after the last dot of a name, or the part that * of match met
level = "auto"               # or review, unsupported, unknown, precision, performance: reported, not rewritten
except = ["torch.cuda.amp.common"]
note = "the advice"
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Optional, Union

from patchcore import SettingsError
from patchcore.plugin import did_you_mean

__all__ = ["KINDS", "RULE_LEVELS", "VALUES", "Rule", "RuleTable", "built_in_rules", "read_rules"]

#: The subjects of rules.
KINDS = {
    "attr": "a qualified name, wherever it is used",
    "call": "a call of a qualified name; with keywords, only a call that has one of these keywords; "
    "the argument at position stays as it is",
    "import": "the import of a module or of anything in it",
    "method": "a call of a method, by its name, on an object whose type is not known",
    "member": "an attribute that is read, by its name, on an object whose type is not known",
    "device_arg": "arguments of a qualified name, or of a .method, that hold a device or what `value` says",
    "device_kw": "keywords that hold a device or what `value` says, in calls of everything below a qualified name",
    "env": "an environment variable",
    "compare": "what is compared with a device or backend: a name, an attribute, a .method() or a qualified name",
    "argparse_default": "default and choices of command line options",
    "config": "an entry of a dictionary, given as dictionary.key",
    "string": "a text that is nothing but this word, left over by all other rules",
    "text": "a regular expression, in files that are not Python, which `files` names",
    "kernel": "an operator of a compiled module, by its qualified name; level auto where NPUs have it",
    "operator": "operators of C++ and CUDA sources, by patterns of their names",
}
RULE_LEVELS = ("auto", "review", "unsupported", "unknown", "precision", "performance")

#: The kinds of value of an argument.
VALUES = ("device", "backend", "tensor_type")
_REWRITING = {"attr", "import", "method", "member", "env"}  # kinds whose level auto asks for `replace`
_TEXTS = ("id", "kind", "level", "replace", "value", "note")
_LISTS = ("match", "keywords", "except", "files")
_FIELDS = (*_TEXTS, *_LISTS, "position")
_FOLDER = Path(__file__).with_name("rules")


@dataclass(frozen=True)
class Rule:
    """One row of the table; see :data:`KINDS`.

    Args:
        id: its name, unique in a table.
        kind: of its subject.
        match: the names it is about.
        level: ``auto`` to rewrite, else the level of the finding.
        replace: the new name.
        position: which positional argument it is about, from 0 and not counting ``self``.
        keywords: which keyword arguments it is about.
        value: the kind of value of the arguments, one of :data:`VALUES`.
        exclude: names that ``match`` meets and the rule is not about; ``except`` in TOML.
        files: patterns of file names.
        note: the advice.
        source: the file or plugin it comes from.
    """

    id: str
    kind: str
    match: tuple[str, ...]
    level: str = "auto"
    replace: Optional[str] = None
    position: Optional[int] = None
    keywords: tuple[str, ...] = ()
    value: str = "device"
    exclude: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    note: str = ""
    source: str = ""

    def is_about(self, name: str) -> bool:
        """Return whether ``exclude`` lets a name through."""
        return not any(name == other or _below(other, name) for other in self.exclude)

    def renamed(self, name: str) -> str:
        """Return the new name for a name that the rule matches."""
        assert self.replace is not None
        prefixes = [other[:-1] for other in self.match if _below(other, name)]
        rest = name[len(max(prefixes, key=len)) :] if prefixes and name not in self.match else name.rpartition(".")[2]
        return self.replace.replace("*", rest)


def built_in_rules() -> tuple[Rule, ...]:
    """Return the rules of this plugin."""
    return tuple(rule for path in sorted(_FOLDER.glob("*.toml")) for rule in read_rules(path))


def read_rules(source: Union[str, Path, Mapping[str, Any]], origin: str = "") -> tuple[Rule, ...]:
    """Return the rules of a TOML file, or of a table as it is in one.

    Args:
        source: the path of the file, or the table.
        origin: who gives it, for messages.

    Raises:
        SettingsError: the file cannot be read, or a rule is not one; the message names file, rule and key.
    """
    if isinstance(source, Mapping):
        where, content = origin or "a table", source
    else:
        where, content = f"{source}{f' ({origin})' if origin else ''}", _parse(Path(source))
    unknown = [key for key in content if key != "rule"]
    if unknown:
        raise SettingsError(
            f"{where}: rules are [[rule]] tables, found {unknown[0]!r}{did_you_mean(unknown[0], ['rule'])}"
        )
    rows = content.get("rule", [])
    if not isinstance(rows, (list, tuple)) or not all(isinstance(row, Mapping) for row in rows):
        raise SettingsError(f"{where}: rules are [[rule]] tables, found rule = {rows!r}")
    return tuple(_make(row, f"{where}, rule {row.get('id', number)}", where) for number, row in enumerate(rows, 1))


def _parse(path: Path) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"the rules in {path} cannot be read: {error}") from error


def _make(row: Mapping[str, Any], where: str, source: str) -> Rule:
    for key, value in row.items():
        if key not in _FIELDS:
            raise SettingsError(
                f"{where}: a rule has no {key!r}{did_you_mean(key, _FIELDS)}; it has {', '.join(_FIELDS)}"
            )
        _check_type(key, value, where)
    for key in ("id", "kind", "match"):
        if not row.get(key):
            raise SettingsError(f"{where}: {key} is missing")
    values = {key: row[key] for key in (*_TEXTS, "position") if key in row}
    lists: dict[str, Any] = {
        key: (row[key],) if isinstance(row[key], str) else tuple(row[key]) for key in _LISTS if key in row
    }
    lists["exclude"] = lists.pop("except", ())
    rule = Rule(**values, **lists, source=source)
    for key, known in (("kind", tuple(KINDS)), ("level", RULE_LEVELS), ("value", VALUES)):
        found = getattr(rule, key)
        if found not in known:
            raise SettingsError(
                f"{where}: {key} is {found!r}, expected one of {', '.join(known)}{did_you_mean(found, known)}"
            )
    if rule.kind in _REWRITING and rule.level == "auto" and not rule.replace:
        raise SettingsError(f"{where}: a rule that rewrites ({rule.kind}, level auto) needs replace")
    if rule.kind == "device_arg" and rule.position is None and not rule.keywords:
        raise SettingsError(f"{where}: device_arg needs position, keywords or both")
    if rule.kind == "text":
        _check_patterns(rule, where)
    return rule


def _check_type(key: str, value: Any, where: str) -> None:
    if key == "position":
        good, expected = isinstance(value, int) and not isinstance(value, bool) and value >= 0, "a number from 0"
    elif key in _LISTS:
        good = isinstance(value, str) or (
            isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
        )
        expected = "a text or a list of texts"
    else:
        good, expected = isinstance(value, str), "a text"
    if not good:
        raise SettingsError(f"{where}: {key} is {value!r}, expected {expected}")


def _check_patterns(rule: Rule, where: str) -> None:
    if not rule.files:
        raise SettingsError(f"{where}: a rule about text needs files")
    for pattern in rule.match:
        try:
            re.compile(pattern)
        except re.error as error:
            raise SettingsError(f"{where}: {pattern!r} is not a regular expression: {error}") from error


class RuleTable:
    """The rules of one run, found by the names that they match. Immutable; it can be sent to other processes.

    Args:
        rules: a later one takes the place of an earlier one with the same id.
        disable: ids that are left out; ``cuda.*`` for all that start so.

    Raises:
        SettingsError: ``disable`` names no rule.
    """

    def __init__(self, rules: Iterable[Rule], disable: Iterable[str] = ()) -> None:
        by_id = {rule.id: rule for rule in rules}
        for name in disable:
            gone = [id for id in by_id if id == name or _below(name, id)]
            if not gone:
                raise SettingsError(f"no rule has the id {name!r}{did_you_mean(name, list(by_id))}")
            for id in gone:
                del by_id[id]
        self.rules = tuple(by_id.values())

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __reduce__(self) -> Any:
        return RuleTable, (self.rules,)

    def of_kind(self, kind: str) -> tuple[Rule, ...]:
        """Return the rules of one kind, in their order."""
        return self._by_kind.get(kind, ())

    def find(self, kind: str, name: str) -> Optional[tuple[Rule, str]]:
        """Return the rule of ``kind`` for a qualified name or its beginning, and the part that the rule is about.

        The longest part wins; ``package.*`` is about everything below the package and not about the package itself.
        """
        exact, below = self._names.get(kind, ({}, {}))
        end = len(name)
        while end > 0:
            part = name[:end]
            if end < len(name):
                rule = below.get(part)
                if rule is not None and rule.is_about(name):
                    return rule, name
            rule = exact.get(part)
            if rule is not None and rule.is_about(name):
                return rule, part
            end = name.rfind(".", 0, end)
        return None

    def about(self, kind: str, name: str) -> tuple[Rule, ...]:
        """Return all rules of ``kind`` that match exactly this text."""
        return self._exact.get((kind, name), ())

    def names_of(self, kind: str) -> frozenset[str]:
        """Return the names that the rules of one kind match."""
        return frozenset(name for rule in self.of_kind(kind) for name in rule.match)

    def translate(self, name: str) -> str:
        """Return a qualified name as the rules rewrite it; itself if none does."""
        found = self.find("attr", name)
        if found is None or found[0].level != "auto":
            return name
        rule, part = found
        return rule.renamed(part) + name[len(part) :]

    def may_be_about(self, source: str) -> bool:
        """Return whether any rule about Python can match in a source; none has in most files of a project."""
        words = set(re.findall(r"\w+", source))
        return any(needed <= words for needed in self._needed)

    @cached_property
    def _needed(self) -> tuple[frozenset[str], ...]:
        """The words without which rules have nothing to say, a set for each name that they match."""
        found = {frozenset(("cuda",)), frozenset(("nccl",))}
        for rule in self.rules:
            if rule.kind in ("attr", "call", "import", "method", "member", "env", "string", "kernel"):
                names = (frozenset(re.findall(r"\w+", name)) for name in rule.match)
                found.update(name for name in names if not name & {"cuda", "nccl"})
        return tuple(sorted(found, key=sorted))

    @cached_property
    def _by_kind(self) -> dict[str, tuple[Rule, ...]]:
        return {kind: tuple(rule for rule in self.rules if rule.kind == kind) for kind in KINDS}

    @cached_property
    def _exact(self) -> dict[tuple[str, str], tuple[Rule, ...]]:
        found: dict[tuple[str, str], tuple[Rule, ...]] = {}
        for rule in self.rules:
            for name in rule.match:
                found[rule.kind, name] = (*found.get((rule.kind, name), ()), rule)
        return found

    @cached_property
    def _names(self) -> dict[str, tuple[dict[str, Rule], dict[str, Rule]]]:
        found: dict[str, tuple[dict[str, Rule], dict[str, Rule]]] = {}
        for rule in self.rules:
            exact, below = found.setdefault(rule.kind, ({}, {}))
            for name in rule.match:
                if name.endswith(".*"):
                    below[name[:-2]] = rule
                else:
                    exact[name] = rule
        return found


def _below(pattern: str, name: str) -> bool:
    """Return whether ``name`` is below ``package.*``."""
    return pattern.endswith(".*") and name.startswith(pattern[:-1])
