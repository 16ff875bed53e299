"""Every operator that is computed is compared with the CPU: what is not compared is not in the table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

Results = list[dict[str, Any]]
#: torch_npu looks for these names and then calls HardswishBackwardV2 and LogSigmoidForward.
LOOKED_UP = {"HardswishBackward", "LogSigmoid"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What came of all cases."""
    return call_operators(Path(tmp_path_factory.mktemp("operators"), "results.jsonl")).rows


def call_operators(file: Path, *arguments: str, **env: str) -> Any:
    """Return the results of ``python -m fake_cann compare``."""
    from fake_cann.comparing.files import read

    done = compare("--into", str(file), *arguments, **env)
    assert done.returncode == 0, done.stderr
    return read(file)


def compare(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fake_cann", "compare", *arguments]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", **env}
    return subprocess.run(command, capture_output=True, text=True, timeout=1800, env=environ, check=False)


def test_no_operator_computes_something_else(results: Results) -> None:
    differing = [(r["case"], r["type"], r["called"], r["why"]) for r in results if r["outcome"] == "differs"]
    assert differing == []


def test_whatever_is_missing_is_refused_by_name(results: Results) -> None:
    failed = [(r["case"], r["type"], r["why"]) for r in results if r["outcome"] == "refused" and not names(r["why"])]
    assert failed == []


def test_no_operator_ends_the_process(results: Results) -> None:
    assert [(r["case"], r["type"], r["why"]) for r in results if r["outcome"] == "crashed"] == []


def names(why: str) -> bool:
    """Tell whether a message names an operator."""
    return "aclnn" in why or "not in lib" in why or "NotEmulated: the fake CANN has no" in why


def test_each_operator_of_the_table_was_compared(results: Results) -> None:
    from fake_cann.table import computed

    compared = Counter(name for result in results if result["outcome"] == "equal" for name in result["called"])
    assert sorted(set(computed()) - set(compared) - LOOKED_UP) == []


def test_each_operator_of_the_older_interface_was_compared(results: Results) -> None:
    import fake_cann

    sources = (Path(fake_cann.__file__).with_name("csrc") / "operators").glob("old*.cpp")
    text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    found = re.findall(r'^ {6}\{"(\w+)"', text, re.MULTILINE)
    names = {f"aclop {name}" for name in found}
    compared = {name for result in results if result["outcome"] == "equal" for name in result["called"]}
    assert names
    assert sorted(names - compared) == []


class TestTwoDevices:
    def test_of_one_kind_have_the_same_results(self, tmp_path: Path) -> None:
        first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
        assert call_operators(first, "--only", "cumsum").device["chip"] == "Ascend910B3"
        assert call_operators(second, "--only", "cumsum", FAKE_CANN_SOC="Ascend910B4").device["chip"] == "Ascend910B4"
        done = compare(str(first), str(second))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Ascend910B4, emulated (fake CANN): torch 2.13.0" in done.stdout
        assert done.stdout.splitlines()[-1].endswith(" the same, 0 not")
