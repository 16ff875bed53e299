"""Lists the lines of the program that have led to a call.

Frames of torch and of the markers are left out. A line is looked up once per place in the code, and the frames outside
of a module's call once per call of the module, so that most calls look at a few frames only. Imported when markers are
applied: needs torch.
"""

from __future__ import annotations

import os
from types import CodeType, FrameType
from typing import Any, NamedTuple, Optional

import torch

import patchcore
from torch_markers.text import LONGEST, quote

__all__ = ["callers"]

_SKIPPED = (
    *(os.path.dirname(os.path.abspath(str(path))) + os.sep for path in (torch.__file__, patchcore.__file__, __file__)),
    *("<frozen ", "<string>"),
)
#: Modules of the interpreter that only pass calls on.
_PASSING = ("threading.py", "runpy.py", "contextlib.py", "functools.py")


class _Code(NamedTuple):
    code: CodeType  # keeps its identity from being used again
    file: str
    texts: Optional[dict[int, str]]  # by instruction; None for code that is left out


_codes: dict[int, _Code] = {}


def callers(frame: Optional[FrameType], inside: Any) -> str:
    """Return the lines of ``frame`` and its callers, outermost first, each as a string with a comma after it.

    Args:
        frame: the innermost.
        inside: the scope of the module whose call is the innermost around, ``None`` for none.
    """
    anchor = None if inside is None else inside.frame
    found = []
    while frame is not None and frame is not anchor:
        code = frame.f_code
        known = _codes.get(id(code))
        if known is None:
            known = _learn(code)
        if known.texts is not None:
            text = known.texts.get(frame.f_lasti)
            if text is None:
                place = f"{known.file}:{frame.f_lineno}"
                text = known.texts[frame.f_lasti] = quote(place, longest=2 * LONGEST) + ","
            found.append(text)
        frame = frame.f_back
    found.reverse()
    lines = "".join(found)
    return lines if anchor is None or frame is None else inside.callers + lines


def _learn(code: CodeType) -> _Code:
    file = code.co_filename
    passing = os.path.dirname(file) == _LIBRARY and os.path.basename(file) in _PASSING
    skipped = file.startswith(_SKIPPED) or passing
    known = _codes[id(code)] = _Code(code, file, None if skipped else {})
    return known


_LIBRARY = os.path.dirname(os.__file__)
