"""Words for the last line of ``patchcore run``: where the CUDA calls of the program were moved to."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator

import patchcore as pc
from patchcore import Plan
from patchcore.plugin import counted, find_module, namespace_of
from torch_npu_patches.transfer_to_npu import audit
from torch_npu_patches.transfer_to_npu.devices import NPU
from torch_npu_patches.transfer_to_npu.groups import PREFIX, SWITCH
from torch_npu_patches.transfer_to_npu.visible_devices import hides_all, hiding_variable

__all__ = ["describe_kinds", "describe_move", "vendor_adapter"]

_VENDOR = "torch_npu.contrib.transfer_to_npu"

#: The texts of the counts: the verb for one line, for several, and its object.
_KINDS = {
    audit.ARGUMENT: ("names CUDA", "name CUDA"),
    audit.NUMBER: ("passes a device number", "pass a device number"),
    audit.CALL: ("calls torch.cuda", "call torch.cuda"),
    audit.READ: ("reads is_cuda", "read is_cuda"),
}

#: The substitute of CUDA at a line where nothing was moved.
_NOTHING = ("False", "cpu")


def describe_move(plan: Plan) -> Iterator[str]:
    """Yield which devices CUDA calls were moved to and at how many lines, or why nothing was moved.

    Nothing is returned for a program that has not imported torch, or whose user has disabled these patches. torch_npu
    is not called: it may have shut down.

    Args:
        plan: the plan that was applied.
    """
    planned = [entry for entry in plan if entry.patch.name.startswith(f"{PREFIX}.")]
    wanted = [entry for entry in planned if entry.verdict != "off"]
    disabled_patches = [entry for entry in planned if entry.verdict == "off" and entry.patch.default]
    if "torch" not in sys.modules:
        return
    sites = audit.sites()
    vendor = vendor_adapter()
    disabled = ["calls of disabled patches"] if disabled_patches else []
    not_counted = f"not counted are {', '.join([*disabled, *audit.NOT_COUNTED])}"
    moved = [site for site in sites if site.after not in _NOTHING]
    if moved:
        yield _no_device(sites) or _moved(moved)
    elif sites:
        yield _no_device(sites) or f"nothing moved: the answer was no at {_at(sites)}; {not_counted}"
    elif any(entry.verdict == "apply" for entry in wanted):
        if hides_all():
            yield f"nothing moved: no NPU is visible{_hidden()}, and no line uses CUDA; {not_counted}"
        elif _npu_was_used():
            yield f"no line uses CUDA: the program or a library uses the NPU by its own name; {not_counted}"
        else:
            yield f"nothing moved: no line uses CUDA; {not_counted}"
    elif wanted and not find_module("torch_npu"):
        install = "" if importlib.util.find_spec("npu_emulator") else f"{pc.install_command('npu-emulator')}; "
        yield f"no NPU found, nothing moved: torch_npu is not installed ({install}--emulate-npu emulates one)"
    elif wanted and not vendor:
        switch = f"{SWITCH}=0"
        reason = (
            f"{switch} switches it off, unset it or set it to 1"
            if any(e.reason == switch for e in wanted)
            else wanted[0].reason
        )
        yield f"nothing moved: {reason}"
    if vendor:
        yield vendor


def describe_kinds(sites: Iterable[audit.Site]) -> str:
    """Return how many lines use CUDA in which way: ``2 name CUDA, 1 calls torch.cuda``.

    Args:
        sites: of these lines; a line that uses it in two ways counts for both.
    """
    lines: dict[str, set[tuple[str, int]]] = {}
    for site in sites:
        lines.setdefault(site.kind, set()).add((site.file, site.line))
    counts = [(len(lines[kind]), words) for kind, words in _KINDS.items() if kind in lines]
    return ", ".join(f"{count} {words[count > 1]}" for count, words in counts)


def vendor_adapter() -> str:
    """Return a sentence if the program has imported torch_npu's own adapter; empty if it has not.

    The emulator's module of that name applies the patches of this package, which count their calls.
    """
    space = namespace_of(sys.modules.get(_VENDOR)) or {}
    if not space or str(space.get("__name__", "")) != _VENDOR:
        return ""
    return f"the program imports {_VENDOR}, which moves CUDA too: calls that it moves are not counted"


def _moved(sites: list[audit.Site]) -> str:
    return f"CUDA moved to {_devices(sites)} at {_at(sites)}"


def _at(sites: list[audit.Site]) -> str:
    """Return at how many lines, of the program if any are, and how they use CUDA."""
    program = [site for site in sites if not site.installed]
    shown = program or sites
    lines, others = len(_lines(shown)), len(_lines(sites)) - len(_lines(shown))
    where = counted(lines, "line") if program else f"{counted(lines, 'line')} of installed packages"
    more = f" and {counted(others, 'line')} of installed packages" if others else ""
    return f"{where} ({describe_kinds(shown)}){more}"


def _no_device(sites: list[audit.Site]) -> str:
    """Return that no NPU was visible: every ``torch.cuda.is_available()`` returned False, or a variable hides them."""
    answers = {site.after for site in sites if site.place.target == "torch:cuda.is_available"}
    if answers != {"False"} and (_npu_was_used() or not hides_all()):
        return ""
    lines = len(_lines(sites))
    using = counted(lines, "line uses", "lines use")
    return f"nothing moved: no NPU is visible{_hidden()}; {using} CUDA ({describe_kinds(sites)})"


def _hidden() -> str:
    """Return the variable that hides NPUs with its value; empty if none is set."""
    variable = hiding_variable()
    return f" ({variable}={os.environ[variable]!r})" if variable else ""


def _lines(sites: Iterable[audit.Site]) -> set[tuple[str, int]]:
    return {(site.file, site.line) for site in sites}


def _npu_was_used() -> bool:
    """Return True if something has run on an NPU: torch_npu notes that before the first operator."""
    space = namespace_of(sys.modules.get("torch_npu.npu")) or {}
    ours = namespace_of(sys.modules.get("npu_emulator.torch_npu.npu._initialization")) or {}
    return bool(space.get("_initialized") or ours.get("_initialized"))


def _devices(sites: list[audit.Site]) -> str:
    """Return the NPUs that the program uses by number; without one, the current device."""
    named = sorted({device for site in sites for device in site.after.split(", ") if device.startswith(f"{NPU}:")})
    return ", ".join(named or [NPU])
