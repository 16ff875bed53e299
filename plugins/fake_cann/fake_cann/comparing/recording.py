"""Checks the table of arguments against the installed torch_npu: what it passes to the operators is looked at.

A library that has all names of the table says of each call whether its arguments are of the kinds that the table has,
and refuses what is not computed. It is called with the cases of ``compare``, and with each operator of torch_npu on
arguments that are made from its schema. Kinds of numbers cannot be told apart, and an operator that nothing calls is
not checked.
"""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from fake_cann import private_torch
from fake_cann.build import RECORDER
from fake_cann.environment import prepare
from fake_cann.errors import FakeCannError
from patchcore.plugin import counted

__all__ = ["Recorded", "record"]

_CHILD = "fake_cann.comparing.recording"
#: Most processes that may end in the middle.
_MOST_ENDED = 500


class Recorded(NamedTuple):
    """What torch_npu passed.

    Args:
        called: operators that were called at least once as the table has it.
        faults: operators that were called otherwise, and how.
        ended: calls that ended the process.
    """

    called: set[str]
    faults: dict[str, str]
    ended: int


class _Place(NamedTuple):
    """A call: its part, and its number in there; see :func:`_parts`."""

    part: int
    number: int


def record(environ: Mapping[str, str], only: Optional[str], show: Callable[[str], None]) -> Recorded:
    """Call operators, and return how their arguments fit the table.

    Args:
        environ: of the processes that call them.
        only: a part of the names of cases and operators of torch_npu; ``None`` for all.
        show: called with the number of the call that begins.

    Raises:
        FakeCannError: a process does not start.
    """
    environ = dict(environ)
    folder = prepare(environ) / RECORDER
    environ["LD_LIBRARY_PATH"] = os.pathsep.join([str(folder), environ["LD_LIBRARY_PATH"]])
    with tempfile.TemporaryDirectory() as room:
        file = Path(room, "calls.tsv")
        environ.update(FAKE_CANN_CHECK="1", FAKE_CANN_RECORD=str(file))
        calls, ended, place = 0, 0, _Place(0, 0)
        while True:
            begun = None
            command = [sys.executable, "-W", "ignore", "-m", _CHILD, *map(str, place), *filter(None, (only,))]
            # In the room: what operators write into the current folder, dumps among it, goes with it.
            with subprocess.Popen(
                command, env=environ, cwd=room, stdout=subprocess.PIPE, text=True, errors="replace"
            ) as child:
                assert child.stdout is not None
                for line in child.stdout:
                    if line.startswith("call "):
                        begun = _Place(*map(int, line.split()[1:3]))
                        calls += 1
                        show(counted(calls, "call"))
            if child.returncode == 0:
                return _read(file, ended)
            if begun is None:
                raise FakeCannError("fake_cann: a process that calls operators ended before its first call, see above")
            ended, place = ended + 1, _Place(begun.part, begun.number + 1)
            if ended == _MOST_ENDED:
                raise FakeCannError(f"fake_cann: {ended} processes that call operators ended")


def _read(file: Path, ended: int) -> Recorded:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    called, faults = set(), {}
    for name, _, fault in (line.partition("\t") for line in lines):
        if fault:
            faults[name] = fault
        else:
            called.add(name)
    return Recorded(called, faults, ended)


def _main(first: _Place, only: Optional[str]) -> int:
    """Make the calls from ``first`` on; what they return does not matter."""
    import torch
    import torch_npu  # noqa: F401

    torch.set_num_threads(1)
    for part, calls in enumerate(_parts(only)):
        if part < first.part:  # not made: the tensors of the cases take minutes
            continue
        for number, call in enumerate(calls()):
            if (part, number) < first:
                continue
            print("call", part, number, flush=True)
            try:
                call()
            except Exception:  # refused, or arguments that do not fit: only the calls below torch_npu count
                continue
    return 0


def _parts(only: Optional[str]) -> Iterator[Callable[[], Iterator[Callable[[], Any]]]]:
    """Yield the calls by parts: the cases, then each operator of torch_npu."""
    from fake_cann.comparing.cases import cases

    yield lambda: (functools.partial(_of_case, case) for case in cases(only))
    for schema in private_torch.all_schemas():
        if schema.name.startswith("npu::") and (only is None or only in schema.name):
            yield functools.partial(_of_schema, schema)


def _of_case(case: Any) -> Any:
    from fake_cann.comparing.cases import mapped

    given, options = (mapped(lambda tensor: tensor.npu(), value) for value in (case.given, case.options))
    return case.function(*given, **options)


def _of_schema(schema: Any) -> Iterator[Callable[[], Any]]:
    """Yield calls of an operator: tensors of several shapes and types, optional arguments given and not given."""
    import torch

    packet = getattr(torch.ops.npu, schema.name.partition("::")[2])
    overload = getattr(packet, schema.overload_name or "default")
    shapes = ((4, 8, 16), (2, 4, 8, 16), (8, 16), (16, 16), (16,))
    types = (torch.float16, torch.float32, torch.int8, torch.int32)
    for shape, dtype, full in itertools.product(shapes, types, (False, True)):

        def call(shape: tuple[int, ...] = shape, dtype: torch.dtype = dtype, full: bool = full) -> Any:
            tensor = torch.ones(shape, dtype=dtype).npu()
            named = {each.name: _value(str(each.type), each, tensor, full) for each in schema.arguments}
            keywords = {each.name for each in schema.arguments if each.kwarg_only}
            rest = {name: value for name, value in named.items() if name in keywords and value is not None}
            return overload(*(value for name, value in named.items() if name not in keywords), **rest)

        yield call


def _value(kind: str, argument: Any, tensor: Any, full: bool) -> Any:
    """Return a value for an argument of a schema, by the name of its type."""
    optional = kind.startswith("Optional[")
    kind = kind[len("Optional[") : -1] if optional else kind
    if not full and (optional or argument.has_default_value()):
        return argument.default_value if argument.has_default_value() else None
    values = {
        "Tensor": tensor,
        "List[Tensor]": [tensor, tensor],
        "List[Optional[Tensor]]": [tensor],
        "int": 1,
        "number": 1,
        "float": 0.5,
        "bool": True,
        "str": "BSH",
        "List[int]": [1, 1],
        "List[bool]": [True, True, True],
        "List[float]": [0.5, 0.5],
    }
    return values.get(kind, argument.default_value if argument.has_default_value() else None)


if __name__ == "__main__":
    sys.exit(_main(_Place(int(sys.argv[1]), int(sys.argv[2])), sys.argv[3] if len(sys.argv) > 3 else None))
