"""Runs for tests of the page: reports as processes write them, enlarged and filled with arbitrary text."""

from __future__ import annotations

import copy
import importlib
import json
from typing import Any

from reports import LABEL, PRICE, Reports, patcher

from patchcore.builtin.report.reading import Process
from patchcore.builtin.report.report_file import read_report

#: Text that would do something in a page that does not escape it.
NASTY = (
    "</title></style><script>document.title='taken'</script><img src=x onerror=alert(1)>\"'&lt;&amp;\x1b[31m\u202e]]>"
)
#: The same as a reader sees it.
SHOWN = NASTY.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")

#: What the texts of :func:`nasty_run` begin with: each has to be on the page.
LABELS = (
    "patch-name",
    "patch-reason",
    "change-target",
    "change-reason",
    "slot",
    "rebound",
    "kept",
    "unreachable",
    "remark",
    "problem",
    "traceback",
    "note",
    "section",
    "mark",
    "line",
    "row",
    "file",
    "program",
    "directory",
    "setting",
    "option",
    "library",
    "layer",
    "original",
    "event",
    "detail",
)


def a_report(reports: Reports) -> dict[str, Any]:
    """Return the report of a process in which two patches are applied; run it where ``shop`` can be imported."""
    importlib.import_module("shop")
    path = reports.write(patcher(PRICE, LABEL))
    content: dict[str, Any] = json.loads(json.dumps(read_report(path)))  # lists in the place of tuples
    path.unlink()
    return content


def member(content: dict[str, Any], rank: int, role: str, pid: int, **view: Any) -> Process:
    """Return another process with the same report, but for ``view``."""
    environment = {**content["environment"], "rank": rank, "pid": pid, "parent": 1000 + rank}
    return Process({**content, "environment": environment, "role": role, **view})


def nasty_run(content: dict[str, Any]) -> list[Process]:
    """Return a run whose every text is nasty, each with a label that says where it comes from."""

    def text(label: str) -> str:
        return f"{label} {NASTY}"

    content = copy.deepcopy(content)
    name = text("patch-name")
    patch, change = content["patches"][0], content["patches"][0]["changes"][0]
    options = {"option": text("option")}
    content["manifest"]["patches"] = {name: {**content["manifest"]["patches"].pop(patch["name"]), "options": options}}
    patch.update(name=name, status="failed", reason=text("patch-reason"), remarks=[text("remark")])
    places = {key: [text(key)] for key in ("rebound", "kept", "unreachable")}
    change.update(
        target=text("change-target"), reason=text("change-reason"), status="failed", slots=[text("slot")], **places
    )
    problem = {"plugin": "shop", "where": "load", "distribution": None, "version": None}
    content["problems"] = [{**problem, "message": text("problem"), "traceback": text("traceback")}]
    content["notes"] = [text("note")]
    data = [{"file": text("file"), "line": 3, "what": text("row"), "count": 2}]
    lines = [text("line")]
    content["sections"] = [
        {"title": text("section"), "lines": lines, "mark": text("mark"), "data": None},
        {"title": "sites", "lines": lines, "mark": "", "data": data},
    ]
    content["environment"].update(program=text("program"), directory=text("directory"))
    content["settings"] = [{"name": "disable", "value": text("setting"), "origin": "--disable"}]
    content["arguments"] = [text("argument")]
    content["manifest"]["libraries"] = {text("library"): "1.0"}
    layer, original = content["layers"][0]["layers"][0], content["layers"][0]["original"]
    layer["place"]["name"], original["name"] = text("layer"), text("original")
    content["timeline"]["events"].append(
        {"at": 0.5, "took": 0.2, "kind": "import", "subject": text("event"), "detail": text("detail")}
    )
    return [Process(content)]


def large_run(
    content: dict[str, Any], *, ranks: int = 64, workers: int = 8, patches: int = 300, sites: int = 500
) -> list[Process]:
    """Return a run of many processes with many patches, of which one in ten is applied late, and many call sites."""
    content = copy.deepcopy(content)
    template, layers = content["patches"][0], content["layers"][0]
    manifest = content["manifest"]["patches"].pop(template["name"])
    names = [f"library.group{number % 7}.patch_number_{number}" for number in range(patches)]
    content["patches"] = [
        {
            **template,
            "name": name,
            "changes": [
                {**template["changes"][0], "target": f"library{n % 5}.module:Class.method_{n}_{i}"} for i in range(4)
            ],
        }
        for n, name in enumerate(names)
    ]
    content["manifest"]["patches"] = dict.fromkeys(names, manifest)
    content["layers"] = [
        {**layers, "target": change["target"]} for patch in content["patches"] for change in patch["changes"]
    ]
    events = [
        {"at": 0.01 * n, "took": 0.3 if n % 5 == 0 else None, "kind": "applied" if n % 5 else "import"}
        for n in range(patches)
    ]
    content["timeline"]["events"] = [
        {**event, "subject": f"library.module{n}" if event["kind"] == "import" else names[n], "detail": ""}
        for n, event in enumerate(events)
    ]
    rows = [
        {
            "target": "torch:zeros",
            "file": f"/work/model_{n % 20}.py",
            "line": n,
            "before": "cuda",
            "after": "npu",
            "count": n,
        }
        for n in range(sites)
    ]
    content["sections"] = [
        {"title": "rewritten", "lines": [f"line {n}" for n in range(sites)], "mark": "", "data": rows}
    ]
    worker = {"layers": [], "sections": [], "timeline": {**content["timeline"], "events": []}}
    found = [member(content, 0, "launcher", 999, sections=[])]
    for rank in range(ranks):
        found.append(member(content, rank, "rank", 1000 + rank))
        found += (member(content, rank, "worker", 2000 + rank * workers + i, **worker) for i in range(workers))
    return sorted(found, key=lambda process: process.order)
