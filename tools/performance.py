"""Write the figures of docs/performance.md from a saved result of the benchmarks.

python -m benchmarks --json rows.json
python -m tools.performance rows.json

Writes the table and the plot ``docs/images/time-per-patch.svg``. Run it from the root of the checkout; the plot needs
matplotlib (requirements/bench.txt).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable, NamedTuple

from benchmarks import compared
from benchmarks.rows import Row, duration
from benchmarks.subjects import applying

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
PLOT = ROOT / "docs" / "images" / "time-per-patch.svg"


class Number(NamedTuple):
    """A cost that patchcore holds to a limit.

    Args:
        what: the cost, as the page says it.
        subject: the benchmark that measures it.
        rows: how the rows of the subject begin that belong to it; of these the ones with a limit count.
    """

    what: str
    subject: str
    rows: str = ""


NUMBERS = (
    Number("`import patchcore`, and its Patcher", "import"),
    Number("`patchcore list` with 50 plugins", "list"),
    Number("a call through a plain `Replace`", "calls", "Replace, "),
    Number("a call through a `Wrap`", "calls", "Wrap, "),
    Number("a call through `when_call`", "calls", "when_call "),
    Number("plan and apply, modules loaded", "apply", applying.APPLY),
    Number("apply on import, real libraries", "on-import", "added per patch"),
    Number("search for names that hold a value", "references"),
    Number("the mx_driving API", "compat-patches"),
    Number("a child process of `patchcore run`", "child-process"),
    Number("`--report-dir` and `--count`", "run-options"),
)

#: What plugins run beside what users have without them. The rows against what a plugin itself has are not on the page.
PLUGINS = (
    Number("a program on the emulated NPU, beside the same one on the CPU", "emulated-device"),
    Number("a program that names CUDA on the emulated NPU, its requests counted", "counted-requests"),
    Number("what the graph backend compiles, beside PyTorch's own", "graph"),
)
_OWN = "reference"

#: What the page says about the run: the key in the saved result, and the name on the page.
_FACTS = {
    "date": "Date",
    "processor": "Processor",
    "processors": "Cores",
    "python": "Python",
    "libraries": "Libraries",
    "load average before": "Load averages before",
    "load average after": "Load averages after",
}

_FIGURES = re.compile(r"(<!-- figures of (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = "| cost | measured | ours | against | theirs | ratio | limit | outcome |\n|---|---|---|---|---|---|---|---|\n"


def rows_of(number: Number, rows: Sequence[Row]) -> list[Row]:
    """Return the rows that hold a number to its limit."""
    return [row for row in rows if row.subject == number.subject and row.what.startswith(number.rows) and row.limit]


def rendered(page: str, facts: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Return the text of the page with its figures made anew."""
    judged = [row for number in NUMBERS for row in rows_of(number, rows) if row.met is not None]
    missed = sum(not row.met for row in judged)
    shown = {**facts, "python": str(facts.get("python", "")).partition(",")[0]}  # without the release of the system
    told = "\n".join(f"- {name}: {shown[key]}" for key, name in _FACTS.items() if key in facts)
    count = f"{len(judged)} limits were judged: {len(judged) - missed} are met, {missed} are missed."
    figures = {"costs": f"{told}\n\n{count}\n\n{table(rows)}", "plugins": table(rows, PLUGINS, of_plugins_in)}
    return _FIGURES.sub(lambda match: f"{match[1]}\n{figures[match[2]]}\n{match[3]}", page)


def of_plugins_in(number: Number, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a subject that were measured against what is no part of the plugin."""
    return [row for row in rows if row.subject == number.subject and row.ratio and row.alternative != _OWN]


def table(rows: Sequence[Row], numbers: Sequence[Number] = NUMBERS, found: Callable[..., list[Row]] = rows_of) -> str:
    """Return a table: for each number the rows that are found, or one that says that it was not measured."""
    lines = (cells for number in numbers for cells in _cells(number, found(number, rows)))
    return _HEAD + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(number: Number, found: Sequence[Row]) -> Iterator[Sequence[str]]:
    if not found:
        yield number.what, "not measured", "", "", "", "", "", ""
    for index, row in enumerate(found):
        assert row.ours is not None
        assert row.theirs is not None
        assert row.ratio is not None
        times = duration(row.ours.median), row.alternative.replace("*", r"\*"), duration(row.theirs.median)
        low, high = row.ratio.quartiles
        ratio = f"{row.ratio.median:.2f}x ({low:.2f}-{high:.2f})"
        outcome = re.sub("^MISSED", "**missed**", row.verdict)
        yield "" if index else number.what, row.what, *times, ratio, row.limit or "none", outcome or "-"


def plot(rows: Sequence[Row], file: Path) -> None:
    """Draw the time per patch against the number of patches, beside that of ``unittest.mock.patch.object``.

    Raises:
        LookupError: the result has no such rows.
    """
    points = []
    for row in rows:
        size = re.fullmatch(rf"{re.escape(applying.APPLY)}, ([\d,]+) patches", row.what)
        if row.subject == applying.SUBJECT and size and row.ours is not None and row.theirs is not None:
            number = int(size[1].replace(",", ""))
            points.append((number, row.ours.median / number * 1e6, row.theirs.median / number * 1e6))
    if not points:
        raise LookupError(f"the result has no row '{applying.APPLY}, N patches' of the subject {applying.SUBJECT}")
    import matplotlib as mpl

    mpl.use("svg")
    # the same points make the same file; text stays text
    mpl.rcParams.update({"svg.hashsalt": "patchcore", "svg.fonttype": "none", "font.family": "sans-serif"})
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter

    sizes, ours, theirs = zip(*sorted(points))
    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    limit = applying.PER_PATCH * 1e6
    axes.plot(sizes, ours, "o-", color="#1f5fa8", label="patchcore: plan + apply")
    axes.plot(sizes, theirs, "s-", color="#b35c00", label="mock.patch.object: start")
    axes.axhline(limit, color="#666666", linestyle="--", linewidth=1, label=f"limit: {limit:.0f} us")
    axes.set(xscale="log", yscale="log", xlabel="patches", ylabel="us per patch", xticks=sizes)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.minorticks_off()
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
    figure.savefig(file, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = "\n".join(line.rstrip() for line in file.read_text(encoding="utf-8").splitlines())
    file.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Write the page and the plot; return 2 when the result cannot be read or has nothing to draw."""
    parser = argparse.ArgumentParser(prog="python -m tools.performance", description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path, metavar="RESULT.json", help="what python -m benchmarks --json has written")
    file = parser.parse_args().result
    try:
        rows = compared.read(file)
        plot(rows, PLOT)
    except (compared.UnreadableResult, LookupError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    facts = json.loads(file.read_text())["environment"]
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8"), facts, rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
