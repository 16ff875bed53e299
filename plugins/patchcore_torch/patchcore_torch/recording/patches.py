"""The patches by which torch calls the recorder: made from settings, for one plan."""

from __future__ import annotations

from typing import Any, Union

from patchcore import Patch, Replace, Settings, Wrap
from patchcore_torch.recording.msprobe import Msprobe
from patchcore_torch.recording.options import RecordingOptions
from patchcore_torch.recording.recorder import Recorder
from patchcore_torch.training.loops import LAST

__all__ = ["RECORDING", "recording_patches"]

#: The names of the patches, the one that ends steps first.
RECORDING = ("patchcore.record", "patchcore.record.torch")
_KEY = "patchcore.record"
_MODULES = "torch.nn.modules.module"
_OPTIMIZERS = "torch.optim.optimizer"


def recording_patches(settings: Settings) -> list[Patch]:
    """Return the patches that record as the setting ``record`` says."""
    options = RecordingOptions.of(settings.get("record"))
    recorder: Union[Recorder, Msprobe]
    if options.msprobe is None:
        recorder = Recorder(options)
        summary = f"records steps {options.steps} in {options.path}"
        hooks = _hooks(recorder)
    else:
        recorder = Msprobe(options.msprobe)
        summary = f"msprobe records, for {options.path}"
        hooks = [_entry(_MODULES, "_global_forward_pre_hooks", recorder.enter_module)]
    common: dict[str, Any] = {"priority": LAST, "count": False}
    patches = [
        Patch(
            RECORDING[0],
            [Wrap("patchcore_torch.training.steps:after_step", recorder)],
            summary=summary,
            options=options.to_dict(),
            **common,
        ),
        Patch(RECORDING[1], hooks, summary=summary, requires="torch>=2", **common),
    ]
    if options.same_random:
        from patchcore_torch.recording.same_random import SAME_RANDOM

        patches.append(SAME_RANDOM)
    return patches


def _hooks(recorder: Recorder) -> list[Replace]:
    """Return the entries in torch's tables of global hooks, which its ``register_`` functions make, too.

    From torch 2.0 to 2.13 ``torch.nn.modules.module`` and ``torch.optim.optimizer``.
    """
    entries = (
        (_MODULES, "_global_forward_pre_hooks", recorder.enter_module),
        (_MODULES, "_global_forward_hooks", recorder.leave_module),
        (_MODULES, "_global_forward_hooks_always_called", True),
        (_OPTIMIZERS, "_global_optimizer_pre_hooks", recorder.before_optimizer),
        (_OPTIMIZERS, "_global_optimizer_post_hooks", recorder.after_optimizer),
    )
    return [_entry(*entry) for entry in entries]


def _entry(module: str, table: str, hook: Any) -> Replace:
    return Replace(f'{module}:{table}["{_KEY}"]', hook, create=True)
