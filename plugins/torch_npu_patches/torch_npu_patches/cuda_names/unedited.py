"""Finds code of the program that compares something with ``"cuda"`` and runs without an edit.

``exec`` and ``eval`` of a text, ``python -c`` and programs from a pipe are compiled by Python where no patch can edit
them, and some import hooks compile a tree of their own. Python calls audit hooks with each code that it is about to
run. :func:`start` adds a hook that keeps the lines with a comparison with CUDA.

CPython cannot remove an audit hook. Any hook, an empty one too, adds about 0.5 us to each call that Python announces,
such as ``sys._getframe()``. ``python -m benchmarks rewriting`` compares this hook with an empty one.
"""

from __future__ import annotations

import dis
import os
import re
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple, Optional

from torch_npu_patches.cuda_names import scope
from torch_npu_patches.cuda_names.lines import found
from torch_npu_patches.transfer_to_npu.devices import CUDA, npu_name, npu_tensor_type

__all__ = ["Comparison", "comparisons", "start"]

#: The most instructions between the text and the comparison.
_NEAR = 4
#: Instructions that do nothing here.
_EMPTY = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "PRECALL"))
_COMPARISON = re.compile(r"^(bool\()?[=!]=")
#: Edited code calls functions by names that begin so.
_EDITED = "_@"


class Comparison(NamedTuple):
    """A line that compares with CUDA in code that was not edited.

    Args:
        file, line: as a traceback has them.
        function: in which the line is; ``<module>`` for the top level.
        runner: file and line that ran the code; empty if Python itself ran it.
    """

    file: str
    line: int
    function: str
    runner: str

    def __str__(self) -> str:
        by = f", run by {self.runner}" if self.runner else ""
        return f"{self.file}:{self.line}, in {self.function}{by}: compares with {CUDA!r}, not edited"


#: True while ``torch.transfer_to_npu.names`` is applied, which replaces this value.
is_on = False

_kept: dict[Comparison, None] = {}  # in the order in which they ran
_started = False


def start() -> None:
    """Add the hook to this process, once. It keeps comparisons while :data:`is_on` is true."""
    global _started
    if not _started:
        _started = True
        sys.addaudithook(_audit)


def comparisons() -> list[Comparison]:
    """Return the comparisons that were run, without those that the rule or the list leaves alone."""
    known = {(line.file, line.line) for line in found()}
    return [each for each in _kept if (each.file, each.line) not in known]


def _audit(event: str, arguments: Any) -> None:
    if event != "exec" or not is_on:  # most events are others
        return
    code = arguments[0]
    try:
        if type(code) is CodeType and scope.is_program("", code.co_filename):
            for line, function in _lines(code):
                runner = _runner()
                if not _is_generated(code, runner):
                    _kept[Comparison(code.co_filename, line, function, _place(runner))] = None
    except Exception:  # an exception of a hook ends the program's exec
        pass


def _runner() -> Optional[FrameType]:
    """Return the frame that runs a code; ``None`` if Python runs its program."""
    try:
        return sys._getframe(2)  # below the hook
    except ValueError:
        return None


def _is_generated(code: CodeType, runner: Optional[FrameType]) -> bool:
    """Return true for a code without a file that an installed package runs: it has made the text itself."""
    by_library = runner is not None and scope.is_library("", runner.f_code.co_filename)
    return by_library and not os.path.isfile(code.co_filename)


def _place(runner: Optional[FrameType]) -> str:
    """Return the file and line of a frame; empty where Python runs the program, or a module."""
    name = "" if runner is None else runner.f_code.co_filename
    if runner is None or name.startswith("<frozen") or name.endswith("runpy.py"):
        return ""
    return f"{name}:{runner.f_lineno}"


def _lines(code: CodeType) -> Iterator[tuple[int, str]]:
    """Yield the lines of a code, and of the functions in it, that compare with CUDA and were not edited."""
    if any(_is_cuda(constant) for constant in code.co_consts) and not any(
        name.startswith(_EDITED) for name in code.co_names
    ):
        for line in sorted(set(_compared(code))):
            yield line, code.co_name
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _lines(constant)


def _compared(code: CodeType) -> Iterator[int]:
    """Yield the lines of a code that load the text of a CUDA device and compare it a few instructions later."""
    names: set[str] = set()
    line, text = code.co_firstlineno, _NEAR
    for instruction in dis.get_instructions(code):
        line = _line_of(instruction, line)
        name, value = instruction.opname, instruction.argval
        if name.startswith("LOAD_CONST") and _is_cuda(value):
            text = 0
        elif name.startswith("CALL"):
            if text < _NEAR and "startswith" in names:
                yield line
            text = _NEAR  # the call has taken it
            names.clear()
        elif name == "CONTAINS_OP" or (name == "COMPARE_OP" and _COMPARISON.search(str(value))):
            if text < _NEAR:
                yield line
            text = _NEAR
        else:
            text += name not in _EMPTY
            names.add(value if isinstance(value, str) else "")


def _line_of(instruction: Any, line: int) -> int:
    """Return the line of an instruction; Python 3.13 has it in an attribute of its own."""
    number = getattr(instruction, "line_number", None)
    if number is None and type(instruction.starts_line) is int:
        number = instruction.starts_line
    return line if number is None else number


def _is_cuda(constant: object) -> bool:
    if isinstance(constant, (tuple, frozenset)):
        return any(map(_is_cuda, constant))
    return isinstance(constant, str) and bool(npu_name(constant) or npu_tensor_type(constant) or constant == f"{CUDA}:")
