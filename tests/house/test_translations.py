"""The Chinese pages have the commands, code, links and sections of the English ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
Compare = Callable[[str], "list[str]"]

PAGES = (
    "adopting",
    "audit",
    "clusters",
    "coming-from/README",
    "coming-from/dicp",
    "coming-from/mindspeed",
    "coming-from/ms_fmk_transplt",
    "coming-from/mx_driving",
    "coming-from/pyprof",
    "coming-from/transfer_to_npu",
    "commands",
    "comparing",
    "concepts",
    "cuda-by-name",
    "diffusers",
    "faq",
    "migration-guide",
    "mindspeed",
    "mx-driving-patcher",
    "quickstart",
    "transformers",
    "troubleshooting",
    "writing-patches",
)

ENGLISH = """# Title

[简体中文](zh/page.md)

Run `one` or `two`, see [more](more.md).

```sh
one --two  # comment
```

## Then

| a | b |
|---|---|
| `x` | y |

    two --three
"""
CHINESE = """# 标题

[English](../page.md)

运行 `two` 或 `one`。参见[更多](../more.md)。

```sh
one --two  # comment
```

## 然后

| 甲 | 乙 |
|---|---|
| `x` | 某 |

    two --three
"""


@pytest.fixture
def translations(import_tool: Callable[[str], ModuleType]) -> ModuleType:
    return import_tool("translations")


def page(name: str, *, chinese: bool) -> Path:
    if name == "README":
        return ROOT / ("README.zh-CN.md" if chinese else "README.md")
    return ROOT / "docs" / ("zh" if chinese else "") / f"{name}.md"


class TestPages:
    def test_the_set_is_complete(self, translations: ModuleType) -> None:
        expected = [(page(name, chinese=False), page(name, chinese=True)) for name in ("README", *PAGES)]
        assert translations.pairs() == expected

    @pytest.mark.parametrize("name", ["README", *PAGES])
    def test_translation_has_the_code_and_links_of_the_english_page(self, translations: ModuleType, name: str) -> None:
        found = translations.differences(page(name, chinese=False), page(name, chinese=True))
        assert not found, "\n".join(found)

    @pytest.mark.parametrize("name", ["README", *PAGES])
    @pytest.mark.parametrize("chinese", [False, True], ids=["English", "Chinese"])
    def test_first_lines_name_the_page_in_the_other_language(
        self, translations: ModuleType, name: str, chinese: bool
    ) -> None:
        here = page(name, chinese=chinese)
        label = translations.TO_ENGLISH if chinese else translations.TO_CHINESE
        top = "\n".join(here.read_text(encoding="utf-8").splitlines()[:6])
        (target,) = (target for text, target in translations.LINK.findall(top) if text == label)
        assert (here.parent / target).resolve() == page(name, chinese=not chinese)

    @pytest.mark.parametrize("name", ["README", *PAGES])
    @pytest.mark.parametrize("chinese", [False, True], ids=["English", "Chinese"])
    def test_every_link_leads_somewhere(self, translations: ModuleType, name: str, chinese: bool) -> None:
        assert translations.dead_links(page(name, chinese=chinese)) == []

    @pytest.mark.parametrize("folder", ["docs", "examples", "plugins", "benchmarks", "tests", ""])
    def test_every_link_of_every_other_page_leads_somewhere(self, translations: ModuleType, folder: str) -> None:
        pages = [*(ROOT / folder).rglob("*.md")] if folder else [*ROOT.glob("*.md")]
        assert pages
        dead = {str(page.relative_to(ROOT)): translations.dead_links(page) for page in pages}
        assert {page: links for page, links in dead.items() if links} == {}


class TestComparison:
    @pytest.fixture
    def compared(self, translations: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compare:
        monkeypatch.setattr(translations, "ROOT", tmp_path)
        (tmp_path / "docs" / "zh").mkdir(parents=True)

        def compare(chinese: str) -> list[str]:
            pages = tmp_path / "docs" / "page.md", tmp_path / "docs" / "zh" / "page.md"
            for file, text in zip(pages, (ENGLISH, chinese)):
                file.write_text(text, encoding="utf-8")
            return translations.differences(*pages)

        return compare

    @pytest.mark.parametrize(
        ("before", "after", "what"),
        [
            ("one --two", "one --four", "page.md:7, docs/zh/page.md:7: the code blocks differ"),
            ("# comment", "# 注释", "code blocks differ"),
            ("    two --three", "    two --four", "page.md:17, docs/zh/page.md:17: the code blocks differ"),
            ("`one`", "one", "inline code: only in English ['one'], only in Chinese []"),
            ("`x`", "`z`", "inline code: only in English ['x'], only in Chinese ['z']"),
            ("../more.md", "../less.md", "links: only in English ['docs/more.md#']"),
            ("## 然后", "### 然后", "heading level: 2 in English, 3 in Chinese"),
            ("| `x` | 某 |", "| `x` | 某 |\n| 又 | 又 |", "rows of tables"),
            ("## 然后\n\n", "", "heading '## Then' in English, text"),
            ("\n    two --three\n", "", "code '    two --three' in English, nothing in Chinese"),
        ],
    )
    def test_a_difference_is_named(self, compared: Compare, before: str, after: str, what: str) -> None:
        assert before in CHINESE
        (found,) = compared(CHINESE.replace(before, after))
        assert what in found

    def test_code_is_copied_from_the_english_page(self, translations: ModuleType) -> None:
        stale = CHINESE.replace("one --two", "old").replace("two --three", "older")
        assert translations.with_code_of(ENGLISH, stale) == CHINESE
