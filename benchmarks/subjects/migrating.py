"""How long ``patchcore migrate`` takes for a file, on the sources of mmdet, next to parsing them with libcst."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Samples, Timing, interleave, wall
from benchmarks.rows import Budget, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "migrate"
PARSED = "libcst.parse_module() alone"
ONE = "one process"


def rows(budget: Budget) -> list[Row]:
    """Time the conversion of a tree in one process and in two, and the parsing of its files."""
    why = missing("libcst", "pathspec", "mmdet", "torch_npu_patches")
    if why is not None:
        return [skipped(SUBJECT, "a file of mmdet", PARSED, why)]
    import libcst

    from torch_npu_patches.migrate.files import walk
    from torch_npu_patches.migrate.project import Job, convert_files
    from torch_npu_patches.migrate.rules import RuleTable, built_in_rules

    warnings.simplefilter("ignore")
    spec = importlib.util.find_spec("mmdet")
    assert spec is not None
    assert spec.origin is not None
    files = [(path, name) for path, name in walk(Path(spec.origin).parent) if path.suffix == ".py"]
    files = files[: budget.size(len(files))]
    job = Job(RuleTable(built_in_rules()))

    def converting(jobs: int) -> Timing:
        return lambda: wall(lambda: list(convert_files(files, job, jobs=jobs))) / len(files)

    def parse(chosen: Sequence[tuple[Path, str]]) -> None:
        for path, _ in chosen:
            libcst.parse_module(path.read_text(encoding="utf-8"))

    timings = {"ours": converting(1), "two": converting(2), PARSED: lambda: wall(lambda: parse(files)) / len(files)}
    samples: dict[str, Samples] = interleave(timings, budget.rounds(3), collecting=True)
    what = f"a file of mmdet's {len(files)}"
    return [
        compare(SUBJECT, f"{what}, one process", PARSED, samples["ours"], samples[PARSED], budget=budget),
        compare(SUBJECT, f"{what}, two processes", ONE, samples["two"], samples["ours"], budget=budget),
    ]
