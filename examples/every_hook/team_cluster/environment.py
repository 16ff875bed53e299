"""A kind of change of our own: a variable of the environment that a library reads while it is imported."""

from __future__ import annotations

from patchcore import Target
from patchcore.plugin import Change, Item


class SetEnvironment(Change):
    """Sets a variable of the environment before a library is imported; revert restores the variable.

    Args:
        name: of the variable.
        value: of the variable.
        before: the library that reads the variable. The change is skipped if this library is imported already.
    """

    name: str
    value: str
    before: str

    waits = False  # for no import: the variable has to be there before the library

    def __init__(self, name: str, value: str, *, before: str) -> None:
        super().__init__(target=Target("os", ("environ", Item(name))), name=name, value=value, before=before)

    @property
    def kind(self) -> str:
        return "set-environment"

    @property
    def libraries(self) -> tuple[str, ...]:
        return (self.before,)  # without the library the patch is skipped

    @property
    def source(self) -> str:
        return self.value
