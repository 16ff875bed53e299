"""Who contributes a patch: plugin, distribution, version, file."""

from __future__ import annotations

from typing import NamedTuple, Optional

__all__ = ["COMMANDS", "LOCAL_PROVENANCE", "PATCHES", "SUPPORT", "Provenance"]

#: The entry-point groups of plugins: those that contribute patches, ...
PATCHES = "npu_patches"
#: ... those that extend patchcore for a library, for its compilers or its training loops for example. As the
#: built-in plugins, they are loaded with every Patcher, also with one that discovers none.
SUPPORT = "patchcore_support"
#: ... and those that add commands and do nothing else, which only the command line loads.
COMMANDS = "patchcore_commands"


class Provenance(NamedTuple):
    """Where a plugin comes from.

    Args:
        plugin: name of the entry point, or of the local module.
        distribution: name of the distribution that declares it, ``None`` for local code.
        version: version of that distribution.
        value: the object reference of the entry point, ``package.module[:object]``.
        file: source file of the plugin, once it is loaded.
        group: its entry-point group, empty for local code. Built-in plugins have one, and no distribution.

    Examples:
        >>> from patchcore.plugin import Provenance
        >>> str(Provenance("shop", "shop-npu-patches", "1.2"))
        'plugin shop, shop-npu-patches 1.2'
    """

    plugin: str
    distribution: Optional[str] = None
    version: Optional[str] = None
    value: Optional[str] = None
    file: Optional[str] = None
    group: str = ""

    @property
    def is_built_in(self) -> bool:
        """True for a plugin that ships with patchcore."""
        return self.distribution is None and bool(self.group)

    @property
    def extends_patchcore(self) -> bool:
        """True for plugins of which users choose no patches: theirs carry out options, such as ``--brake``."""
        return self.group in (SUPPORT, COMMANDS)

    def is_meant_by(self, name: str) -> bool:
        """True if ``name`` is the name of the plugin, its distribution, its module or its top-level package."""
        module = (self.value or "").partition(":")[0]
        distribution = (self.distribution or "").lower().replace("_", "-")
        return name in (self.plugin, module, module.partition(".")[0]) or name.lower().replace("_", "-") == distribution

    def __str__(self) -> str:
        if self.distribution is None:
            return f"plugin {self.plugin}" if self.plugin != LOCAL_PROVENANCE.plugin else "local code"
        return f"plugin {self.plugin}, {self.distribution} {self.version or '(unknown version)'}"


#: Patches handed to a Patcher directly.
LOCAL_PROVENANCE = Provenance("local")
