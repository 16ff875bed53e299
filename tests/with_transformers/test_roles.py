"""``patchcore roles`` and the table that tools/roles_table.py writes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Callable

import pytest
import transformers
from comparing_models import MAJOR, RELEASE

from patchcore.cli import main

ROOT = Path(__file__).resolve().parents[2]


def roles_of(model: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the columns behind the name of each class and function that ``patchcore roles MODEL`` prints."""
    assert main(["roles", model]) == 0
    rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    return {row[1].strip(): " ".join(row[2:]) for row in rows if len(row) > 2}


def test_the_roles_of_a_model_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    found = roles_of("llama", capsys)
    assert "patched" in found["LlamaRMSNorm.forward"]
    assert "patched" in found["apply_rotary_pos_emb"]
    assert "left alone" in found["LlamaMLP.forward"]
    assert "reached by the library's door" in found["LlamaAttention"]
    assert main(["roles", "lama"]) == 2
    assert "did you mean 'llama'?" in capsys.readouterr().err


def test_experts_are_behind_a_door_of_transformers_5_only(capsys: pytest.CaptureFixture[str]) -> None:
    found = roles_of("mixtral", capsys)
    if MAJOR >= 5:
        assert "reached by the library's door" in found["MixtralExperts"]
    else:
        assert "left alone" in found["MixtralSparseMoeBlock"]
        assert "a loop over experts of its own" in found["MixtralSparseMoeBlock"]


def test_attention_is_left_alone_where_no_door_leads_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = roles_of("time_series_transformer", capsys)
    assert "left alone" in found["TimeSeriesTransformerAttention"]
    if RELEASE >= (4, 57):
        assert "the model has no sdpa" in found["TimeSeriesTransformerAttention"]
    assert "a softmax of its own" in roles_of("big_bird", capsys)["BigBirdBlockSparseAttention"]


@pytest.mark.skipif(RELEASE < (4, 55), reason="no gpt_oss")
def test_attention_with_sinks_is_patched(capsys: pytest.CaptureFixture[str]) -> None:
    found = roles_of("gpt_oss", capsys)
    assert "patched" in found["GptOssAttention"]
    assert "patched" in found["eager_attention_forward"]


@pytest.fixture
def roles_table(import_tool: Callable[[str], ModuleType]) -> ModuleType:
    return import_tool("roles_table")


def test_the_table_of_the_page_is_current(roles_table: ModuleType) -> None:
    page = roles_table.PAGE.read_text(encoding="utf-8")
    if f"Of transformers {transformers.__version__}," not in page:
        pytest.skip("the page is for the release of requirements/transformers.txt")
    assert roles_table.rendered(page) == page, "out of date: run python tools/roles_table.py"


def test_the_page_is_for_the_newest_release_that_is_tested() -> None:
    pins = (ROOT / "requirements" / "transformers.txt").read_text(encoding="utf-8").split()
    (newest,) = (pin.partition("==")[2] for pin in pins if pin.startswith("transformers=="))
    assert f"Of transformers {newest}," in (ROOT / "docs" / "transformers.md").read_text(encoding="utf-8")
