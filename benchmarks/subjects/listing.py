"""What ``patchcore list`` costs with fifty plugins installed, from the start of the process to its end."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path

from benchmarks.generated import write_package, write_plugins
from benchmarks.measure import interleave
from benchmarks.processes import environment, process, run
from benchmarks.rows import Budget, RatioLimit, Row, compare

SUBJECT = "list"
PLUGINS = 50
LIMIT = RatioLimit(1.3)
LIBRARY = "benchmarked_library"
#: What pip installs with patchcore, as far as this Python needs it.
DEPENDENCIES = ("pluggy", "packaging", "rich", "importlib_metadata", "zipp", "tomli", "typing_extensions")
IMPORTS = "import pluggy, importlib.metadata"
BARE_PLUGGY = """\
import pluggy, types
manager = pluggy.PluginManager("patchcore")
manager.load_setuptools_entrypoints("npu_patches")
for patches in manager.hook.register_patches(settings=types.SimpleNamespace(options={}, get={}.get)):
    for patch in patches:
        print(patch.name)
"""
#: What the installed script ``patchcore`` runs.
LISTING = ["-c", "import sys; from patchcore.cli import main; sys.exit(main())", "list"]


def rows(budget: Budget) -> list[Row]:
    """Time the listing in an environment with nothing but patchcore, and in the one that runs this."""
    plugins = budget.size(PLUGINS)
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as folder:
        installed = Path(folder, "plugins")
        write_package(installed, LIBRARY, modules=plugins)
        write_plugins(installed, LIBRARY, plugins=plugins)
        clean = Path(folder, "clean")
        _link_dependencies(clean)
        return [
            *_rows(f"patchcore list, {plugins} plugins", installed, clean, alone=True, budget=budget),
            *_rows(
                f"patchcore list, {plugins} plugins beside this environment's", installed, alone=False, budget=budget
            ),
        ]


def _rows(what: str, *path: Path, alone: bool, budget: Budget) -> list[Row]:
    env = environment(*path, alone=alone)
    flags = ["-S"] if alone else []  # no site-packages: only what the folders hold is installed
    plugins = budget.size(PLUGINS)
    listed = run([*flags, *LISTING], env)
    assert listed.count("model-team") == plugins, f"expected {plugins} plugins in the list, found:\n{listed}"
    timings = {
        "ours": process([*flags, *LISTING], env),
        "imports": process([*flags, "-c", IMPORTS], env),
        "pluggy": process([*flags, "-c", BARE_PLUGGY], env),
    }
    samples = interleave(timings, budget.rounds(20))
    imports, pluggy = f'python -c "{IMPORTS}"', "the same plugins by bare pluggy"
    return [
        compare(SUBJECT, what, imports, samples["ours"], samples["imports"], budget=budget),
        compare(SUBJECT, what, pluggy, samples["ours"], samples["pluggy"], budget=budget, limit=LIMIT),
    ]


def _link_dependencies(folder: Path) -> None:
    folder.mkdir()
    for name in DEPENDENCIES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        source = Path(spec.origin)
        source = source.parent if spec.submodule_search_locations else source
        os.symlink(source, folder / source.name, target_is_directory=source.is_dir())
