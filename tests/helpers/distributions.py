"""Make installed distributions for tests: what pip leaves behind, without pip."""

from __future__ import annotations

import configparser
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_distribution(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    plugins: Mapping[str, str] | None = None,
    support: Mapping[str, str] | None = None,
    commands: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
    record: Sequence[str] = (),
) -> Path:
    """Write the ``.dist-info`` of a distribution to ``folder``, which is on ``sys.path``, and return it.

    Args:
        folder: like a site-packages folder.
        name, version: of the distribution.
        plugins: its entry points in the group ``npu_patches``.
        support: those in the group ``patchcore_support``.
        commands: those in the group ``patchcore_commands``.
        packages: import packages that ``top_level.txt`` names.
        record: files that ``RECORD`` lists.
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = {"npu_patches": plugins or {}, "patchcore_support": support or {}, "patchcore_commands": commands or {}}
    if plugins or support or commands:
        config = configparser.ConfigParser()
        config.read_dict({group: given for group, given in groups.items() if given})
        with open(info / "entry_points.txt", "w") as file:
            config.write(file)
    if packages:
        (info / "top_level.txt").write_text("\n".join(packages))
    if record:
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in record))
    importlib.invalidate_caches()
    return info
