"""Read the report file of a process: a regular file, not too large, in which every field is what readers expect."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from patchcore.builtin.run.news import add_news, news_of
from patchcore.builtin.run.roles import LAUNCHER, MAIN, RANK, WORKER
from patchcore.builtin.run.schema import (
    Malformed,
    Shape,
    flag,
    integer,
    list_of,
    number,
    one_of,
    optional,
    plain,
    record,
    table_of,
    text,
)
from patchcore.process import MOST_RANKS
from patchcore.report import APPLIED, FAILED, PENDING, REVERTED, SCHEMA_VERSION, SKIPPED

__all__ = ["LARGEST", "MANIFEST", "read_report"]

#: Bytes; the report of a process with 10,000 patches has about 10 million.
LARGEST = 256 * 1024 * 1024

_COUNT = integer(0, 2**63)
_TIME = number(0, 253402300799)  # seconds since the epoch, to the end of the year 9999, the last that Python has
_SPELL = number(-1e11, 1e11)  # seconds
_TEXTS = list_of(text)
_STATUS = one_of(APPLIED, PENDING, SKIPPED, FAILED, REVERTED)
_ORIGIN = {"plugin": text, "distribution": optional(text), "version": optional(text)}


def _change(value: Any) -> None:
    """Expect a change as a manifest writes it: ``replace shop:price <- shop_npu:price``."""
    text(value)
    if " " not in value:
        raise Malformed(f"expected a kind of change, a space and a target, found {value[:60]!r}")


#: What :func:`patchcore.builtin.manifest.make_manifest` returns.
MANIFEST: Shape = record(
    {
        "patchcore": text,
        "python": text,
        "libraries": table_of(optional(text)),
        "files": table_of(optional(text)),
        "patches": table_of(
            record(
                {
                    "verdict": text,
                    "reason": text,
                    "changes": list_of(_change),
                    "options": table_of(text),
                    "contributed by": text,
                    "file": optional(text),
                }
            )
        ),
    }
)

_CHANGE = record(
    {
        "kind": text,
        "target": text,
        "status": _STATUS,
        "reason": text,
        "slots": _TEXTS,
        "rebound": _TEXTS,
        "kept": _TEXTS,
        "unreachable": _TEXTS,
    },
    may_have={"calls": optional(_COUNT), "replaced": optional(_COUNT), "missed": text},
)

_PATCH = record(
    {
        "name": text,
        "status": _STATUS,
        "reason": text,
        "changes": list_of(_CHANGE),
        "remarks": _TEXTS,
        **_ORIGIN,
    },
    may_have={"asked_for": flag},
)

_NEWS = record({"written": _TIME, "patch": _PATCH})

_PLACE = record({"name": text, "file": optional(text), "line": optional(_COUNT)})

_REPORT = record(
    {
        "run": text,
        "role": one_of(MAIN, LAUNCHER, RANK, WORKER),
        "finished": flag,
        "written": _TIME,
        "summary": text,
        "digest": text,
        "manifest": MANIFEST,
        "environment": record(
            {
                "host": text,
                "pid": integer(0, 2**32),
                "rank": integer(0, MOST_RANKS - 1),
                "ranks": integer(0, MOST_RANKS),
                "name": text,
                "program": text,
            },
            may_have={"parent": integer(0, 2**32), "python": text, "executable": optional(text), "directory": text},
        ),
        "patches": list_of(_PATCH),
        "problems": list_of(record({"where": text, "message": text, "traceback": text, **_ORIGIN})),
        "notes": _TEXTS,
        "sections": list_of(
            record({"title": text, "lines": _TEXTS, "mark": text, "data": plain}, may_have={"counts": text})
        ),
    },
    may_have={
        "arguments": _TEXTS,
        "settings": list_of(record({"name": text, "value": text, "origin": text})),
        "layers": list_of(
            record(
                {
                    "target": text,
                    "original": _PLACE,
                    "layers": list_of(record({"patch": optional(text), "kind": text, "place": _PLACE, **_ORIGIN})),
                }
            )
        ),
        "timeline": record(
            {
                "started": _TIME,
                "left_out": _COUNT,
                "events": list_of(
                    record({"at": _SPELL, "took": optional(_SPELL), "kind": text, "subject": text, "detail": text})
                ),
            }
        ),
    },
)


def read_report(path: Path) -> dict[str, Any]:
    """Return the content of a report file, with the news beside it that it does not have.

    Raises:
        OSError: it cannot be opened or read.
        Malformed: it is no regular file, too large, no JSON, of another version, or a field has not its shape.
    """
    try:
        news = _read(news_of(path))
    except FileNotFoundError:
        news = b""
    content = _parse(_read(path))  # after its news, which are removed when the report has them
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION or isinstance(version, (bool, float)):
        _refuse_version(content, version)
    _REPORT(content)
    found: dict[str, Any] = content
    lines = list(_whole_lines(news))
    list_of(_NEWS)(lines)
    add_news(found, lines)
    return found


def _whole_lines(news: bytes) -> Iterator[Any]:
    """Yield what lines of news say, but for those that were not written to their end: the process was killed."""
    for line in news.splitlines():
        try:
            yield _parse(line)
        except Malformed:
            continue


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise Malformed("is no report of a process: lists and tables are nested too deeply") from None
    except Malformed:
        raise
    except ValueError as error:  # not UTF-8, not JSON, a number with thousands of digits
        raise Malformed(f"is no report of a process: {type(error).__name__}: {error}") from error


def _read(path: Path) -> bytes:
    """Return the content of a regular file. A pipe is not waited for, and a device is not opened."""
    _expect_regular(os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        _expect_regular(os.fstat(descriptor))  # somebody may have put another one in its place
        content = file.read(LARGEST + 1)  # files of /proc have more in them than their size
    if len(content) > LARGEST:
        raise Malformed(_TOO_LARGE)
    return content


_TOO_LARGE = f"is larger than {LARGEST >> 20} MiB, which no report of a process is"


def _expect_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Malformed("is not a regular file")
    if status.st_size > LARGEST:
        raise Malformed(_TOO_LARGE)


def _refuse_constant(name: str) -> NoReturn:
    raise Malformed(f"is no report of a process: {name} is not a JSON value")


def _refuse_version(content: Any, version: Any) -> NoReturn:
    if not isinstance(content, dict):
        raise Malformed("is no report of a process: expected a table")
    record({"schema_version": integer(0, 2**31)})({"schema_version": version})
    raise Malformed(f"has schema_version {version}, this patchcore reads {SCHEMA_VERSION}")
