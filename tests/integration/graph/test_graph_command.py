"""``patchcore graph explain`` says what became of each operator; backends and vendors are listed where users look."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import patchcore as pc
from patchcore.cli import main

SCRIPT = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))

@torch.compile(backend="{backend}")
def step(x):
    y = model(x)
    print("in between")
    return y.sum()

step(torch.ones(3, 4)).backward()
"""


@pytest.fixture
def installed() -> None:
    """Skip where this distribution's entry points are not installed: running from a bare checkout."""
    try:
        importlib.metadata.distribution("npu-graph")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("npu-graph is not installed: pip install --editable plugins/npu_graph")


def test_explain_tells_where_operators_went_and_why(installed: None, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(backend="patchcore_reference"))
    command = [sys.executable, "-m", "patchcore", "graph", "explain", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert "in between" in done.stderr.splitlines()  # torch warns of Python 3.13.0 before
    for part in (
        "graph 1: forward, static, vendor reference: ",
        "backward, static",
        "cache built",
        "aten.native_dropout.default",
        "train.py:8",
        "random: numbers come from torch's generator",
        "1 graph break\n",
        "train.py:9: ",
        "    Hint: ",
        "0 recompilations",
        "npu_graph.reference.linear",
        "4 graphs (2 forward, 2 backward): ",
        " built), ",
    ):
        assert part in done.stdout


def test_explain_gives_json_for_a_script_that_names_no_backend(
    installed: None, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys, torch\nprint(sys.argv)\ntorch.compile(lambda x: x.exp().sort())(torch.ones(3))\n")
    options = ["--backend", "reference", "--format", "json", "--html", str(tmp_path / "graphs.html")]
    assert main(["graph", "explain", *options, str(script), "--epochs", "3"]) == 0
    printed = capsys.readouterr()
    page = (tmp_path / "graphs.html").read_text()
    assert '<td data-label="Operator">aten.sort.default</td>' in page
    assert '<span class="badge pending">eager</span>' in page
    assert f"{[str(script), '--epochs', '3']}" in printed.err
    found = json.loads(printed.out)
    assert (found["exit_code"], found["ended_by"], found["recompilations"]) == (0, "", [])
    (graph,) = found["graphs"]
    assert graph["vendor"] == "reference"
    assert {(node["operator"], node["where"], node["reason"]) for node in graph["nodes"]} == {
        ("aten.exp.default", "subgraph_0", ""),
        ("aten.sort.default", "eager", "no conversion"),
    }


COMPILED_AGAIN = """
import sys
import torch

@torch.compile(backend="patchcore_reference")
def call(x, scale):
    return x.exp() * scale

for rows in range(2, 5):
    call(torch.ones(rows, 7), 1.0)
"""


def test_explain_of_a_module_has_symbols_recompilations_and_whose_conversions_they_are(
    installed: None, make_package: Any, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    make_package({"pack.__init__": "", "pack.train": COMPILED_AGAIN + "print(sys.argv[1:], __name__)\n"})
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    arguments = ["--format", "json", "-m", "pack.train", "--epochs", "3"]
    assert main(["graph", "explain", *arguments]) == 0
    printed = capsys.readouterr()
    assert "['--epochs', '3'] __main__" in printed.err
    found = json.loads(printed.out)
    static, dynamic = found["graphs"]
    assert static["symbols"] == []
    (symbol,) = dynamic["symbols"]
    assert symbol.endswith(": L['x'].size()[0]")
    assert {node["provider"] for node in static["nodes"]} == {"npu_graph.reference.elementwise"}
    (again,) = found["recompilations"]
    assert again["reason"] == "tensor 'x' size mismatch at index 0. expected 2, actual 3"
    assert again["function"] == "call"
    assert again["where"].endswith("train.py:5")


def test_a_script_that_fails_is_explained_as_far_as_it_came(installed: None, tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "train.py"
    script.write_text(COMPILED_AGAIN + "call(torch.ones(2, 7), torch.ones(3))\n")
    assert main(["graph", "explain", str(script)]) == 1
    printed = capsys.readouterr()
    assert ": inference, static, vendor reference: 2 operators" in printed.out
    assert "the program ended with " in printed.out
    assert '"<frozen runpy>"' not in printed.err, "the traceback begins in the script"


@pytest.mark.parametrize(
    ("source", "code", "text"),
    [
        ("raise SystemExit(3)", 3, "no graph"),
        ("raise SystemExit('why')", 1, "no graph"),
        ("1 / 0", 1, "the program ended with ZeroDivisionError: division by zero"),
        ("raise KeyboardInterrupt", 130, "the program ended with KeyboardInterrupt"),
        ("", 1, "no graph"),
    ],
    ids=["exits", "exits with a message", "raises", "interrupted", "compiles nothing"],
)
def test_explain_ends_as_its_script_does(
    installed: None, tmp_path: Path, capsys: Any, source: str, code: int, text: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(source)
    assert main(["graph", "explain", str(script)]) == code
    assert text in capsys.readouterr().out


def test_explain_shows_what_is_warned_of(installed: None, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # those of pytest
    monkeypatch.setattr(logging.getLogger("patchcore"), "handlers", [logging.NullHandler()])
    script = tmp_path / "train.py"
    script.write_text("import logging\nlogging.getLogger('patchcore').warning('subgraph_0 deviates')\n")
    main(["graph", "explain", str(script)])
    assert "patchcore: subgraph_0 deviates" in capsys.readouterr().err


def test_explain_counts_what_stays_eager_most_frequent_first(installed: None, tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n\ndef call(x):\n    return x.sort()[0].cos().sort()[0].argsort(), x.bernoulli()\n\n"
        "torch.compile(call)(torch.ones(3))\n"
    )
    assert main(["graph", "explain", "--backend", "reference", str(script)]) == 0
    table = capsys.readouterr().out.partition("Why eager\n")[2].partition("\n\n")[0].splitlines()
    rows = [line.split(maxsplit=2) for line in table if line.startswith("  ")]
    assert rows[0] == ["CALLS", "OPERATOR", "WHY"]
    assert rows[1] == ["3", "aten.sort.default", "no conversion"]
    assert [row[0] for row in rows[2:]] == ["1"]


def test_a_script_that_is_not_there_is_a_usage_error(installed: None, capsys: Any) -> None:
    assert main(["graph", "explain", "nowhere.py"]) == 2
    assert "there is no script nowhere.py" in capsys.readouterr().err
    assert main(["graph", "explain", "--html", "nowhere/page.html", "nowhere.py"]) == 2
    assert "--html nowhere/page.html: there is no directory" in capsys.readouterr().err


def test_without_torch_explain_says_what_to_install(
    installed: None, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["graph", "explain", str(script)]) == 2
    assert pc.install_command("npu-graph[torch]") in capsys.readouterr().err


def test_without_jinja_no_page_is_promised(installed: None, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["graph", "explain", "--html", "page.html", "nowhere.py"]) == 2
    assert pc.install_command("patchcore[html]") in capsys.readouterr().err


def test_vendors_are_listed_without_torch(installed: None, run_python: Any) -> None:
    printed = run_python(
        """
        import sys
        from patchcore.cli import main
        main(["list", "--plugin", "npu_graph"])
        assert "torch" not in sys.modules and "numpy" not in sys.modules
        """
    )
    assert "reference: readable NumPy source; cpu; plugin npu_graph; backend='patchcore_reference'" in printed
