"""Every operator that is computed is compared with the CPU: what is not compared is not in the table."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

Results = list[dict[str, Any]]
#: torch_npu looks for this name and then calls HardswishBackwardV2.
LOOKED_UP = {"HardswishBackward"}


@pytest.fixture(scope="module")
def results(on_cann: Any, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What came of all cases."""
    file = Path(tmp_path_factory.mktemp("operators"), "results.jsonl")
    on_cann("operator_cases.py", str(file), timeout=1800)
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_no_operator_computes_something_else(results: Results) -> None:
    differing = [(r["case"], r["type"], r["called"], r["why"]) for r in results if r["outcome"] == "differs"]
    assert differing == []


def test_whatever_is_missing_is_refused_by_name(results: Results) -> None:
    failed = [(r["case"], r["type"], r["why"]) for r in results if r["outcome"] == "refused" and not names(r["why"])]
    assert failed == []


def names(why: str) -> bool:
    """Tell whether a message names an operator."""
    return "aclnn" in why or "not in lib" in why or "NotEmulated: the fake CANN has no" in why


def test_each_operator_of_the_table_was_compared(results: Results) -> None:
    from fake_cann.table import computed

    compared = Counter(name for result in results if result["outcome"] == "equal" for name in result["called"])
    assert sorted(set(computed()) - set(compared) - LOOKED_UP) == []
