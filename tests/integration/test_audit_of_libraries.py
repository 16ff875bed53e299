"""audit: stock processes have exactly the patches that are known from their sources, and those of gevent and wrapt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Patches of stock libraries, read in their sources.
STOCK = {
    "inspect:getfile",  # torch/package/package_importer.py, `_patched_getfile`
    "typing:_check_generic",  # typing_extensions.py
    "typing:_collect_parameters",  # typing_extensions.py
    "typing:_collect_type_parameters",  # its name from Python 3.13 on
    "multiprocessing.synchronize:SemLock._make_name",  # joblib/externals/loky/backend/synchronize.py
    "sys.modules['distutils']",  # setuptools, _distutils_hack/__init__.py
}


def audited(code: str) -> list[dict[str, Any]]:
    program = f"import patchcore as pc\npc.audit()\n{code}\nimport json; print(json.dumps(pc.audit().to_dict()))"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["findings"]
    return found


@pytest.mark.parametrize("modules", ["torch", "mmdet.apis", "numpy, scipy.linalg"])
def test_a_stock_process_has_the_known_patches_only(modules: str) -> None:
    for module in modules.split(", "):
        pytest.importorskip(module.partition(".")[0])
    found = audited(f"import {modules}")
    assert {row["target"] for row in found} <= STOCK
    assert not any(row["conflict"] for row in found)
    if "torch" in modules:
        (row,) = [row for row in found if row["target"] == "inspect:getfile"]
        assert row["by"].startswith("torch ")
        assert row["written at"].startswith(f"torch{os.sep}package{os.sep}package_importer.py:")


def test_gevent_is_the_maker_of_its_patches() -> None:
    pytest.importorskip("gevent")
    found = audited("import socket, threading, time, ssl\nfrom gevent import monkey; monkey.patch_all()")
    rows = {row["target"]: row for row in found}
    assert {"socket:socket", "time:sleep", "threading:local", "ssl:SSLContext"} <= set(rows)
    makers = [row["by"].partition(" ")[0] for row in found]
    assert makers.count("gevent") >= 0.9 * len(makers)


def test_a_patch_by_wrapt_is_of_its_user() -> None:
    pytest.importorskip("wrapt")
    found = audited(
        "import json, wrapt\n"
        "def wrapper(wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)\n"
        "wrapt.wrap_function_wrapper(json, 'dumps', wrapper)"
    )
    (row,) = [row for row in found if row["target"] == "json:dumps"]
    assert row["kind"] == "replaced"
