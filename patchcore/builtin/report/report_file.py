"""Read the report file of a process: a regular file, not too large, in which every field has the expected type.

The classes that a process writes its report with (:class:`patchcore.report.PatchRecord` and others) are those that
msgspec checks a file against. Only readers load msgspec: a process of a run does not.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Optional, get_args, get_origin, get_type_hints

import msgspec

from patchcore import __version__
from patchcore.builtin.explain.layers import TargetRecord
from patchcore.builtin.report.news import add_news
from patchcore.builtin.run.process_report import news_of
from patchcore.builtin.run.roles import LAUNCHER, MAIN, RANK, WORKER
from patchcore.builtin.shared.manifest import Manifest
from patchcore.objects.printable import printable
from patchcore.process import MOST_RANKS
from patchcore.report import (
    APPLIED,
    FAILED,
    PENDING,
    REVERTED,
    SCHEMA_VERSION,
    SKIPPED,
    PatchRecord,
    Problem,
    Section,
)

__all__ = ["LARGEST", "SHARED_PARTS", "Malformed", "SharedLines", "read_report"]

#: Bytes; the report of a process with 10,000 patches has about 10 million.
LARGEST = 256 * 1024 * 1024

#: How deep lists and tables of a plugin's data may be in each other. Python writes no JSON that is much deeper.
_DEEPEST = 64

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_ProcessId = Annotated[int, msgspec.Meta(ge=0, le=2**32)]
_Time = Annotated[float, msgspec.Meta(ge=0, le=253402300799)]  # seconds since the epoch; Python's last year is 9999
_Seconds = Annotated[float, msgspec.Meta(ge=-1e11, le=1e11)]


class Malformed(ValueError):
    """A file is not the report of a process."""


#: Limits of fields that their annotations do not have: readers calculate with these.
_LIMITS: dict[str, Any] = {
    "role": Literal[MAIN, LAUNCHER, RANK, WORKER],
    "status": Literal[APPLIED, PENDING, SKIPPED, FAILED, REVERTED],
    "calls": Optional[_Count],
    "replaced": Optional[_Count],
    "line": Optional[_Count],
}


class _Environment(NamedTuple):
    host: str
    pid: _ProcessId
    rank: Annotated[int, msgspec.Meta(ge=0, lt=MOST_RANKS)]
    ranks: Annotated[int, msgspec.Meta(ge=0, le=MOST_RANKS)]
    name: str
    program: str
    parent: _ProcessId
    python: str
    executable: Optional[str]
    directory: str


class _Job(NamedTuple):
    """See :meth:`patchcore.builtin.run.process_report.ProcessReport.describe`."""

    group: str = ""
    generation: _Count = 0
    clock: _Seconds = 0.0
    restart: Optional[_Count] = None
    local_rank: Optional[_Count] = None
    meeting: str = ""
    name: str = ""
    engine: str = ""


class _Setting(NamedTuple):
    name: str
    value: str
    origin: str


class _Event(NamedTuple):
    at: _Seconds
    took: Optional[_Seconds]
    kind: str
    subject: str
    detail: str


class _Timeline(NamedTuple):
    started: _Time
    events: list[_Event]
    left_out: _Count


class _Report(NamedTuple):
    schema_version: int
    run: str
    role: str
    finished: bool
    written: _Time
    summary: str
    digest: str
    manifest: Manifest
    environment: _Environment
    patches: list[PatchRecord]
    problems: list[Problem]
    notes: list[str]
    sections: list[Section]
    never_hit: list[str]
    arguments: list[str]
    settings: list[_Setting]
    layers: list[TargetRecord]
    timeline: _Timeline
    error: str = ""
    job: _Job = _Job()
    identity: str = ""
    machine: str = ""


class _News(NamedTuple):
    written: _Time
    patch: PatchRecord


def _schema(kind: Any, without: Container[str] = ()) -> Any:
    """Return the type that msgspec checks a JSON value against.

    A named tuple is an object in the files of a run, where msgspec would expect an array. Fields with a default may be
    missing, and those ``without``.
    """
    if hasattr(kind, "_field_defaults"):
        types, defaults = {**get_type_hints(kind, include_extras=True), **_LIMITS}, kind._field_defaults
        fields: list[Any] = []
        for name in (name for name in kind._fields if name not in without):
            schema, default = _schema(types[name]), defaults.get(name)
            if hasattr(default, "_field_defaults"):  # a record of defaults
                fields.append((name, schema, msgspec.field(default_factory=schema)))
            else:
                fields.append((name, schema, default) if name in defaults else (name, schema))
        return msgspec.defstruct(kind.__name__, fields)
    origin, arguments = get_origin(kind), get_args(kind)
    if not arguments or origin is Annotated or origin is Literal:
        return kind
    return origin[tuple(map(_schema, arguments))]


#: The keys whose values are equal in most processes of a run. They are nearly all of a report.
SHARED_PARTS = ("arguments", "layers", "manifest", "never_hit", "notes", "patches", "problems", "sections", "settings")

_REPORT = _schema(_Report)
_OWN = _schema(_Report, without=SHARED_PARTS)
_SHARED_TYPES = {key.encode(): _schema(get_type_hints(_Report, include_extras=True)[key]) for key in SHARED_PARTS}
_NEWS = _schema(list[_News])


#: The values of shared keys by the line of a file that has them.
SharedLines = dict[bytes, Any]


def read_report(path: Path, lines: Optional[SharedLines] = None, *, events: bool = True) -> dict[str, Any]:
    """Return the content of a report file, with the news beside it that it does not have.

    A field that this patchcore does not know is left out.

    Args:
        path: of the file.
        lines: of the files that were read before; a line that one of them has is not parsed again, and its value is the
            same object. Do not change it.
        events: keep the events of the timeline. In a run of thousands of processes they take most of the memory.

    Raises:
        OSError: it cannot be opened or read.
        Malformed: it is no regular file, too large, no JSON, of another version, or a field is not what it should be.
    """
    try:
        news = _read(news_of(path))
    except FileNotFoundError:
        news = b""
    data = _read(path)  # after its news, which are removed when the report has them
    found = _read_lines(data, {} if lines is None else lines)
    if found is None:
        found = _read_whole(data)
    add_news(found, _checked(list(_whole_lines(news)), _NEWS))
    if not events:
        found["timeline"]["events"] = []
    return found


def _read_lines(data: bytes, known: SharedLines) -> Optional[dict[str, Any]]:
    """Return the content of a file that has each key on a line of its own, as processes write it; ``None`` for others.

    Equal lines are parsed once: between two ranks of a job a few short lines differ.
    """
    first, *body, end, rest = data.split(b"\n") if data.endswith(b"\n}\n") else (b"", b"", b"")
    if (first, end, rest) != (b"{", b"}", b""):
        return None
    own: list[bytes] = []
    shared: dict[str, Any] = {}
    try:
        for line in body:
            line = line.removesuffix(b",")
            key = line[1:].partition(b'"')[0]
            if key not in _SHARED_TYPES:
                own.append(line)
                continue
            if line not in known:
                value = _checked(next(iter(_parse(b"{%s}" % line).values())), _SHARED_TYPES[key])
                for section in value if key == b"sections" else ():
                    _refuse_odd(section["data"], _DEEPEST)
                known[line] = value
            shared[key.decode()] = known[line]
        content = msgspec.to_builtins(msgspec.json.decode(b"{%s}" % b",".join(own), type=_OWN))
    except (msgspec.MsgspecError, ValueError, RecursionError):  # the whole file is parsed for a message that says where
        return None
    if len(shared) < len(SHARED_PARTS) or content["schema_version"] != SCHEMA_VERSION:
        return None
    return {**content, **shared}


def _read_whole(data: bytes) -> dict[str, Any]:
    content = _parse(data)
    if isinstance(content, dict) and content.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise Malformed(f"has schema_version {content['schema_version']!r}, this patchcore reads {SCHEMA_VERSION}")
    found: dict[str, Any] = _checked(content, _REPORT)
    for section in found["sections"]:
        _refuse_odd(section["data"], _DEEPEST)
    return found


def _checked(content: Any, kind: Any) -> Any:
    """Return plain dictionaries and lists that have every field of the records of ``kind``."""
    try:
        return msgspec.to_builtins(msgspec.convert(content, kind))
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # the second: a text has half of a surrogate pair
        raise Malformed(printable(f"is not what patchcore {__version__} writes: {error}")) from None
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None


def _refuse_odd(data: Any, depth: int) -> None:
    """Raise for data of a plugin that cannot be written as JSON again, or printed."""
    if isinstance(data, (list, dict)):
        if not depth:
            raise Malformed(_TOO_DEEP)
        for element in data.values() if isinstance(data, dict) else data:
            _refuse_odd(element, depth - 1)
    elif isinstance(data, (int, float)) and not -(2.0**63) <= data <= 2.0**63:
        raise Malformed("is no report of a process: a section has a number that is not between -2**63 and 2**63")


def _whole_lines(news: bytes) -> Iterator[Any]:
    """Yield the content of lines of news, except lines that were not written to their end: the process was killed."""
    for line in news.splitlines():
        try:
            yield _parse(line)
        except Malformed:
            continue


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None
    except Malformed:
        raise
    except ValueError as error:  # not UTF-8, not JSON, a number with thousands of digits
        raise Malformed(f"is no report of a process: {type(error).__name__}: {error}") from error


def _read(path: Path) -> bytes:
    """Return the content of a regular file. A pipe is not waited for, and a device is not opened."""
    _expect_regular(os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        _expect_regular(os.fstat(descriptor))  # the file may have been replaced meanwhile
        content = file.read(LARGEST + 1)  # files of /proc have more in them than their size
    if len(content) > LARGEST:
        raise Malformed(_TOO_LARGE)
    return content


_TOO_DEEP = "is no report of a process: lists and tables are nested too deeply"
_TOO_LARGE = f"is larger than {LARGEST >> 20} MiB, which no report of a process is"


def _expect_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Malformed("is not a regular file")
    if status.st_size > LARGEST:
        raise Malformed(_TOO_LARGE)


def _refuse_constant(name: str) -> NoReturn:
    raise Malformed(f"is no report of a process: {name} is not a JSON value")
