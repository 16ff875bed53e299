"""Draw docs/images/quickstart.svg: a terminal with the CUDA script of docs/quickstart.md, without and with patchcore.

    python tools/draw_terminal.py

The page is the source: its outputs are replayed by tests, so the picture shows what the commands print.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "quickstart.md"
PICTURE = ROOT / "docs" / "images" / "quickstart.svg"

COLUMNS = 106
#: Size of a character cell and of the frame around all of them, in pixels.
CELL_WIDTH, CELL_HEIGHT = 8.4, 20
MARGIN, BAR = 18, 34

FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
BACKGROUND, TEXT, PROMPT, FAINT, ERROR, GOOD = "#1b1f27", "#d7dbe2", "#7cb7ff", "#8a93a3", "#ff8f87", "#86d69b"


def transcript() -> list[str]:
    """Return the lines of the picture: the sessions of the page from the step that takes a CUDA script on."""
    page = PAGE.read_text(encoding="utf-8")
    steps = page[page.index("\n## 4.") : page.index("\n## The same from Python")]
    sessions = re.findall(r"^```console\n(.*?)^```", steps, flags=re.DOTALL | re.MULTILINE)
    return "\n".join(sessions).splitlines()


def wrapped(lines: list[str]) -> list[str]:
    """Return the lines as a terminal of ``COLUMNS`` columns breaks them."""
    return [line[start : start + COLUMNS] for line in lines for start in range(0, max(len(line), 1), COLUMNS)]


def colour(line: str) -> str:
    """Return the colour that makes a line stand out, or that of plain text."""
    if line.startswith("$ "):
        return PROMPT
    if "Error" in line:
        return ERROR
    if line.startswith(("step", "no findings")):
        return GOOD
    return FAINT if line.startswith("...") else TEXT


def draw(lines: list[str]) -> str:
    """Return an SVG of a terminal that shows the lines. It loads nothing, not even a font."""
    width = round(COLUMNS * CELL_WIDTH) + 2 * MARGIN
    height = BAR + len(lines) * CELL_HEIGHT + MARGIN
    buttons = "".join(f'<circle cx="{MARGIN + 18 * number}" cy="17" r="5" fill="{FAINT}"/>' for number in range(3))
    texts = "\n".join(
        f'<text x="{MARGIN}" y="{BAR + CELL_HEIGHT * number + 14}" fill="{colour(line)}">{escape(line)}</text>'
        for number, line in enumerate(lines)
        if line
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>{escape(lines[0])}</title>
<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>
{buttons}
<g font-family="{FONTS}" font-size="14" xml:space="preserve">
{texts}
</g>
</svg>
"""


def rendered() -> str:
    """Return the picture of the page as it is now."""
    return draw(wrapped(transcript()))


if __name__ == "__main__":
    PICTURE.write_text(rendered(), encoding="utf-8")
