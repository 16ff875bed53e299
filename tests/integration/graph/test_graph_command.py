"""``patchcore graph explain`` says what became of each operator; backends and vendors are listed where users look."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("in between")
    for part in (
        "graph 1: forward, static, vendor reference: ",
        "backward, static",
        "cache built",
        "aten.native_dropout.default",
        "train.py:8",
        "random: numbers come from torch's generator",
        "1 graph breaks",
        "train.py:9: ",
    ):
        assert part in done.stdout


def test_explain_gives_json_for_a_script_that_names_no_backend(
    installed: None, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys, torch\nprint(sys.argv)\ntorch.compile(lambda x: x.exp().sort())(torch.ones(3))\n")
    assert main(["graph", "explain", "--backend", "reference", "--format", "json", str(script), "--epochs", "3"]) == 0
    printed = capsys.readouterr()
    assert f"{[str(script), '--epochs', '3']}" in printed.err
    (graph,) = json.loads(printed.out)["graphs"]
    assert graph["vendor"] == "reference"
    assert {(node["operator"], node["where"], node["reason"]) for node in graph["nodes"]} == {
        ("aten.exp.default", "subgraph_0", ""),
        ("aten.sort.default", "eager", "no conversion"),
    }


@pytest.mark.parametrize(
    ("source", "code", "text"),
    [("raise SystemExit(3)", 3, "no graph"), ("1 / 0", 1, "no graph"), ("", 1, "no graph")],
    ids=["exits", "raises", "compiles nothing"],
)
def test_explain_ends_as_its_script_does(
    installed: None, tmp_path: Path, capsys: Any, source: str, code: int, text: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(source)
    assert main(["graph", "explain", str(script)]) == code
    assert text in capsys.readouterr().out


def test_explain_counts_what_stays_eager_most_frequent_first(installed: None, tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n\ndef call(x):\n    return x.sort()[0].cos().sort()[0].argsort(), x.bernoulli()\n\n"
        "torch.compile(call)(torch.ones(3))\n"
    )
    assert main(["graph", "explain", "--backend", "reference", str(script)]) == 0
    table = capsys.readouterr().out.partition("Why eager\n")[2].splitlines()
    rows = [line.split(maxsplit=2) for line in table if line.startswith("  ")]
    assert rows[0] == ["CALLS", "OPERATOR", "WHY"]
    assert rows[1] == ["3", "aten.sort.default", "no conversion"]
    assert [row[0] for row in rows[2:]] == ["1"]


def test_a_script_that_is_not_there_is_a_usage_error(installed: None, capsys: Any) -> None:
    assert main(["graph", "explain", "nowhere.py"]) == 2
    assert "there is no script nowhere.py" in capsys.readouterr().err


def test_without_torch_explain_says_what_to_install(
    installed: None, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["graph", "explain", str(script)]) == 2
    assert "pip install 'npu-graph[torch]'" in capsys.readouterr().err


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


def test_torch_lists_the_backend_and_compiles_with_it(installed: None) -> None:
    import torch

    assert "patchcore_reference" in torch._dynamo.list_backends()
    compiled = torch.compile(lambda x: x.exp(), backend="patchcore_reference", options={"check": True})
    torch.testing.assert_close(compiled(torch.ones(3)), torch.ones(3).exp())
