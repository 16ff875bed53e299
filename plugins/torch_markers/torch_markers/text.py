"""The text of a range: JSON, written so that it stays whole wherever it is stored.

Names of ranges end up in files whose writers do not escape them: the chrome trace of ``torch.profiler`` (torch 2.13) is
no JSON any more after a name with a ``"``, and shows a name that is not ASCII as "unknown". So the JSON here has single
quotes, and inside of strings everything but harmless ASCII is percent-encoded UTF-8, as in URLs. An escaping writer and
one that does not escape store it alike.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Optional

__all__ = ["BACKWARD", "LONGEST", "describe", "parse", "quote", "scalar"]

#: How many characters of a string are told; the rest becomes an ellipsis.
LONGEST = 200

#: The first characters of the text of a range of the backward pass, in the place of the brace.
BACKWARD = "{'dir':'bwd',"

_LONGEST_INT = 64  # bits
_UNSAFE = re.compile(r"[^ !#$&(-\[\]-~]")
_ENCODED = re.compile(r"(?:%[0-9A-F]{2})+")


def quote(text: str, longest: int = LONGEST) -> str:
    """Return ``text`` as a string of this kind of JSON.

    Args:
        text: any, unpaired surrogates too.
        longest: the greatest number of characters.
    """
    if len(text) > longest:
        text = text[:longest] + "..."
    return f"'{_UNSAFE.sub(_encoded, text)}'"


def _character(match: re.Match[str]) -> str:
    return bytes.fromhex(match.group().replace("%", "")).decode("utf-8", "surrogatepass")


def _encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match.group().encode("utf-8", "surrogatepass"))


def scalar(value: Any) -> Optional[str]:
    """Return a constant of Python as JSON, ``None`` for anything else; no code of a subclass runs.

    Numbers that JSON has not, such as infinity, and those too long to be worth it, become strings.
    """
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    kind = type(value)  # isinstance would ask for the __class__ of an object, which may be a proxy's
    if issubclass(kind, int):
        small = int.bit_length(value) < _LONGEST_INT
        return int.__repr__(value) if small else f"'{int.bit_length(value)} bits'"
    if issubclass(kind, float):
        return float.__repr__(value) if math.isfinite(value) else f"'{float.__repr__(value)}'"
    if issubclass(kind, str):
        return quote(str.__str__(value))
    return None


def describe(**details: Any) -> str:
    """Return the text of a range from its details; for a value that is no constant, its type.

    Args:
        details: of the range, by key.
    """
    parts = []
    for key, value in details.items():
        told = scalar(value)
        parts.append(f"'{key}':{quote(type(value).__qualname__) if told is None else told}")
    return "{" + ",".join(parts) + "}"


@lru_cache(maxsize=4096)
def _parse(name: str) -> Optional[Mapping[str, Any]]:
    try:
        content = _decoded(json.loads(name.replace("'", '"')))
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _decoded(content: Any) -> Any:
    if isinstance(content, str):
        return _ENCODED.sub(_character, content) if "%" in content else content
    if isinstance(content, list):
        return [_decoded(item) for item in content]
    if isinstance(content, dict):
        return {key: _decoded(value) for key, value in content.items()}
    return content


def parse(name: str) -> Optional[Mapping[str, Any]]:
    """Return the content of a range, ``None`` if ``name`` is no name of a marker.

    Args:
        name: of an event in a trace.
    """
    return _parse(name) if name.startswith("{'") else None
