"""``patchcore check --runs``: patches that had no effect in recorded runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = """\
def price(item):
    return 10


def label(item):
    return item


def fee(item):
    return 1
"""
PLUGIN = """\
import patchcore as pc


def fast(item):
    return 9


@pc.hookimpl
def register_patches():
    return [
        pc.Patch("deals.price", pc.Replace("shop:price", fast)),
        pc.Patch(
            "deals.label",
            pc.Replace("shop:label", fast),
        ),
        pc.Patch("deals.fee", pc.Replace("shop:fee", fast, when_call=lambda item: False)),
    ]
"""


def patchcore(folder: Path, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "patchcore", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shop.py").write_text(LIBRARY)
    (tmp_path / "deals.py").write_text(PLUGIN)
    (tmp_path / "sell.py").write_text("import sys, shop\nfor name in sys.argv[1:]:\n    getattr(shop, name)(1)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PATCHCORE_PLUGINS", "")
    return tmp_path


def uncalled(out: str) -> dict[str, str]:
    return {each["subject"]: each["message"] for each in json.loads(out)["findings"] if each["kind"] == "uncalled"}


def test_a_patch_that_nobody_calls_in_any_run(folder: Path) -> None:
    for names in (["price", "fee"], ["price"]):
        code, _, err = patchcore(folder, "run", "--count", "-p", "deals", "--report-dir", "reports", "sell.py", *names)
        assert code == 0, err
    code, out, _ = patchcore(folder, "check", "-p", "deals", "--runs", "reports", "--exit-on", "uncalled")
    assert code == 1
    assert "no effect in 2 runs: nobody called shop:label" in out
    assert "next: delete the patch deals.label (deals.py:14)" in out
    assert "calls in 2 runs, 2 processes: counted for 3 patches" in out
    _, out, _ = patchcore(folder, "check", "-p", "deals", "--runs", "reports", "--format", "json")
    assert uncalled(out) == {
        "deals.label": "no effect in 2 runs: nobody called shop:label",
        "deals.fee": "no effect in 2 runs: when_call left the only call of shop:fee to the original",
    }
    code, _, _ = patchcore(folder, "run", "--count", "-p", "deals", "--report-dir", "reports", "sell.py", "label")
    _, out, _ = patchcore(folder, "check", "-p", "deals", "--runs", "reports", "--format", "json")
    assert set(uncalled(out)) == {"deals.fee"}  # one call in one run is enough


def test_runs_without_counts_are_refused(folder: Path) -> None:
    code, _, err = patchcore(folder, "run", "-p", "deals", "--report-dir", "reports", "sell.py", "price")
    assert code == 0, err
    code, _, err = patchcore(folder, "check", "-p", "deals", "--runs", "reports")
    assert code == 2
    assert "no calls were counted in reports; run the program with patchcore run --count" in err
    code, _, err = patchcore(folder, "check", "-p", "deals", "--runs", "nowhere")
    assert code == 2
    assert "no directory 'nowhere'" in err


def test_a_report_that_cannot_be_read_is_no_proof(folder: Path) -> None:
    patchcore(folder, "run", "--count", "-p", "deals", "--report-dir", "reports", "sell.py", "price")
    (folder / "reports" / "report-1-1.json").write_text("{")
    code, _, err = patchcore(folder, "check", "-p", "deals", "--runs", "reports")
    assert code == 2
    assert "report-1-1.json" in err
