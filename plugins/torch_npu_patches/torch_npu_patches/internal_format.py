"""Allows or forbids private formats of tensors in torch_npu: ``torch.npu.config.allow_internal_format``.

Private formats (NZ, 5HD) suit the device's matrix unit, but operators without support for them convert back and forth,
and kernels of other libraries may misread them; ``mx_driving.patcher`` 26.2 turns them off unless asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import patchcore as pc
from patchcore.plugin import ABSENT, Slot, SlotChange

NAME = "torch.internal_format"
ALLOW = "allow"
TARGET = "torch_npu:npu.config.allow_internal_format"

#: Its name in C++ of torch_npu (``torch_npu/npu/utils.py``, ``_npuConfig``), where the value is kept.
OPTION = "ALLOW_INTERNAL_FORMAT"


class InternalFormatSlot(Slot):
    """The switch as a slot: written by assignment, for ``torch.npu.config`` holds no value itself.

    Args:
        torch_npu: the module.
        name: how the slot is shown.
    """

    __slots__ = ("torch_npu",)

    def __init__(self, torch_npu: Any, name: str) -> None:
        super().__init__(torch_npu.npu.config, "allow_internal_format", name)
        self.torch_npu = torch_npu

    def read(self) -> bool:
        """Return the value; torch_npu allows the formats by default."""
        value = getattr(self.owner, self.key, None)  # not every torch_npu can be asked so
        if value is None:
            value = self.torch_npu._C._npu_getOption(OPTION) != b"disable"
        return bool(value)

    def write(self, raw: Any) -> None:
        """Set the value; it cannot be absent."""
        if raw is not ABSENT:
            setattr(self.owner, self.key, raw)


class SetInternalFormat(SlotChange):
    """Allow or forbid the private formats.

    Args:
        allow: whether they are allowed; set by a user, so it is checked when the patch is applied.
    """

    allow: Any

    def __init__(self, allow: Any) -> None:
        super().__init__(target=pc.Target.parse(TARGET), allow=allow)

    @property
    def kind(self) -> str:
        return "set"

    @property
    def source(self) -> Any:
        return type(self)

    def find_slot(self, target: pc.Target, module: Any) -> Slot:
        return InternalFormatSlot(module, str(target))

    def build(self, below: Any, slot: Slot) -> bool:
        if not isinstance(self.allow, bool):
            raise pc.DeclarationError(
                f"option {ALLOW!r} is true or false, got {self.allow!r}; write {ALLOW} = true in "
                f'[tool.patchcore.options."{NAME}"]'
            )
        return self.allow


def make_patch(options: Mapping[str, Any]) -> pc.Patch:
    """Return the patch.

    Args:
        options: of the patch, as a user has set them: ``allow``, a bool, false by default.
    """
    allow = options.get(ALLOW, False)
    return pc.Patch(
        NAME,
        [SetInternalFormat(allow)],
        summary=f"private tensor formats of the NPU {'on' if allow else 'off'}",
        needs="torch_npu",
        legacy_names=["internal_format", "allow_internal_format"],
        options={ALLOW: allow},
    )


INTERNAL_FORMAT = make_patch({})
