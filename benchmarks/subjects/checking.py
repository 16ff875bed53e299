"""``patchcore check`` of 150 targets whose library was upgraded; the replacements are edited copies of the originals.

Half of the originals have changed since their fingerprints were recorded, so that sources are compared three ways.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measure import Samples
from benchmarks.processes import environment, read, run
from benchmarks.rows import Budget, Row, TimeLimit, compare

SUBJECT = "check"
TARGETS = 150
FUNCTIONS = 10
#: Lines of each original; the median of the originals that vllm-ascend 0.24 copies is 40.
LINES = 40
LIBRARY = "benchmarked_library"
PATCHES = "benchmarked_patches"
ROUNDS = 5
ALTERNATIVE = "compile() of the same files"
LIMIT = TimeLimit(2.0)

_COMPILE = """\
import pathlib
import sys

for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.py")):
    compile(path.read_bytes(), str(path), "exec")
"""
_HEAD = "import patchcore as pc\n\n"
_REPLACEMENT = '@pc.patch("{library}.module_{module:03}:function_{function:03}", name="copies.{module}_{function}")\n'
_TAIL = """

@pc.hookimpl
def register_patches():
    return [each for each in list(globals().values()) if isinstance(each, pc.Patch)]
"""


def rows(budget: Budget) -> list[Row]:
    """Time the command after an upgrade."""
    targets = budget.size(TARGETS)
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as name:
        folder = Path(name)
        env = {**environment(folder), "PATCHCORE_PLUGINS": ""}
        modules = -(-targets // FUNCTIONS)
        _write_library(folder, "2.1.0", modules)
        _write_patches(folder, targets)
        run(["-m", "patchcore", "fingerprint", "-p", PATCHES, PATCHES], env)
        _write_library(folder, "2.2.0", modules)
        command = ["-m", "patchcore", "check", "-p", PATCHES, "--format", "json"]
        stale = _count_stale(command, env)
        ours = Samples(tuple(read(command, env).seconds for _ in range(ROUNDS)))
        theirs = Samples(tuple(read(["-c", _COMPILE, str(folder)], env).seconds for _ in range(ROUNDS)))
        what = f"patchcore check, {targets} targets, {stale} stale copies of {LINES} lines"
        return [compare(SUBJECT, what, ALTERNATIVE, ours, theirs, budget=budget, limit=LIMIT)]


def _count_stale(command: list[str], env: Mapping[str, str]) -> int:
    """Return the number of stale copies that the command finds."""
    code = f"import sys; from patchcore.cli import main; main({command[2:]!r})"
    count = run(["-c", code], env).count('"kind": "copy"')
    assert count, "check found no stale copy"
    return count


def _write_library(folder: Path, version: str, modules: int) -> None:
    home = folder / LIBRARY
    home.mkdir(exist_ok=True)
    (home / "__init__.py").write_text("")
    for module in range(modules):
        functions = (_function(f"function_{index:03}", module, index, version) for index in range(FUNCTIONS))
        (home / f"module_{module:03}.py").write_text("\n\n".join(functions))
    metadata = folder / f"{LIBRARY}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {LIBRARY}\nVersion: {version}\n")
    (metadata / "top_level.txt").write_text(f"{LIBRARY}\n")


def _write_patches(folder: Path, targets: int) -> None:
    parts = [_HEAD]
    for number in range(targets):
        module, function = divmod(number, FUNCTIONS)
        copy = _function(f"copy_{number}", module, function, "2.1.0").replace("step_7(", "fast_step_7(")
        parts.append(f"\n{_REPLACEMENT.format(library=LIBRARY, module=module, function=function)}{copy}")
    (folder / f"{PATCHES}.py").write_text("\n".join(parts) + _TAIL)


def _function(name: str, module: int, index: int, version: str) -> str:
    """Return a function; every second one differs between two versions."""
    lines = [f"    value = step_{line}(value, scale, {module}, {index}, {line})" for line in range(LINES - 1)]
    if version != "2.1.0" and index % 2:
        lines[20] = f"    if scale:\n        value = step_20(value, scale, {version!r})"
    return "\n".join([f"def {name}(value, scale=1):", *lines, "    return value\n"])
