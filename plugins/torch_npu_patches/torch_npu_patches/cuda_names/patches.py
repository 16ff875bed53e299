"""The patches of this folder: for the program, for installed packages, and for packages with branches for NPUs."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import patchcore as pc
from torch_npu_patches.cuda_names import editing, listing, running, scope
from torch_npu_patches.transfer_to_npu.changes import Adapt, Answer
from torch_npu_patches.transfer_to_npu.groups import PREFIX, layer_patch
from torch_npu_patches.transfer_to_npu.scripting import written_anew

__all__ = ["CUDA_NAMES"]


def make_parse_def(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function by which torch.jit.script reads a function; it edits comparisons with ``"cuda"``."""
    from torch_npu_patches.private_torch import is_dynamo_compiling

    running.is_compiling = is_dynamo_compiling  # torch is there now

    def parse_def(fn: Any) -> Any:
        parsed = original(fn)
        name = getattr(fn, "__module__", None) or ""
        is_ours = scope.is_program(name, parsed.filename) or scope.is_library(name, parsed.filename)
        if not is_ours or _is_off(name, parsed):
            return parsed
        module = "".join(linecache.getlines(parsed.filename))
        return written_anew(parsed, fn) if editing.edit_script(parsed.ast, parsed.source, module) else parsed

    return parse_def


def _is_off(module: str, parsed: Any) -> bool:
    """Return true if the list switches off a line of the function that TorchScript has read."""
    first = parsed.file_lineno
    last = first + parsed.source.count("\n")
    rows = listing.verdicts(module, parsed.filename).items()
    return any(first <= line <= last and not row.edited for (line, _), row in rows)


_NAMES = layer_patch(
    "names",
    [
        pc.Rewrite("*", "torch_npu_patches.cuda_names:PROGRAM"),
        Adapt("torch:jit.frontend.parse_def", make_parse_def),
        Answer("torch_npu_patches.cuda_names.unedited:is_on", True),
    ],
    'lines of the program that compare with "cuda" hold for the NPU, too',
    after=f"{PREFIX}.factory",
)

_LIBRARY_NAMES = layer_patch(
    "library_names",
    [pc.Rewrite("*", "torch_npu_patches.cuda_names:LIBRARIES")],
    "the same in installed packages but torch, where a function does not name npu itself",
)

_NPU_BRANCHES = layer_patch(
    "npu_branches",
    [pc.Rewrite("*", "torch_npu_patches.cuda_names:BRANCHES")],
    "functions of accelerate, peft and transformers that have a branch for NPUs take it: they find no CUDA",
)

#: All three.
CUDA_NAMES = (_NAMES, _LIBRARY_NAMES, _NPU_BRANCHES)
