"""The entry point in the group ``patchcore_support``: loaded with every Patcher, so it imports nothing heavy.

It has the settings ``profiling``, ``brake``, ``record`` and ``step``, and contributes patches if a user sets one of the
first three. Other plugins name training loops with the hook ``training_loops``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import patchcore as pc

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from patchcore import Patcher
    from patchcore.plugin import Candidate, Probe, ProcessReport
    from patchcore_torch.tensors.framework import Tensors

__all__ = [
    "before_apply",
    "child_probes",
    "known_foreign_patches",
    "process_patched",
    "rank_launchers",
    "register_commands",
    "register_handovers",
    "register_hookspecs",
    "register_marks",
    "register_patches",
    "register_run_options",
    "register_settings",
    "start_process",
    "verify_framework",
]

#: The patches that profile, record and brake: the source of their first change counts steps.
_COUNTING = ("patchcore.profiling", "patchcore.brake", "patchcore.record")
_SETTINGS = ("profiling", "brake", "record")


# --- training steps ---------------------------------------------------------------------------------------------------


@pc.hookimpl
def register_hookspecs() -> Any:
    """Bring the hook ``training_loops``."""
    from patchcore_torch import hookspecs

    return hookspecs


@pc.hookimpl
def register_settings() -> Iterable[pc.Setting]:
    """Return the settings of profiling, brake and recordings."""
    from patchcore_torch.recording.settings import SETTINGS as RECORDING
    from patchcore_torch.training.settings import SETTINGS

    return (*SETTINGS, *RECORDING)


@pc.hookimpl(optionalhook=True)
def register_run_options(parser: ArgumentParser, command: str) -> None:
    """Add ``--profile``, ``--brake``, ``--step`` and ``--record`` to ``patchcore run``."""
    from patchcore_torch.recording import settings as recording
    from patchcore_torch.training import settings as training

    if command == "run":
        training.add_options(parser)
        recording.add_options(parser)


@pc.hookimpl
def register_commands(subparsers: Any) -> None:
    """Add ``patchcore compare``."""
    subparsers.add_parser(
        "compare",
        group="trust",
        help="find where two runs of a program begin to differ",
        example="patchcore compare --second='--emulate-npu' -- train.py",
        usage="patchcore compare [options] FIRST SECOND\n       patchcore compare [options] -- PROGRAM [arguments]",
        allow_abbrev=False,
        fill="patchcore_torch.compared.command:add_arguments",
    )


@pc.hookimpl(optionalhook=True)
def known_foreign_patches() -> Iterable[tuple[str, str, str]]:
    """Return the patches that torch makes in every process: ``patch_getfile`` in torch/package/package_importer.py."""
    return [("torch", "inspect:getfile", "torch/package/package_importer.py")]


@pc.hookimpl
def register_patches(settings: pc.Settings, plugins: Any) -> Iterable[pc.Patch]:
    """Return the patches that count steps, profile, record and brake, if one of these is set."""
    if not _is_set(settings):
        return []
    from patchcore_torch.training.patches import counters, listeners

    found = [*counters(settings, plugins), *listeners(settings)]
    if settings.get("record") is not None:
        from patchcore_torch.recording.patches import recording_patches

        found += recording_patches(settings)
    return found


def _is_set(settings: pc.Settings) -> bool:
    return any(settings.get(name) is not None for name in _SETTINGS)


def _count_steps(candidates: Sequence[Candidate]) -> bool:
    """Return true if a patch profiles, records or brakes."""
    return any(candidate.patch.name in _COUNTING for candidate in candidates)


@pc.hookimpl(concerns=_count_steps)
def before_apply(patch: pc.Patch, planning: bool) -> None:
    """Have profiling, recording and braking count from 1 again when their patches are applied."""
    if not planning and patch.name in _COUNTING:
        for change in patch.changes:
            change.source.begin()


@pc.hookimpl(optionalhook=True)
def start_process(patcher: Patcher) -> None:
    """Report at the end of the process that it has counted no step, if it was to count some."""
    if patcher.settings.get("record") is not None:
        from patchcore_torch.recording.applied import remember

        remember(patcher)
    if patcher.settings.get("profiling") is not None or patcher.settings.get("brake") is not None:
        from patchcore_torch.training.ending import complain_without_steps

        complain_without_steps()


# --- compilers of torch -----------------------------------------------------------------------------------------------


@pc.hookimpl
def register_marks() -> list[str]:
    """Return the marks with which TorchScript calls patched functions, and compilers drop their stored attributes."""
    return ["patchcore_torch.torchscript:mark", "patchcore_torch.compilers:mark"]


@pc.hookimpl
def register_handovers() -> list[str]:
    """Return the handover with which patched functions of torch follow its protocol, ``__torch_function__``."""
    return ["patchcore_torch.overrides:handover"]


# --- the processes of a run -------------------------------------------------------------------------------------------


@pc.hookimpl(optionalhook=True)  # of the built-in plugin run, which may be left out; the same below
def process_patched(patcher: Patcher, report: ProcessReport) -> None:
    """Describe this rank in its report, and compare the ranks of a job once their process group is there."""
    from patchcore_torch.ranks.comparing import compare_when_grouped
    from patchcore_torch.ranks.launched import describe_rank

    describe_rank(report)
    compare_when_grouped(patcher, report)


@pc.hookimpl(optionalhook=True)
def rank_launchers() -> tuple[str, ...]:
    """Return the programs that start the ranks of torch and MindSpore."""
    torch = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
    return (*torch, "accelerate", "accelerate.commands.launch", "deepspeed", "deepspeed.launcher.launch", "msrun")


@pc.hookimpl(optionalhook=True)
def child_probes() -> Iterator[Probe]:
    """Yield the child processes of torch, for ``patchcore doctor --workers``."""
    from patchcore_torch.probes import probes

    yield from probes()


# --- verify -----------------------------------------------------------------------------------------------------------


@pc.hookimpl(optionalhook=True)
def verify_framework() -> Tensors:
    """Return how calls with tensors are made and compared."""
    from patchcore_torch.tensors.framework import Tensors

    return Tensors()
