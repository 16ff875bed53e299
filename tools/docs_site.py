"""Hooks of mkdocs for the documentation site.

Pages may link to files of the repository that lie outside of docs/. Such a file becomes part of the site, under
``repository/``, and so does what it links to if it is a page itself. Links are written in the pages as they work in the
repository; here they are rewritten for the site.

Chinese pages say that they are Chinese, in ``lang`` and around the page. Names in code break after dots and colons. The
search works in pages that are opened as files: see docs_theme/assets/search.js.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
#: What the site has of the repository besides docs/.
OUTSIDE = "repository"

#: A fenced block, in which nothing is a link; or a link or picture to another file: what is shown, file, place in it.
_LINK = re.compile(
    r"(?P<fence>^ *(`{3,}).*?^ *\2)"
    r"|(?P<shown>!?\[(?:[^\[\]]|!?\[[^\[\]]*\])*\])\((?![a-z]+:|#)(?P<path>[^)#\s]+)(?P<place>#[^)\s]*)?\)",
    flags=re.DOTALL | re.MULTILINE,
)

#: The link at the top of a translated page, and of its translation.
_LANGUAGES = {"English": "en", "简体中文": "zh"}
_OTHER_LANGUAGE = re.compile(rf'<p>(<a href="[^"]*">({"|".join(_LANGUAGES)})</a>)</p>')
#: A block of code, which has lines of its own; or code within a line.
_CODE = re.compile(r"(<pre.*?</pre>)|<code>([^<]*)</code>", flags=re.DOTALL)
#: From this length on, a word of code may be too long for a cell of a table, or for a narrow screen.
_LONG = 30
#: Where a long word may break: after a dot or a colon, and before the key of an item.
_BREAK = re.compile(r"(?<=[\w\])][.:])(?=\w)|(?<=\w)(?=\[)")


def on_files(files: Any, *, config: Any) -> Any:
    """Add what the pages link to outside of docs/."""
    for path in sorted(_linked(file.src_uri for file in files if file.is_documentation_page())):
        files.append(File.generated(config, f"{OUTSIDE}/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrite the links of a page for the site."""
    here = posixpath.dirname(page.file.src_uri)

    def rewritten(link: re.Match[str]) -> str:
        if link["fence"]:
            return link.group()
        path = _target(_in_repository(page.file.src_uri), link["path"])
        if path is None:  # a folder without a page, or nothing, of which mkdocs warns
            is_folder = (ROOT / posixpath.dirname(_in_repository(page.file.src_uri)) / link["path"]).is_dir()
            return link["shown"].strip("[]") if is_folder else link.group()
        return f"{link['shown']}({posixpath.relpath(_on_site(path), here or '.')}{link['place'] or ''})"

    return _LINK.sub(rewritten, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Mark where code may break, and the link to the page in the other language, which is not worth searching."""
    html = _OTHER_LANGUAGE.sub(lambda link: f'<p data-search-exclude lang="{_LANGUAGES[link[2]]}">{link[1]}</p>', html)
    return _CODE.sub(lambda code: code[1] or f"<code>{re.sub(r'[^ ]+', _unbroken, code[2])}</code>", html)


def _unbroken(word: re.Match[str]) -> str:
    """Return a word of code as HTML that keeps it in one line; assets/site.css has the classes.

    A browser would break it after a hyphen, and the theme anywhere.
    """
    if len(word[0]) < _LONG:
        return f'<span class="code-word">{word[0]}</span>' if "-" in word[0] else word[0]
    return f'<span class="code-word code-long">{_BREAK.sub("<wbr>", word[0])}</span>'


def on_page_context(context: Any, *, page: Any, config: Any, **_: Any) -> Any:
    """Set the language of a page: the theme writes it to ``lang``, and takes the words around the page from it."""
    path = page.file.src_uri
    config.theme["language"] = "zh" if path.startswith("zh/") or path.endswith(".zh-CN.md") else "en"
    return context


def on_post_build(*, config: Any) -> None:
    """Write the search index as a script, too: a page that is opened as a file can load no other file."""
    index = Path(config.site_dir, "search", "search_index.json").read_text(encoding="utf-8")
    Path(config.site_dir, "search", "search_index.js").write_text(f"var __index = {index}", encoding="utf-8")


def _linked(pages: Iterator[str]) -> set[str]:
    """Return the files outside of docs/ that pages of the site lead to, as paths in the repository."""
    found: set[str] = set()
    waiting = [_in_repository(page) for page in pages]
    while waiting:
        page = waiting.pop()
        for link in _LINK.finditer((ROOT / page).read_text(encoding="utf-8")):
            path = None if link["fence"] else _target(page, link["path"])
            if path is None or path in found or path.startswith("docs/"):
                continue
            found.add(path)
            if path.endswith(".md"):
                waiting.append(path)
    return found


def _target(page: str, link: str) -> str | None:
    """Return the file that a link leads to, as a path in the repository; of a folder its page."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if (ROOT / path).is_dir():
        path = posixpath.join(path, "README.md")
    return path if (ROOT / path).is_file() else None


def _in_repository(site: str) -> str:
    return site[len(OUTSIDE) + 1 :] if site.startswith(f"{OUTSIDE}/") else f"docs/{site}"


def _on_site(path: str) -> str:
    return path[len("docs/") :] if path.startswith("docs/") else f"{OUTSIDE}/{path}"
