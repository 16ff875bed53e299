"""The output of ``patchcore verify``: a line for each check and dtype, or for each size; or everything, as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from patchcore.builtin.shared.rows import print_table, print_text
from patchcore.builtin.verify.speed import Speed
from patchcore.builtin.verify.verify import AGREES, DIFFERS, CheckResult, Measurement
from patchcore.report import SKIPPED

__all__ = ["COLUMNS", "describe", "print_results"]

COLUMNS = ("PATCH", "CHECK", "DTYPE", "SIZE", "RESULT", "FORWARD", "GRADIENT", "ALLOWED", "SPEED", "MESSAGE")

#: Shown for the dtype of a check that is not declared for any.
AS_DRAWN = "as drawn"


def print_results(title: str, results: Sequence[CheckResult], *, verbose: bool) -> None:
    """Print a table, and below it why there is no speed where there is none.

    Args:
        title: printed first.
        results: to print.
        verbose: a line for each size, and not the worst of all.
    """
    rows = [row for result in results for row in (_rows_by_size(result) if verbose else [_row(result)])]
    timed = any(speed.ratio for result in results for speed in result.speeds)
    left_out = {name for name, shown in (("SIZE", verbose), ("SPEED", timed)) if not shown}
    kept = [number for number, name in enumerate(COLUMNS) if name not in left_out]
    print_table(title, [COLUMNS[number] for number in kept], [[row[number] for number in kept] for row in rows])
    tried = {result.patch for result in results if result.speeds}
    for reason, names in _without_speed(results).items():
        of = "" if tried == {*names} else f" of {', '.join(names)}"
        print_text(f"no speed{of}: {reason}", indent=2)


def describe(result: CheckResult) -> dict[str, Any]:
    """Return a result for JSON, with every measurement; JSON has no infinity, so that becomes ``None``."""
    return {
        **result._asdict(),
        "forward_error": _finite(result.forward_error),
        "gradient_error": _finite(result.gradient_error),
        "measurements": [_describe_measurement(measured) for measured in result.measurements],
        "speeds": [{**speed._asdict(), "ratio": speed.ratio} for speed in result.speeds],
    }


def _describe_measurement(measured: Measurement) -> dict[str, Any]:
    errors = {"forward_error": measured.forward_error, "gradient_error": measured.gradient_error}
    return {**measured._asdict(), **{name: _finite(error) for name, error in errors.items()}}


def _row(result: CheckResult, size: Optional[str] = None) -> tuple[str, ...]:
    compared = result.status != SKIPPED and (result.measurements or result.forward_error == 0.0)
    return (
        result.patch,
        result.check,
        result.dtype or AS_DRAWN,
        size or "",
        result.status,
        _error(result.forward_error) if compared else "",
        _error(result.gradient_error) if compared else "",
        "" if result.status == SKIPPED else f"{result.rtol:.2g}",
        _ratio(result.speeds),
        result.message,
    )


def _rows_by_size(result: CheckResult) -> Iterator[tuple[str, ...]]:
    """One row for each size that was measured; the whole result where none was, or where it ended before its time."""
    sizes = list(dict.fromkeys(measured.size for measured in result.measurements))
    for size in sizes:
        measured = [one for one in result.measurements if one.size == size]
        gradients = [one.gradient_error for one in measured if one.gradient_error is not None]
        messages = [f"round {one.round}: {one.message}" for one in measured if one.message]
        yield _row(
            result._replace(
                status=DIFFERS if messages else result.status if result.status != DIFFERS else AGREES,
                forward_error=max(one.forward_error for one in measured),
                gradient_error=max(gradients, default=None),
                message=messages[0] if messages else "" if result.status == DIFFERS else result.message,
                speeds=tuple(speed for speed in result.speeds if speed.size == size),
            ),
            size,
        )
    if not sizes:
        yield _row(result)


def _error(error: Optional[float]) -> str:
    if error is None:
        return ""
    return f"{error:.2g}" if math.isfinite(error) else "inf"


def _ratio(speeds: Sequence[Speed]) -> str:
    """The ratio of the largest size that has one."""
    ratios = [speed.ratio for speed in speeds if speed.ratio]
    return f"{ratios[-1]:.2f}x" if ratios else ""


def _without_speed(results: Sequence[CheckResult]) -> dict[str, list[str]]:
    """The names of patches that were to be timed and could not be, by the reason."""
    found: dict[str, list[str]] = {}
    for result in results:
        for speed in result.speeds:
            if speed.reason:
                names = found.setdefault(speed.reason, [])
                names.extend([result.patch] if result.patch not in names else [])
    return found


def _finite(error: Optional[float]) -> Optional[float]:
    return error if error is not None and math.isfinite(error) else None  # JSON has no infinity
