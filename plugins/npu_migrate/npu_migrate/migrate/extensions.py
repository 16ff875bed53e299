"""Operators and kernels in C++ and CUDA sources, which an NPU must have before the program runs."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import NamedTuple, Optional

from npu_migrate.migrate.findings import Finding
from npu_migrate.migrate.rules import Rule, RuleTable

__all__ = ["SUFFIXES", "operators", "rule_of_operator"]

#: Names of files that are looked into.
SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp")

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)
_BLOCK = re.compile(
    r"\b(?P<macro>PYBIND11_MODULE|TORCH_LIBRARY(?:_FRAGMENT|_IMPL)?)\s*\(\s*(?P<name>\w+)\s*,"
    r"\s*(?:(?P<key>\w+)\s*,\s*)?(?P<variable>\w+)\s*\)"
)
_DEFINED = re.compile(r'\b(?P<variable>\w+)\s*\.\s*(?:def|impl)\s*\(\s*(?:\w+\s*\(\s*)?"(?P<name>[\w.:]+)')
_KERNEL = re.compile(
    r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?:static\s+|inline\s+)*void\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*\("
)
_DEVICE_IMPLEMENTATION = re.compile(r"\bREGISTER_DEVICE_IMPL\s*\(\s*(?P<name>\w+)\s*,\s*CUDA\b")
_CUDA = re.compile(r"cuda|__global__", re.IGNORECASE)


class _Block(NamedTuple):
    start: int
    name: str
    key: Optional[str]
    variable: str


def operators(source: str, table: RuleTable, file: str, *, with_cuda: bool = False, line: int = 1) -> Iterator[Finding]:
    """Yield the operators that a source registers (pybind11, ``TORCH_LIBRARY``) and the CUDA kernels it defines.

    Args:
        source: C++ or CUDA.
        table: the rules; the first of kind ``operator`` whose pattern meets a name has the advice.
        file: its path, for findings.
        with_cuda: whether there are CUDA sources beside it; operators of a source that itself says nothing of CUDA
            are of the CPU otherwise.
        line: the number of its first line.
    """
    plain = _COMMENT.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), source)
    places: list[tuple[int, str, str]] = []
    if with_cuda or _CUDA.search(plain):
        blocks = [
            _Block(found.start(), found["name"], found["key"], found["variable"]) for found in _BLOCK.finditer(plain)
        ]
        for found in _DEFINED.finditer(plain):
            before = [block for block in blocks if block.start < found.start() and block.variable == found["variable"]]
            if not before:
                continue
            block = before[-1]
            if block.key not in (None, "CUDA", "AutogradCUDA", "CompositeExplicitAutograd", "AutocastCUDA"):
                continue
            module = "" if block.name == "TORCH_EXTENSION_NAME" else f"{block.name}::"
            name = found["name"]
            places.append((found.start("name"), name if "::" in name else f"{module}{name}", "operator"))
    places += ((found.start("name"), found["name"], "operator") for found in _DEVICE_IMPLEMENTATION.finditer(plain))
    places += ((found.start("name"), found["name"], "kernel") for found in _KERNEL.finditer(plain))
    for start, name, what in sorted(places):
        rule = rule_of_operator(table, name)
        if rule is not None:
            above = plain.count("\n", 0, start)
            column = start - plain.rfind("\n", 0, start)
            yield Finding(file, line + above, column, rule.id, "operator", f"{what} {name}", "", rule.note)


def rule_of_operator(table: RuleTable, name: str) -> Optional[Rule]:
    """Return the first rule of kind ``operator`` whose pattern meets a name."""
    short = name.rpartition("::")[2].lower()
    for rule in table.of_kind("operator"):
        if any(fnmatch.fnmatchcase(short, pattern.lower()) for pattern in rule.match) and rule.is_about(short):
            return rule
    return None
