"""Comparisons with the text ``"cuda"`` hold for the NPU as well, without a change of the source.

``x.device.type == "cuda"`` is false on an NPU, and the program takes the other branch: no autocast, no fused optimizer,
no pinned memory, and no error. :class:`patchcore.Rewrite` edits such lines by the rules here when Python compiles them.
:mod:`.editing` finds and edits them, :mod:`.running` has the functions that edited lines call, :mod:`.lines` counts the
lines that ran, and :mod:`.scope` decides which modules are edited.

Functions of libraries with a branch for NPUs look for CUDA first, or for both devices: in these functions
:mod:`.branches` makes ``torch.cuda.is_available()`` false.

``python -m torch_npu_patches.cuda_names PACKAGE ...`` lists these lines of packages: which are edited, which are not,
and why.
"""

from __future__ import annotations

import patchcore as pc
from torch_npu_patches.cuda_names import branches
from torch_npu_patches.cuda_names.editing import edit, find
from torch_npu_patches.cuda_names.lines import keep
from torch_npu_patches.cuda_names.scope import has_branches, is_library, is_program

__all__ = ["BRANCHES", "LIBRARIES", "PROGRAM"]

#: For the modules of the program: those that are not installed. A module that compares the devices of two objects is
#: edited without the word, too: the device comes from a configuration, say.
PROGRAM = pc.Rules(
    edit,
    words="cuda",
    attributes="device.type",
    find=find,
    concerns=is_program,
    noted=keep,
    depends_on="torch_npu_patches",
)

#: For installed packages.
LIBRARIES = pc.Rules(edit, words="cuda", find=find, concerns=is_library, noted=keep, depends_on="torch_npu_patches")

#: For packages with branches for NPUs.
BRANCHES = pc.Rules(
    branches.edit,
    words=branches.WORDS,
    find=branches.find,
    concerns=has_branches,
    noted=keep,
    depends_on="torch_npu_patches",
)
