"""Runs the cases: a parent process that collects the rows, and a child process that the device may end.

A line of the child is ``[begun, case, type, number]`` before a call and a row, an object, after it; torch_npu prints
lines of its own between them. After a crash another child goes on behind the case that did it.
"""

from __future__ import annotations

import ctypes
import json
import platform
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional

from fake_cann.errors import FakeCannError
from patchcore.plugin import counted

__all__ = ["CRASHED", "DIFFERS", "EQUAL", "FAILED", "REFUSED", "Results", "run"]

#: The outcomes of a case: as on the CPU, otherwise, no such operator, an error, the end of the process.
EQUAL, DIFFERS, REFUSED, FAILED, CRASHED = "equal", "differs", "refused", "failed", "crashed"

#: By type, the relative and absolute tolerance. Half precision is rounded in other places: operators are computed in
#: float there, or in other steps.
_TOLERANCES = {"torch.float16": (2e-3, 2e-3), "torch.bfloat16": (2e-2, 2e-2)}
_TOLERANCE = (1e-4, 1e-5)
_BEGUN = "begun"
#: The module that runs the cases.
_CHILD = "fake_cann.comparing.running"
#: Crashes, with no case between them that ran to its end, after which no further process is started.
_TRIES = 10


class Results(NamedTuple):
    """Where the cases ran, and the outcome of each.

    Args:
        device: versions and names; see :func:`_device`.
        rows: of the cases, in their order; see :func:`_row`.
        complete: false if the run was interrupted, or if the process ended again and again.
    """

    device: dict[str, Any]
    rows: list[dict[str, Any]]
    complete: bool


def run(environ: Mapping[str, str], only: Optional[str], show: Callable[[str], None]) -> Results:
    """Run the cases on the NPU that a child process of this environment has.

    Args:
        environ: of the child.
        only: a part of the name of the cases; ``None`` for all.
        show: called with the name of each case that begins.

    Raises:
        FakeCannError: the child has no NPU, or does not start.
    """
    device: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    begun, crashes = 0, 0
    while True:
        last: Optional[list[Any]] = None
        command = [sys.executable, "-W", "ignore", "-m", _CHILD, str(begun), *filter(None, (only,))]
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True, errors="replace") as child:
            assert child.stdout is not None
            try:
                for line in child.stdout:
                    message = _message(line)
                    if isinstance(message, list):
                        last, begun = message[1:], begun + 1
                        show(f"{counted(begun, 'case')}: {message[1]}")
                    elif message is not None and "torch" in message:
                        device = message
                    elif message is not None:
                        last, crashes = None, 0
                        if message["outcome"]:
                            rows.append(message)
            except KeyboardInterrupt:
                child.terminate()
                return Results(device, rows, False)
        code = child.returncode
        if code == 0:
            return Results(device, rows, True)
        if not device or code == 1:  # no crash of the device, but an exception
            raise FakeCannError(f"fake_cann: {_end(code)} at {last or 'its start'}, see above")
        if last is not None:
            name, dtype, number = last
            rows.append({"case": name, "type": dtype, "sample": number, "outcome": CRASHED, "why": _end(code)})
        crashes += 1
        if crashes == _TRIES:
            return Results(device, rows, False)


def _end(code: int) -> str:
    try:
        return f"the process ended: {signal.Signals(-code).name}"
    except ValueError:
        return f"the process ended: exit code {code}"


def _message(line: str) -> Any:
    """Return the message in a line of the child; ``None`` for other lines."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    if isinstance(message, dict) and ("torch" in message or "outcome" in message):
        return message
    return message if isinstance(message, list) and message[:1] == [_BEGUN] else None


def _main(skipped: int, only: Optional[str]) -> int:
    """Print the device, then each case and its row, from case number ``skipped`` on."""
    try:
        import expecttest  # noqa: F401
        import numpy  # noqa: F401
        import torch
    except ImportError as error:
        print(
            f"fake_cann: {error}: the cases come from torch.testing, which imports numpy and expecttest: install both",
            file=sys.stderr,
        )
        return 1
    if not (hasattr(torch, "npu") and torch.npu.is_available()):
        print("fake_cann: torch finds no NPU: install torch_npu, or see patchcore run --emulate-npu", file=sys.stderr)
        return 1
    from fake_cann.comparing.cases import cases

    torch.set_num_threads(1)
    counts = _Counts.of_process()
    _print(_device(counts))
    for place, case in enumerate(cases(only)):
        if place < skipped:
            continue
        _print([_BEGUN, *case.key])
        _print(_row(case, counts) or {"outcome": ""})
    return 0


def _print(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _device(counts: Optional[_Counts]) -> dict[str, Any]:
    """Return where the cases run: versions, the chip, and whether it is emulated.

    Args:
        counts: of the fake CANN, if the process has it.
    """
    import torch
    import torch_npu

    from fake_cann.wheel import library

    emulated = "fake CANN" if counts is not None else ""
    if not library().exists():
        emulated = "imitation of torch_npu"
    return {
        "torch": torch.__version__,
        "torch_npu": str(torch_npu.__version__),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "chip": torch.npu.get_device_name(),
        "emulated": emulated,
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


class _Counts:
    """Counts the operators of the fake CANN.

    Args:
        library: that has the counters.
    """

    def __init__(self, library: Any) -> None:
        from fake_cann.table import computed

        self._library = library
        self._names = list(computed())
        library.fake_cann_old_calls.restype = ctypes.c_char_p

    @classmethod
    def of_process(cls) -> Optional[_Counts]:
        """Return the counts of this process; ``None`` for a real CANN, or none at all."""
        try:
            library = ctypes.CDLL("libopapi.so")
        except OSError:
            return None
        return cls(library) if hasattr(library, "fake_cann_calls") else None

    def now(self) -> list[int]:
        """Return how often each operator was executed, and begin to note those of the older interface."""
        self._library.fake_cann_old_calls()
        buffer = (ctypes.c_long * len(self._names))()
        self._library.fake_cann_calls(buffer, len(buffer))
        return list(buffer)

    def since(self, before: list[int]) -> list[str]:
        """Return the operators that were executed since; those of the older interface as ``aclop NAME``."""
        old = sorted(set(self._library.fake_cann_old_calls().decode().split()))
        new = [name for name, then, now in zip(self._names, before, self.now()) if then != now]
        return [*new, *(f"aclop {name}" for name in old)]


def _row(case: Any, counts: Optional[_Counts]) -> Optional[dict[str, Any]]:
    """Return the row of a case, ``None`` where there is nothing to compare with.

    Its keys: ``case``, ``type``, ``sample``; ``inputs``, a checksum of the arguments; ``outcome`` and ``why``;
    ``called``, the operators of the fake CANN that it executed; ``results``, the type and shape of each result;
    ``error``, the largest difference from the CPU in units of the tolerance.
    """
    from fake_cann.comparing.cases import mapped, tensors

    def copied(value: Any, device: str) -> Any:
        return mapped(lambda tensor: tensor.detach().clone().to(device), value)

    try:
        expected = tensors(case.function(*copied(case.given, "cpu"), **copied(case.options, "cpu")))
    except Exception:
        return None
    name, dtype, number = case.key
    row: dict[str, Any] = {"case": name, "type": dtype, "sample": number, "inputs": _checksum(case)}
    before = counts.now() if counts is not None else []
    try:
        given, options = copied(case.given, "npu"), copied(case.options, "npu")
        before = counts.now() if counts is not None else []
        found = [tensor.cpu() for tensor in tensors(case.function(*given, **options))]
    except Exception as error:
        row.update(_failure(error))
    else:
        row["results"] = [[str(tensor.dtype), list(tensor.shape)] for tensor in found]
        why, row["error"] = _difference(found, expected, _TOLERANCES.get(dtype, _TOLERANCE))
        row.update(outcome=DIFFERS, why=why) if why else row.update(outcome=EQUAL)
    if counts is not None:
        row["called"] = counts.since(before)
        if "dropout" not in name and any(called.startswith("Dropout") for called in row["called"]):
            return None  # of attention: the device draws other numbers
    return row


def _failure(error: Exception) -> dict[str, str]:
    """Return the end of a case: no such operator, or an error. torch_npu adds lines with the time to messages."""
    kind, lines = type(error).__name__, str(error).strip().splitlines() or [repr(error)]
    marked = [line for line in lines if any(mark in line for mark in ("aclnn", "NotEmulated", "not in lib"))]
    is_refused = kind == "NotEmulated" or any("NotEmulated" in line or "not in lib" in line for line in marked)
    return {"outcome": REFUSED if is_refused else FAILED, "why": f"{kind}: {[*marked, *lines][0][:200]}"}


def _difference(found: list[Any], expected: list[Any], tolerance: tuple[float, float]) -> tuple[str, Optional[float]]:
    """Return why results are not those of the CPU, empty if they are, and the largest difference."""
    import torch

    rtol, atol = tolerance
    try:
        torch.testing.assert_close(
            found, expected, rtol=rtol, atol=atol, equal_nan=True, check_dtype=False, check_stride=False
        )
        why = ""
    except AssertionError as error:
        why = str(error).strip().splitlines()[0]
    if [tensor.shape for tensor in found] != [tensor.shape for tensor in expected]:
        return why, None
    largest = 0.0
    for one, other in zip(found, expected):
        if not other.numel() or other.layout is not torch.strided:
            continue
        kind = torch.complex128 if other.is_complex() else torch.float64
        one, other = one.to(kind), other.to(kind)
        units = ((one - other).abs() / (atol + rtol * other.abs())).nan_to_num(0.0, 0.0, 0.0)
        largest = max(largest, float(units.max()))
    return why, float(f"{largest:.3g}")


def _checksum(case: Any) -> int:
    """Return a number of the arguments, equal for equal ones."""
    import torch

    from fake_cann.comparing.cases import tensors

    found = 0
    for tensor in tensors([case.given, case.options]):
        if tensor.layout is not torch.strided:
            found = zlib.crc32(str(tensor).encode(), found)
        elif tensor.numel():
            whole = tensor.detach().resolve_conj().resolve_neg().contiguous().flatten()
            found = zlib.crc32(whole.view(torch.uint8).numpy().tobytes(), found)
    return found


if __name__ == "__main__":
    sys.exit(_main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
