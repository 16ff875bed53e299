"""``patchcore graph``: what becomes of the graphs of a script."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import runpy
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Optional

from npu_graph.backend import Backend
from npu_graph.recording import EAGER, GraphRecord, records
from patchcore.cli import FINDINGS, OK
from patchcore.cli.output import print_json, print_table
from patchcore.errors import SettingsError

__all__ = ["add_parser", "explain"]


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("graph", help="torch.compile for hardware of vendors: what becomes of graphs")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    action = actions.add_parser(
        "explain",
        help="run a script, say which of its operators went where and why",
        description="Run a script in this process and say what became of each of its graphs: which operators went to "
        "the vendor in which subgraph, which stayed eager and why, where dynamo broke graphs, what the cache had. What "
        "the script prints goes to stderr.",
        epilog="options of patchcore come before the script",
    )
    action.add_argument(
        "--backend", metavar="VENDOR", help="compile for this vendor what the script compiles without naming a backend"
    )
    action.add_argument("--nodes", action="store_true", help="list every operator, not only those that stay eager")
    action.add_argument("--format", choices=["table", "json"], default="table", help="json goes to stdout")
    action.add_argument("script", metavar="SCRIPT", help="a Python file")
    action.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="of the script")
    action.set_defaults(command=explain)


def explain(options: argparse.Namespace) -> int:
    """Run the script and print what became of its graphs; return the script's exit code, 1 where it had no graph.

    Raises:
        SettingsError: there is no such script, or no torch.
    """
    script = Path(options.script)
    if not script.is_file():
        raise SettingsError(f"there is no script {options.script}")
    if importlib.util.find_spec("torch") is None:
        raise SettingsError("compiling needs torch, which is not installed: pip install 'npu-graph[torch]'")
    before = len(records())
    with _default_backend(options.backend), _breaks() as breaks, contextlib.redirect_stdout(sys.stderr):
        code = _run(script, options.arguments)
    found = records()[before:]
    if options.format == "json":
        print_json({"graphs": [asdict(record) for record in found], "graph_breaks": breaks})
    else:
        _print(found, breaks, nodes=options.nodes)
    return code or (OK if found else FINDINGS)


def _run(script: Path, arguments: Sequence[str]) -> int:
    """Run the script; return its exit code, 1 where it raises."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except Exception:
        traceback.print_exc()
        return FINDINGS
    finally:
        sys.argv, sys.path[:] = argv, path
    return OK


@contextlib.contextmanager
def _default_backend(vendor: Optional[str]) -> Iterator[None]:
    if vendor is None:
        yield
        return
    from torch._dynamo.backends import registry

    before = registry.get_default_backend()
    registry.set_default_backend(Backend(vendor))
    try:
        yield
    finally:
        registry.set_default_backend(before)


@contextlib.contextmanager
def _breaks() -> Iterator[list[str]]:
    """Note the graph breaks of dynamo, each with its line."""
    from torch._dynamo.utils import graph_break_reasons

    before = len(graph_break_reasons)
    found: list[str] = []
    try:
        yield found
    finally:
        for each in graph_break_reasons[before:]:
            where = f"{each.user_stack[-1].filename}:{each.user_stack[-1].lineno}: " if each.user_stack else ""
            found.append(where + str(each.reason).partition("\n")[0])


def _print(found: Sequence[GraphRecord], breaks: Sequence[str], *, nodes: bool) -> None:
    if not found:
        print("no graph was compiled for a vendor; the script compiles nothing, or names another backend")
    for record in found:
        sizes = "dynamic" if record.dynamic else "static"
        print(
            f"graph {record.number}: {record.kind}, {sizes}, vendor {record.vendor}: {len(record.converted)} operators "
            f"in {len(record.subgraphs)} subgraphs, {len(record.eager)} eager, {record.seconds:.2f} s"
        )
        for subgraph in record.subgraphs:
            remark = f" ({subgraph.remark})" if subgraph.remark else ""
            print(
                f"  {subgraph.name}: {subgraph.operators} operators, cache {subgraph.cache}{remark}, {subgraph.source}"
            )
        shown = record.nodes if nodes else [node for node in record.nodes if node.where == EAGER]
        if shown:
            rows = [(node.name, node.operator, node.where, node.line, node.reason) for node in shown]
            print_table("  operators" if nodes else "  eager", ("NODE", "OPERATOR", "WHERE", "LINE", "WHY"), rows)
    eager = Counter((node.operator, node.reason) for record in found for node in record.eager)
    rows = [(str(calls), *what) for what, calls in sorted(eager.items(), key=lambda item: (-item[1], item[0]))]
    if rows:
        print()
        print_table("Why eager", ("CALLS", "OPERATOR", "WHY"), rows)
    print()
    print(f"{len(breaks)} graph breaks")
    for text in breaks:
        print(f"  {text}")
