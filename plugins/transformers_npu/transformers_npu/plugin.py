"""The entry point ``transformers``: the patches of this distribution.

It imports transformers and torch only in a process that has imported them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import patchcore as pc
from transformers_npu.doors.patches import DOORS
from transformers_npu.families.patches import PATCHES as FAMILIES
from transformers_npu.families.remote_code import REMOTE_CODE
from transformers_npu.processing.images import FAST_IMAGES
from transformers_npu.processing.placeholders import PLACEHOLDERS

__all__ = ["PATCHES", "known_foreign_patches", "register_commands", "register_patches"]

#: The patches, in the order in which they apply.
PATCHES: tuple[pc.Patch, ...] = (*DOORS, REMOTE_CODE, *FAMILIES, PLACEHOLDERS, FAST_IMAGES)


@pc.hookimpl
def register_patches() -> tuple[pc.Patch, ...]:
    """Return the patches of this distribution."""
    return PATCHES


@pc.hookimpl(optionalhook=True)
def known_foreign_patches() -> Iterable[tuple[str, str, str]]:
    """Return the patches that transformers makes in every process: further methods of loggers, and of modules."""
    return [
        ("transformers", "logging:Logger.*", "transformers/utils/logging.py"),
        ("transformers", "torch.nn.modules.module:Module.smart_apply", "transformers/modeling_utils.py"),
    ]


@pc.hookimpl
def register_commands(subparsers: Any) -> None:
    """Add ``patchcore roles``."""
    from transformers_npu import roles  # imported by the command line only

    roles.add_parser(subparsers)
