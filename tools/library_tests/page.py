"""The table of results, a file for each library, and docs/library-tests.md, which is made of it."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools.library_tests.libraries import LIBRARIES, TITLES, TRANSFORMERS, Library

__all__ = ["PAGE", "RESULTS", "Row", "failing", "faults", "read", "reason", "rendered", "table", "write_rows"]

RESULTS = Path(__file__).with_name("results")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "library-tests.md"

#: The results of tests, in the order of the page.
_RESULTS = ("passed", "skipped", "failed", "late")

_HEAD = """# Tests of libraries on the emulated NPU

The tests of accelerate and Lightning use the device that they find. They run in up to three ways: on the CPU without
patches, on the emulated NPU with the default set of patches, and on the emulated NPU without the patches of
[Programs that know "cuda" by name](cuda-by-name.md). A test for CUDA is skipped on the CPU, and runs on the NPU.
A test that takes more than three minutes is late: most late tests start several processes, each of which imports torch.
Of Lightning's `tests_pytorch`, only the tests for CUDA run, as its developers do on machines with GPUs. A module of
which no test runs counts as one skipped test.

```sh
python3 -m nox -s library-tests                                       # modules that have no result yet; hours
python3 -m nox -s library-tests -- accelerate --again test_accelerator  # one module of accelerate's, once more
python3 -m nox -s library-tests -- lightning --sources ../pytorch-lightning  # tests from a checkout
```

This command writes this page from the [results](../tools/library_tests/results), which have a line for each
test. A module that is not in a table was not run. Nothing here was run on a real NPU.
"""

#: What stands above the table of a library.
_ABOUT = {
    "transformers": """The tests that transformers has for every model (`ModelTesterMixin`), of five tiny models with
random weights, on the real `torch_npu` with the [fake CANN](fake-cann.md). `python3 -m nox -s transformers-tests` runs
them. A test that fails without the patches too is a matter of `torch_npu` or of the fake CANN, or needs the tests of
generation, which are not among the sources that transformers publishes.

""",
}


class Row(NamedTuple):
    """The results of one test.

    Args:
        module, test: its name.
        results: by mode; empty for a test that was not run or not found in it.
        why: the error on the NPU, or why it was skipped there; of a test that passed there, the same on the CPU.
    """

    module: str
    test: str
    results: dict[str, str]
    why: str


def path_of(library: Library) -> Path:
    """Return the file with the results of a library."""
    return RESULTS / f"{library.name}.csv"


def write_rows(library: Library, version: str, rows: Iterable[Row]) -> None:
    """Write the results of a library; the first line has its version."""
    RESULTS.mkdir(exist_ok=True)
    with path_of(library).open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {library.name} {version}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("module", "test", *library.modes, "why"))
        for row in rows:
            writer.writerow([row.module, row.test, *(row.results.get(mode, "") for mode in library.modes), row.why])


def read(library: Library) -> tuple[str, list[Row]]:
    """Return the version whose tests were run, and the results; empty where there are none."""
    path = path_of(library)
    if not path.is_file():
        return "", []
    with path.open(encoding="utf-8", newline="") as file:
        version = file.readline().split()[-1]
        rows = [
            Row(line["module"], line["test"], {mode: line[mode] for mode in library.modes if line[mode]}, line["why"])
            for line in csv.DictReader(file)
        ]
    return version, rows


def failing(library: Library, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the tests that fail in the judged mode and not in the reference: on the NPU, not on the CPU."""
    return (row for row in rows if row.results.get(library.judged) == "failed" != row.results.get(library.reference))


def reason(library: Library, row: Row) -> str:
    """Return why a test fails for no fault of the patches; empty if that is not known."""
    text = f"{row.module}::{row.test}: {row.why}"
    return next((why for part, why in library.reasons.items() if part in text), "")


def faults(library: Library) -> list[Row]:
    """Return the tests that fail on the emulated NPU alone, for no reason that is known."""
    return [row for row in failing(library, read(library)[1]) if not reason(library, row)]


def rendered() -> str:
    """Return the page."""
    parts = [_HEAD]
    for library in (*LIBRARIES, TRANSFORMERS):
        version, rows = read(library)
        if not rows:
            continue
        parts.append(f"\n## {library.name} {version}\n\n")
        parts.append(_ABOUT.get(library.name, ""))
        parts.append(table(_totals(library, rows)))
        lines = [
            (
                f"`{row.module}::{row.test}`",
                row.results.get(library.reference, ""),
                reason(library, row) or f"fails: {row.why}",
            )
            for row in failing(library, rows)
        ]
        judged, reference = (
            ("On the emulated NPU", "on the CPU") if library.reference == "cpu" else ("With the patches", "without")
        )
        if lines:
            parts.append(f"\n{judged}, and not {reference}, fail:\n\n")
            parts.append(table([("test", reference, "why"), *lines]))
        if library is TRANSFORMERS:
            parts.append(_same(library, rows))
        parts.append(f"\n### The modules of {library.name}'s tests\n\n{table(_modules(library, rows))}")
    return "".join(parts)


def _same(library: Library, rows: list[Row]) -> str:
    both = [row for row in rows if {library.judged, library.reference} <= set(row.results)]
    same = sum(row.results[library.judged] == row.results[library.reference] for row in both)
    return f"\nOf {len(both)} tests that ran in both ways, {same} have the same result.\n"


def _totals(library: Library, rows: list[Row]) -> list[tuple[str, ...]]:
    found = [("", *_RESULTS)]
    for mode in library.modes:
        counts = Counter(row.results.get(mode) for row in rows)
        if counts["passed"]:
            modules = len({row.module for row in rows if mode in row.results})
            found.append((f"{TITLES[mode]}: {modules} modules", *(str(counts[result]) for result in _RESULTS)))
    return found


def _modules(library: Library, rows: list[Row]) -> list[tuple[str, ...]]:
    modes = [mode for mode in library.modes if any(mode in row.results for row in rows)]
    found = [("module", *(f"{mode}: {' / '.join(_RESULTS)}" for mode in modes))]
    for module in sorted({row.module for row in rows}):
        inside = [row for row in rows if row.module == module]
        cells = []
        for mode in modes:
            counts = Counter(row.results[mode] for row in inside if mode in row.results)
            cells.append("" if not counts else " / ".join(str(counts[result]) for result in _RESULTS))
        found.append((f"`{module}`", *cells))
    return found


def table(lines: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown; the first line is its header. Brackets in a cell are no link."""
    header, *others = lines
    marked = [header, ("---",) * len(header), *others]
    cells = ([cell.replace("|", " ").replace("][", r"]\[") for cell in line] for line in marked)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)
