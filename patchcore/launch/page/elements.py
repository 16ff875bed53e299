"""Elements: a page as a tree, and the tree as text in which everything is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Union
from xml.etree import ElementTree

__all__ = ["Content", "Element", "clean", "h", "render"]

Element = ElementTree.Element

#: What goes into an element: text, other elements, any number of both; ``None`` and ``""`` are nothing.
Content = Union[Element, str, None, Iterable["Content"]]

# Controls, halves of pairs, non-characters, and what turns the direction of the text around it.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def h(tag: str, *content: Content, **attributes: Union[str, bool, None]) -> Element:
    """Return an element.

    Args:
        tag: its name.
        content: what is in it, in order.
        attributes: ``class_`` stands for ``class`` and ``aria_label`` for ``aria-label``; ``True`` is an attribute
            without a value, and ``None`` or ``False`` is none.
    """
    element = Element(tag)
    for name, value in attributes.items():
        if value is not None and value is not False:
            text = "" if value is True else clean(value)
            element.set(name.rstrip("_").replace("_", "-"), text)
    _fill(element, content)
    return element


def render(element: Element) -> str:
    """Return the page whose root is ``element``."""
    return f"<!DOCTYPE html>\n{ElementTree.tostring(element, encoding='unicode', method='html')}\n"


def clean(text: str) -> str:
    """Return ``text`` with characters that cannot be in a page, or would not be seen there, as escape sequences."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode-escape").decode("ascii"), text)


def _fill(element: Element, content: Content) -> None:
    if content is None:
        return
    if isinstance(content, str):
        text = clean(content)
        if len(element):
            element[-1].tail = (element[-1].tail or "") + text
        else:
            element.text = (element.text or "") + text
    elif isinstance(content, Element):
        element.append(content)
    else:
        for part in content:
            _fill(element, part)
