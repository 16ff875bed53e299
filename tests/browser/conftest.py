"""The browser, a function that opens pages in it, and the pages of every command that writes one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import pytest
from browsers import MISSING, OPTIONS, find_browser, must_be_there
from page_runs import a_report
from reports import SHOP, Reports
from views import View

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HERE = Path(__file__).parent

#: A program that starts another one, a patch that fits, and one each that fails, waits and is skipped.
PROGRAM = {
    "shop/__init__.py": "",
    "shop/prices.py": "def price(item):\n    return 10\n",
    "shop/late.py": "def discount(): ...\n",
    "sell.py": (
        "import subprocess, sys\nfrom shop.prices import price\nprint(price('apple'))\n"
        "if len(sys.argv) == 1:\n    subprocess.run([sys.executable, __file__, 'child'], check=True)\n"
    ),
    "patches.py": """
import patchcore as pc

@pc.patch("shop.prices:price", summary="Apples cost 20")
def double(item):
    return 20

def none():
    return 0

WRONG = pc.Patch("shop.wrong_name", [pc.Replace("shop.prices:prize_of_an_apple_that_is_not_there", none)])
LATE = pc.Patch("shop.late", [pc.Replace("shop.late:discount", none)])
OTHER = pc.Patch("other.library", [pc.Replace("other.library:function", none)], requires=["other>=2"])

@pc.hookimpl
def register_patches():
    return [double, WRONG, LATE, OTHER]
""",
}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser; without one, tests are skipped, or fail where one must be there."""
    program = find_browser()
    if program is None:
        (pytest.fail if must_be_there() else pytest.skip)(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., View]]:
    """Return a function that opens a page; it takes the arguments of View after the first."""
    views: list[View] = []

    def open_page(where: str | Path, **named: Any) -> View:
        views.append(View(browser, where, **named))
        return views[-1]

    yield open_page
    for view in views:
        view.close()


@pytest.fixture
def content(tmp_path: Path, make_package: Any) -> dict[str, Any]:
    """The report of a process in which two patches are applied."""
    make_package(SHOP)
    return a_report(Reports(tmp_path / "reports"))


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages by the command that wrote them."""
    folder = tmp_path_factory.mktemp("pages")
    return {
        "report": _report_page(folder),
        "migrate": _migrate_page(folder),
        "ops": _ops_page(folder),
        "graph explain": _graph_page(folder),
    }


def _patchcore(folder: Path, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    command = [sys.executable, "-m", "patchcore", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode in codes, done.stderr
    return done.stdout


def _report_page(folder: Path) -> Path:
    """Run a program twice, once with fewer patches, and compare the runs."""
    for name, text in PROGRAM.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for disabled in ("patches.double", "other.library"):
        _patchcore(folder, "run", "-p", "patches", "--disable", disabled, "--count", "--report-dir", "runs", "sell.py")
    runs = {json.loads(path.read_text())["run"]: path.stat().st_mtime for path in (folder / "runs").glob("*.json")}
    first = min(runs, key=lambda run: runs[run])
    _patchcore(folder, "report", "runs", "--compare", first, "--html", codes=(1,))
    return folder / "runs" / "report.html"


def _migrate_page(folder: Path) -> Path:
    samples = ["classification", "amp", "own_cuda", "environment", "profiler"]
    for sample in samples:
        shutil.copytree(HERE.parent / "migrate_samples" / sample, folder / "project" / sample)
    _patchcore(folder, "migrate", "project", "--report", "migrate.html", codes=(0, 1))
    return folder / "migrate.html"


def _ops_page(folder: Path) -> Path:
    """Make the page of what a real run has recorded, in an environment with torch: records/operators.json."""
    from npu_migrate.ops.judging import Trace, judge
    from npu_migrate.ops.printing import make_page
    from npu_migrate.ops.records import ProcessTrace, merge
    from npu_migrate.ops.tables import Table

    traces = []
    for view in json.loads((HERE / "records" / "operators.json").read_text())["traces"]:
        process = ProcessTrace.of(view["process"])
        traces.append(Trace(view["name"], view["device"], 0, 1, merge([process]), process.torch, process.emulated))
    *without, patched = traces
    comparison = judge("train.py", Table.read("2.13.0"), tuple(without), patched=patched)
    return _written(folder / "ops.html", make_page(comparison, ["train.py"]).render())


def _graph_page(folder: Path) -> Path:
    """Make the page of what a real run has recorded, in an environment with torch: records/graphs.json."""
    from npu_graph.cli_explain import make_page
    from npu_graph.explaining import Explanation, GraphBreak, Recompilation
    from npu_graph.recording import GraphRecord, NodeRecord, SubgraphRecord

    view = json.loads((HERE / "records" / "graphs.json").read_text())
    graphs = []
    for graph in view["graphs"]:
        nodes = tuple(NodeRecord(**node) for node in graph.pop("nodes"))
        subgraphs = tuple(SubgraphRecord(**subgraph) for subgraph in graph.pop("subgraphs"))
        graphs.append(GraphRecord(nodes=nodes, subgraphs=subgraphs, **graph))
    breaks = tuple(GraphBreak(**each) for each in view["graph_breaks"])
    again = tuple(Recompilation(**each) for each in view["recompilations"])
    found = Explanation(tuple(graphs), breaks, again, view["exit_code"], view["ended_by"])
    return _written(folder / "graph.html", make_page(found, "train.py").render())


def _written(path: Path, page: str) -> Path:
    path.write_text(page, encoding="utf-8")
    return path
