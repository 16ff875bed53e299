"""Compare the Chinese pages with the English pages that they translate.

python tools/translations.py          # exits with 1 and says what differs
python tools/translations.py --write  # copies code blocks from the English pages first

A translation has the headings, code blocks, inline code, links and rows of tables of the English page, in the same
sections. Code blocks are not translated, nor are comments in them. Sentences may change places within a section.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

ROOT = Path(__file__).resolve().parent.parent

#: A link at the top of each page to the page in the other language; these are compared apart from all others.
TO_CHINESE, TO_ENGLISH = "简体中文", "English"

_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+", re.MULTILINE)
_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[((?:[^][]|\[[^][]*\])*)\]\(([^)\s]+)\)")


class Section(NamedTuple):
    """What lies between two headings or code blocks, or one of these.

    Args:
        line: where it begins, from 1.
        kind: ``"heading"``, ``"code"`` or ``"text"``.
        text: as it is written.
    """

    line: int
    kind: str
    text: str


def pairs() -> list[tuple[Path, Path]]:
    """Return each English page that has a translation, with its translation."""
    folder = ROOT / "docs" / "zh"
    translated = [(ROOT / "docs" / page.relative_to(folder), page) for page in sorted(folder.rglob("*.md"))]
    return [(ROOT / "README.md", ROOT / "README.zh-CN.md"), *translated]


def sections(text: str) -> Iterator[Section]:
    """Split a page at its headings and code blocks."""
    codes = [*_FENCED.finditer(text)]
    outside = _FENCED.sub(lambda match: re.sub(r"[^\n]", "\0", match[0]), text)
    codes += _INDENTED.finditer(outside)
    found = [(match.span(), "code") for match in codes]
    found += [(match.span(), "heading") for match in _HEADING.finditer(outside)]
    end = 0
    for (start, stop), kind in [*sorted(found), ((len(text), len(text)), "")]:
        for name, piece, position in (("text", text[end:start], end), (kind, text[start:stop], start)):
            if piece.strip():
                position += len(piece) - len(piece.lstrip("\n"))
                yield Section(text.count("\n", 0, position) + 1, name, piece.strip("\n"))
        end = stop


def differences(english: Path, chinese: Path) -> list[str]:
    """Return what differs between a page and its translation, each as a line with both places."""
    ours, theirs = ([*sections(page.read_text(encoding="utf-8"))] for page in (english, chinese))
    found = []
    for index in range(max(len(ours), len(theirs))):
        first, second = (pieces[index] if index < len(pieces) else None for pieces in (ours, theirs))
        where = f"{_place(english, first)}, {_place(chinese, second)}"
        if first is None or second is None or first.kind != second.kind:
            return [*found, f"{where}: {_kind(first)} in English, {_kind(second)} in Chinese"]
        found += [f"{where}: {what}" for what in _compare(first, second, english, chinese)]
    return found


def _compare(first: Section, second: Section, english: Path, chinese: Path) -> Iterator[str]:
    if first.kind == "code":
        if first.text != second.text:
            yield "the code blocks differ; python tools/translations.py --write copies the English one"
        return
    for what, one, other in (
        ("heading level", len(first.text.split()[0]), len(second.text.split()[0])),
        ("rows of tables", first.text.count("\n|"), second.text.count("\n|")),
        ("inline code", {*_INLINE.findall(first.text)}, {*_INLINE.findall(second.text)}),
        ("links", {*_links(english, first.text)}, {*_links(chinese, second.text)}),
    ):
        if what == "heading level" and first.kind != "heading":
            continue
        if isinstance(one, int):
            if one != other:
                yield f"{what}: {one} in English, {other} in Chinese"
        elif one != other:
            yield f"{what}: only in English {sorted(one - other)}, only in Chinese {sorted(other - one)}"


def _links(page: Path, text: str) -> Iterator[str]:
    """Yield where links lead, as if translated pages were their English ones; anchors of these are in no language."""
    english = {chinese: page for page, chinese in pairs()}
    for label, target in LINK.findall(text):
        if "://" in target:
            yield target
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if label in (TO_CHINESE, TO_ENGLISH):
            continue
        name = english.get(file, file).relative_to(ROOT).as_posix()
        yield name if file in english or file in english.values() else f"{name}#{anchor}"


def dead_links(page: Path) -> list[str]:
    """Return the links of a page whose file or heading is not there, and those that leave Chinese without need."""
    found = []
    translations = dict(pairs())
    is_chinese = page in translations.values()
    for label, target in LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            found.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            found.append(f"{target}: no such heading")
        elif is_chinese and file in translations and label != TO_ENGLISH:
            found.append(f"{target}: there is a Chinese page of it")
    return found


def anchors(text: str) -> set[str]:
    """Return what ``#`` in a link to a page may be followed by."""
    text = _FENCED.sub("", text)
    headings = (re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for _, title in _HEADING.findall(text))
    return {*headings, *re.findall(r'<a id="([^"]+)">', text)}


def with_code_of(english: str, chinese: str) -> Optional[str]:
    """Return the Chinese text with the code blocks of the English one, ``None`` where their numbers differ."""
    codes = [section.text for section in sections(english) if section.kind == "code"]
    theirs = [section.text for section in sections(chinese) if section.kind == "code"]
    if len(codes) != len(theirs):
        return None
    written, position = [], 0
    for code, other in zip(codes, theirs):
        start = chinese.index(other, position)
        written += [chinese[position:start], code]
        position = start + len(other)
    return "".join([*written, chinese[position:]])


def _place(page: Path, section: Optional[Section]) -> str:
    name = page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name
    return f"{name}:{section.line}" if section else f"{name}: end"


def _kind(section: Optional[Section]) -> str:
    return f"{section.kind} {section.text.splitlines()[0]!r}" if section else "nothing"


def main(arguments: list[str]) -> int:
    """Compare all pages."""
    found = []
    for english, chinese in pairs():
        missing = [page for page in (english, chinese) if not page.is_file()]
        if missing:
            found += [f"{page.relative_to(ROOT).as_posix()}: no such page" for page in missing]
            continue
        if "--write" in arguments:
            text = chinese.read_text(encoding="utf-8")
            written = with_code_of(english.read_text(encoding="utf-8"), text)
            if written is not None and written != text:
                chinese.write_text(written, encoding="utf-8")
        found += differences(english, chinese)
        for page in (english, chinese):
            found += [f"{page.relative_to(ROOT).as_posix()}: {link}" for link in dead_links(page)]
    print("\n".join(found) or "no differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
