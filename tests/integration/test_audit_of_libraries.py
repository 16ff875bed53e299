"""audit: stock processes of libraries have no patch but the well known ones, and gevent has all of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("torch")

#: Programs that only use libraries, by the library that has to be there.
STOCK = {
    "numpy": "import numpy; numpy.linalg.inv(numpy.eye(2))",
    "scipy": "import scipy.stats, scipy.optimize; scipy.stats.norm.pdf(0)",
    "pandas": "import pandas; pandas.DataFrame({'a': [1, 2]}).groupby('a').sum()",
    "sklearn": "import sklearn.ensemble; sklearn.ensemble.RandomForestClassifier(2).fit([[0], [1]], [0, 1])",
    "torch": "import torch; torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()",
    "mmdet": "import mmdet.apis, mmdet.models",
    "mmdet3d": "import mmdet3d.apis",
}


def audited(tmp_path: Path, program: str) -> list[dict[str, str]]:
    file = tmp_path / "program.py"
    file.write_text(program)
    command = [sys.executable, "-m", "patchcore", "audit", "--format", "json", "--disable", "*", "--", str(file)]
    environment = {**os.environ, "PATCHCORE_PLUGINS": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    (process,) = json.loads(done.stdout)["processes"]
    assert process["incomplete"] == []
    return [row for row in process["findings"] if row["by"] != "patchcore"]


@pytest.mark.parametrize("library", STOCK)
def test_a_stock_process_has_only_well_known_patches(tmp_path: Path, library: str) -> None:
    if find_spec(library) is None:
        pytest.skip(f"needs {library}")
    found = audited(tmp_path, STOCK[library])
    assert [(row["target"], row["by"], row["written at"]) for row in found if not row["known"]] == []
    if library == "torch":
        assert "inspect:getfile" in {row["target"] for row in found}


def test_all_patches_of_gevent_are_found(tmp_path: Path) -> None:
    pytest.importorskip("gevent")
    program = "import gevent.monkey\ngevent.monkey.patch_all()\nimport json, logging.handlers\n"
    found = {row["target"]: row for row in audited(tmp_path, program)}
    expected = {
        *("socket:socket", "socket:create_connection", "socket:getaddrinfo", "ssl:SSLSocket", "select:select"),
        *("time:sleep", "os:fork", "threading:Event", "_thread:start_new_thread", "subprocess:Popen"),
    }
    assert {target for target in expected if target in found} == expected
    assert {found[target]["by"].partition(" ")[0] for target in expected} == {"gevent"}
    # Names that gevent removes have no new code to show whose they are, where Python cannot watch writes.
    assert {row["by"].partition(" ")[0] for row in found.values() if row["kind"] != "removed"} <= {"gevent", "unknown"}
    assert sum(row["by"].startswith("gevent") for row in found.values()) >= 50
