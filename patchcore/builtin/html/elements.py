"""Elements: a page as a tree, and the tree as text in which everything is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union
from xml.etree import ElementTree

from patchcore.objects.printable import printable

__all__ = ["Content", "Element", "h", "render"]

Element = ElementTree.Element

#: What goes into an element: text, other elements, any number of both; ``None`` and ``""`` are nothing.
Content = Union[Element, str, None, Iterable["Content"]]


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
            text = "" if value is True else printable(value)
            element.set(name.rstrip("_").replace("_", "-"), text)
    _fill(element, content)
    return element


def render(element: Element) -> str:
    """Return the page whose root is ``element``."""
    text = ElementTree.tostring(element, encoding="unicode", method="html").replace("</wbr>", "")  # of Python 3.9
    return f"<!DOCTYPE html>\n{text}\n"


def _fill(element: Element, content: Content) -> None:
    if content is None:
        return
    if isinstance(content, str):
        text = printable(content)
        if len(element):
            element[-1].tail = (element[-1].tail or "") + text
        else:
            element.text = (element.text or "") + text
    elif isinstance(content, Element):
        element.append(content)
    else:
        for part in content:
            _fill(element, part)
