"""mmcv 1.x without torchvision.

``mmcv.runner.checkpoint`` imports torchvision at its top, and so do ``mmcv.runner``, ``mmcv.cnn`` and ``mmcv.ops`` by
way of it. All it is used for are checkpoints named ``torchvision://resnet50``. Machines with NPUs often have none: a
torchvision fits one release of torch, and its builds for CUDA cannot be imported beside a torch without.

The stub is there for that one module. Whoever else asks for torchvision is told as before that it is not installed,
which other libraries take as a reason to do without. That is why the patch can be on by default: where it is needed,
nothing of mmcv 1.x but its file utilities can be imported without it.
"""

from __future__ import annotations

import patchcore as pc

#: For this release mmcv reads the addresses of checkpoints from a file of its own, and looks for newer ones only among
#: the names of ``torchvision.models`` (mmcv 1.7 ``get_torchvision_models``).
VERSION = "0.13.0"

TORCHVISION = pc.Patch(
    "mmcv.torchvision",
    [pc.WhileImporting("mmcv.runner.checkpoint", pc.StubImport("torchvision", version=VERSION))],
    summary="mmcv 1.x can be imported where torchvision is not installed",
    requires="mmcv>=1.3,<2",
    legacy_names=["torchvision"],
    remove_when="mmcv>=2",
)
