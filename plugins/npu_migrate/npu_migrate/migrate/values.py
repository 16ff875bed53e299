"""Devices and backends as programs write them: a literal, a formatted text, one of two, one of several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Callable, NamedTuple, Optional

import libcst as cst

from npu_migrate.migrate.syntax import literal, with_text
from torch_npu_patches.transfer_to_npu.devices import npu_backend, npu_name, npu_tensor_type

__all__ = ["Part", "is_value", "parts", "translate"]

#: A device whose number is filled in: ``"cuda:%d" % rank``, ``"cuda:{}".format(rank)``, ``"cuda:" + str(rank)``.
_TEMPLATE = re.compile(r"cuda(:(%[ds]|\{\w*\})?)")

_TRANSLATORS: dict[str, Callable[[str], Optional[str]]] = {
    "device": npu_name,
    "backend": npu_backend,
    "tensor_type": npu_tensor_type,
}


class Part(NamedTuple):
    """A part of an expression that decides its value.

    Args:
        node: the part.
        new: the new value, ``None`` for a part whose value comes from elsewhere: a name, an attribute.
    """

    node: cst.BaseExpression
    new: Optional[cst.BaseExpression]


def translate(text: str, value: str) -> Optional[str]:
    """Return the text for an NPU, ``None`` if it stays.

    Args:
        text: the text as a whole.
        value: the kind that it is taken for, one of :data:`npu_migrate.migrate.rules.VALUES`.
    """
    return _TRANSLATORS[value](text)


def is_value(node: cst.CSTNode) -> Optional[str]:
    """Return the kind of a literal, ``device``, ``backend`` or ``tensor_type``, ``None`` for nothing of these.

    ``torch.cuda.Event`` looks like a type: it stands in annotations.
    """
    if isinstance(node, cst.FormattedString):
        return "device" if _formatted(node) is not None else None
    text = literal(node)
    if text is None:
        return None
    if _TEMPLATE.fullmatch(text) or npu_name(text):
        return "device"
    if "nccl" in re.split("[,:]", text) and re.fullmatch(r"(\w+:)?\w+(,\w+:\w+)*", text):
        return "backend"
    return "tensor_type" if re.fullmatch(r"torch\.cuda(\.\w+)+", text) else None


def parts(node: Optional[cst.BaseExpression], value: str) -> Iterator[Part]:
    """Yield the parts of an expression that decide its value, where the expression is of a form that is known.

    Args:
        node: an expression in a place where a device, backend or tensor type is expected; ``None`` has no parts.
        value: which of them.
    """
    if isinstance(node, cst.SimpleString):
        text = literal(node)
        new = None if text is None else translate(text, value)
        if new is not None:
            yield Part(node, with_text(node, new))
        elif value == "device":
            yield from _template(node)
    elif isinstance(node, cst.FormattedString) and value == "device":
        formatted = _formatted(node)
        if formatted is not None:
            yield Part(node, formatted)
        elif node.parts and isinstance(node.parts[0], cst.FormattedStringExpression):
            yield from parts(node.parts[0].expression, value)
    elif isinstance(node, cst.IfExp):
        yield from parts(node.body, value)
        yield from parts(node.orelse, value)
    elif isinstance(node, cst.BooleanOperation):
        yield from parts(node.left, value)
        yield from parts(node.right, value)
    elif isinstance(node, cst.BinaryOperation) and value == "device":
        if isinstance(node.operator, (cst.Modulo, cst.Add)):
            yield from _template(node.left)
    elif isinstance(node, cst.Call):
        yield from _of_call(node, value)
    elif isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        for element in node.elements:
            yield from parts(element.value, value)
    elif isinstance(node, cst.Dict):  # map_location: the keys name the device that the file was written on
        for entry in node.elements:
            yield from parts(entry.value, value)
    elif isinstance(node, cst.NamedExpr):
        yield from parts(node.value, value)
    elif isinstance(node, (cst.Name, cst.Attribute)):
        yield Part(node, None)


def _of_call(node: cst.Call, value: str) -> Iterator[Part]:
    function = node.func
    if isinstance(function, cst.Attribute) and function.attr.value == "format" and value == "device":
        yield from _template(function.value)
    elif isinstance(function, cst.Attribute) and function.attr.value in ("lower", "strip"):
        yield from parts(function.value, value)
    elif isinstance(function, cst.Name) and function.value == "str" and len(node.args) == 1:
        yield from parts(node.args[0].value, value)


def _template(node: cst.BaseExpression) -> Iterator[Part]:
    text = literal(node)
    if isinstance(node, cst.SimpleString) and text is not None and _TEMPLATE.fullmatch(text):
        yield Part(node, with_text(node, f"npu{text[4:]}"))


def _formatted(node: cst.FormattedString) -> Optional[cst.FormattedString]:
    """``f"npu:{rank}"`` for ``f"cuda:{rank}"``."""
    if len(node.parts) != 2 or not isinstance(node.parts[1], cst.FormattedStringExpression):
        return None
    head = node.parts[0]
    if not isinstance(head, cst.FormattedStringText) or head.value != "cuda:":
        return None
    return node.with_changes(parts=(head.with_changes(value="npu:"), node.parts[1]))
