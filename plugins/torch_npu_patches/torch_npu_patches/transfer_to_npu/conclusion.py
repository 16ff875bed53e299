"""What became of a program's CUDA calls, in a few words for the last line of ``patchcore run``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator

from patchcore.objects.modules import find_module
from patchcore.planning.plan import Plan
from torch_npu_patches.transfer_to_npu import audit
from torch_npu_patches.transfer_to_npu.devices import NPU
from torch_npu_patches.transfer_to_npu.groups import PREFIX

__all__ = ["describe_move"]


def describe_move(plan: Plan) -> Iterator[str]:
    """Yield which devices CUDA calls were moved to and at how many lines, or why nothing was moved.

    Nothing is said of a program that has not imported torch, and where the user has disabled these patches. torch_npu
    is not called: it may have shut down.

    Args:
        plan: the plan that was applied.
    """
    wanted = [entry for entry in plan if entry.patch.name.startswith(f"{PREFIX}.") and not entry.unwanted]
    if not wanted or "torch" not in sys.modules:
        return
    sites = audit.sites()
    if sites:
        lines = len({(site.file, site.line) for site in sites})
        yield f"CUDA moved to {_devices(sites)} at {lines} line{'' if lines == 1 else 's'}"
    elif any(entry.go for entry in wanted):
        yield "nothing moved: no call names CUDA"
    elif not find_module("torch_npu"):
        install = "" if importlib.util.find_spec("npu_emulator") else "pip install npu-emulator; "
        yield f"no NPU found, nothing moved: torch_npu is not installed ({install}--emulate-npu emulates one)"


def _devices(sites: list[audit.Site]) -> str:
    """Return the NPUs that arguments name now; without a number, if none of them has one, the current device."""
    named = sorted({site.after for site in sites if site.after == NPU or site.after.startswith(f"{NPU}:")})
    return ", ".join([name for name in named if ":" in name] or [NPU])
