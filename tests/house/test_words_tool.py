"""The check of docstrings and comments in tools/words.py."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Callable

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def words(import_tool: Callable[[str], ModuleType]) -> ModuleType:
    return import_tool("words")


def test_docstrings_and_comments_are_counted_and_code_is_not(words: ModuleType) -> None:
    source = '''"""What it is."""
what = "what"  # What for
class A:
    x: int
    """Whatever, and what."""
'''
    assert words.count(source) == (8, 3)


def test_a_folder_above_the_bound_fails_and_its_worst_file_is_printed(
    words: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain.py").write_text('"""' + "word " * 400 + '"""\n')
    assert words.main([str(tmp_path)]) == 0
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "riddle.py").write_text("# what it puts in what places\n")
    assert words.main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "inner/riddle.py" in printed
    assert "plain.py" not in printed
    (tmp_path / "plain").mkdir()
    assert words.main([str(tmp_path), str(tmp_path / "plain")]) == 1  # one folder above the bound fails all
    assert words.main([str(tmp_path / "plain")]) == 0
