"""The entry point ``transformers``: the patches of this distribution.

It imports transformers and torch only in a process that has imported them.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc
from transformers_npu.doors.patches import DOORS
from transformers_npu.families.patches import PATCHES as FAMILIES
from transformers_npu.families.remote_code import REMOTE_CODE
from transformers_npu.processing.images import FAST_IMAGES
from transformers_npu.processing.placeholders import PLACEHOLDERS

__all__ = ["register_commands", "register_patches"]


@pc.hookimpl
def register_patches() -> tuple[pc.Patch, ...]:
    """Return the patches, in the order in which they apply."""
    return (*DOORS, REMOTE_CODE, *FAMILIES, PLACEHOLDERS, FAST_IMAGES)


@pc.hookimpl
def register_commands(subparsers: Any) -> None:
    """Add ``patchcore roles``."""
    from transformers_npu import roles  # imported by the command line only

    roles.add_parser(subparsers)
