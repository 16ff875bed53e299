"""Puts changes of the kind ``SetEnvironment`` in force."""

from __future__ import annotations

import os
import sys

from patchcore.plugin import ItemSlot, WriteContext, Writer
from team_cluster.environment import SetEnvironment


class EnvironmentWriter(Writer):
    """Writes variables of the environment; a revert restores them exactly."""

    def write(self, context: WriteContext) -> None:
        change = context.change
        assert isinstance(change, SetEnvironment)
        if change.before in sys.modules:
            context.skip(f"{change.before} is imported already")
        else:
            context.write(ItemSlot(os.environ, change.name, str(change.target)), change.value)
