"""``patchcore graph explain``: shows how the graphs of a program were compiled."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npu_graph.explaining import Explanation, explain_program
from npu_graph.recording import EAGER, HOST, GraphRecord
from patchcore.plugin import (
    EXIT_FINDINGS,
    EXIT_OK,
    TablesPage,
    TextTable,
    counted,
    log_to_stderr,
    need_jinja,
    print_json,
    print_line,
    print_table,
)

__all__ = ["add_action", "explain", "make_page"]

_NO_GRAPH = (
    "no graph was compiled for a vendor: the program compiles nothing, or names another backend; --backend c "
    "is for what it compiles without naming one"
)


def add_action(actions: Any) -> None:
    """Add the action."""
    action = actions.add_parser(
        "explain",
        example="patchcore graph explain --backend c train.py",
        help="run a script or a module, say which of its operators went where and why",
        description="Run a program in this process and say what became of each of its graphs: which operators went to "
        "the vendor in which subgraph, by whose conversions, which stayed eager and why, where dynamo broke graphs, "
        "what it compiled again, what the cache had. What the program prints goes to stderr.",
        epilog="options of patchcore come before the program; its exit code is that of this command, or else 1 where "
        "nothing was compiled for a vendor",
    )
    action.add_argument(
        "--backend", metavar="VENDOR", help="compile for this vendor what the program compiles without naming a backend"
    )
    action.add_argument("--nodes", action="store_true", help="list every operator, not only those that stay eager")
    action.add_argument("--format", choices=["table", "json"], default="table", help="json goes to stdout")
    action.add_argument("--html", type=Path, metavar="FILE", help="write a page with every operator, too")
    action.add_argument("-m", dest="as_module", action="store_true", help="the program is a module, as for python -m")
    action.add_argument("program", metavar="PROGRAM", help="a Python file, or with -m a module")
    action.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="of the program")
    action.set_defaults(command=explain)


def explain(options: argparse.Namespace) -> int:
    """Run the program and print how its graphs were compiled; return its exit code, or 1 if it had no graph.

    Raises:
        SettingsError: there is no such script, or the page cannot be written.
    """
    if options.html is not None:
        need_jinja("patchcore graph explain --html", options.html)
    log_to_stderr()  # warnings of the precision check
    found = explain_program(options.program, options.arguments, as_module=options.as_module, vendor=options.backend)
    if options.html is not None:
        make_page(found, shlex.join([options.program, *options.arguments])).write(options.html)
    if options.format == "json":
        print_json(
            {
                "graphs": [asdict(graph) for graph in found.graphs],
                "graph_breaks": [asdict(each) for each in found.breaks],
                "recompilations": [asdict(each) for each in found.recompilations],
                "exit_code": found.code,
                "ended_by": found.ended_by,
            }
        )
    else:
        _print(found, nodes=options.nodes)
    return found.code or (EXIT_OK if found.graphs else EXIT_FINDINGS)


def make_page(found: Explanation, program: str) -> TablesPage:
    """Return the page of an explanation.

    Args:
        found: the graphs of a program, and how they were compiled.
        program: its command line.
    """
    nodes = [
        (
            f"{graph.number} {node.name}",
            node.operator,
            node.where if node.reason else "converted",
            node.reason or node.provider,
            "" if node.reason else node.where,
            node.line,
        )
        for graph in found.graphs
        for node in graph.nodes
    ]
    graphs = [
        (
            str(graph.number),
            graph.kind,
            graph.vendor,
            str(len(graph.converted)),
            str(len(graph.eager)),
            f"{graph.seconds:.2f} s",
        )
        for graph in found.graphs
    ]
    breaks = [(each.where or "(unknown)", each.reason, str(each.count)) for each in found.breaks]
    again = [(each.where, each.function, each.reason) for each in found.recompilations]
    tables = [
        TextTable("Graphs", ("Graph", "Kind", "Vendor", "Converted", "Eager", "Took"), graphs),
        TextTable("Operators", ("Node", "Operator", "Went", "Why or by whom", "Subgraph", "Line"), nodes),
        TextTable("Graph breaks", ("Where", "Why", "Times"), breaks),
        TextTable("Recompilations", ("Where", "Function", "Why"), again),
    ]
    eager = sum(len(graph.eager) for graph in found.graphs)
    return TablesPage(
        "patchcore graph explain --html",
        f"{counted(eager, 'operator')} stayed eager" if eager else "No operator stayed eager",
        _sum_up(found.graphs) if found.graphs else _NO_GRAPH,
        good=False if found.ended_by or not found.graphs else None if eager or found.breaks else True,
        facts=[("Program", program), *([("Ended by", found.ended_by)] if found.ended_by else [])],
        tables=[table for table in tables if table.rows],
        next_commands=["patchcore graph cache --kernels"],
        kinds={EAGER: "pending", HOST: "skipped", "converted": "applied"},
    )


def _print(found: Explanation, *, nodes: bool) -> None:
    for graph in found.graphs:
        _print_graph(graph, nodes=nodes)
    if found.graphs:
        print()
    eager = Counter((node.operator, node.reason) for graph in found.graphs for node in graph.eager)
    if eager:
        rows = [(str(calls), *what) for what, calls in sorted(eager.items(), key=lambda item: (-item[1], item[0]))]
        print_table("Why eager", ("CALLS", "OPERATOR", "WHY"), rows)
        print()
    providers = Counter(node.provider for graph in found.graphs for node in graph.converted if node.provider)
    if providers:
        counts = [(str(count), provider) for provider, count in providers.most_common()]
        print_table("Converted by", ("OPERATORS", "MODULE"), counts)
        print()
    print(counted(sum(each.count for each in found.breaks), "graph break"))
    for each in found.breaks:
        times = f" ({counted(each.count, 'time')})" if each.count > 1 else ""
        print(f"  {each.where or '(unknown)'}: {each.reason}{times}")
        for line in each.details:
            print(f"    {line}")
    print(counted(len(found.recompilations), "recompilation"))
    for again in found.recompilations:
        print(f"  {again.where}: {again.function}: {again.reason}")
    print()
    _print_summary(found)


def _print_graph(graph: GraphRecord, *, nodes: bool) -> None:
    sizes = "dynamic" if graph.dynamic else "static"
    print_line(
        f"graph {graph.number}: {graph.kind}, {sizes}, vendor {graph.vendor}: "
        f"{counted(len(graph.converted), 'operator')} in {counted(len(graph.subgraphs), 'subgraph')}, "
        f"{len(graph.eager)} eager, {graph.seconds:.2f} s",
        "bold",
    )
    if graph.stands_in_for:
        print(f"  {graph.vendor} stands in for {graph.stands_in_for}")
    for symbol in graph.symbols:
        print(f"  size {symbol}")
    for subgraph in graph.subgraphs:
        remark = f" ({subgraph.remark})" if subgraph.remark else ""
        print(f"  {subgraph.name}: {subgraph.operators} operators, cache {subgraph.cache}{remark}, {subgraph.source}")
    shown = graph.nodes if nodes else graph.eager
    if shown:
        rows = [
            (node.name, node.operator, node.where, node.line, node.reason or f"converted by {node.provider}")
            for node in shown
        ]
        print_table("  operators" if nodes else f"  {EAGER}", ("NODE", "OPERATOR", "WHERE", "LINE", "WHY"), rows)


def _print_summary(found: Explanation) -> None:
    if found.ended_by:
        print_line(f"the program ended with {found.ended_by}; this is what it had compiled", "red")
    if not found.graphs:
        print(_NO_GRAPH)
        return
    print(_sum_up(found.graphs))


def _sum_up(graphs: Sequence[GraphRecord]) -> str:
    kinds = Counter(graph.kind for graph in graphs)
    subgraphs = [subgraph for graph in graphs for subgraph in graph.subgraphs]
    outcomes = Counter(subgraph.cache for subgraph in subgraphs)
    converted, eager = (sum(len(nodes) for nodes in each) for each in zip(*((g.converted, g.eager) for g in graphs)))
    return (
        f"{counted(len(graphs), 'graph')} ({', '.join(f'{count} {kind}' for kind, count in kinds.items())}): "
        f"{converted} of {converted + eager} operators in {counted(len(subgraphs), 'kernel')}"
        + (f" ({', '.join(f'{count} {outcome}' for outcome, count in outcomes.items())})" if subgraphs else "")
        + f", {sum(graph.seconds for graph in graphs):.2f} s"
    )
