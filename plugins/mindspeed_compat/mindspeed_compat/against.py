"""Compares the targets of the features with another Megatron-LM: ``patchcore plan --against MEGATRON``.

Sources are read, in a process of its own for each of the two: neither patches nor imports of this process matter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from patchcore import SettingsError, Target, TargetNotFound
from patchcore.plugin import counted, source_fingerprint, unpack_sources

__all__ = ["Drift", "compare"]

#: The seconds that pip may take.
_PATIENCE = 600

#: The kinds of drift, the gravest first.
_GONE, _SIGNATURE, _BODY, _OUTSIDE = "gone", "signature changed", "body changed", "not in this distribution"


class Drift(NamedTuple):
    """A target that differs in the other Megatron.

    Args:
        target: in MindSpeed's notation.
        kind: ``gone``, ``signature changed``, ``body changed`` or ``not in this distribution``.
        detail: the signatures, or the reason.
    """

    target: str
    kind: str
    detail: str


def compare(targets: Iterable[Target], other: str) -> tuple[str, list[Drift]]:
    """Compare the sources of Megatron's targets here and in another Megatron.

    Args:
        targets: with their modules; those of packages that the other Megatron does not have are left out.
        other: a folder with the package ``megatron``, or a requirement of pip, ``megatron-core==0.13.1``.

    Returns:
        A line with the counts, and the targets that differ, the gravest first.

    Raises:
        SettingsError: there is no such folder, it has none of the packages, or pip does not find the distribution.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = _tree_of(other, Path(folder))
        names = list(dict.fromkeys(str(each) for each in targets if each.path and (tree / each.root).is_dir()))
        if not names:
            raise SettingsError(f"--against {other}: it has no package that the features patch")
        here, there = _fingerprints(names, None), _fingerprints(names, tree)
        found = [each for each in (_drift(name, here[name], there[name], tree) for name in names) if each is not None]
    order = (_GONE, _SIGNATURE, _BODY, _OUTSIDE)
    found.sort(key=lambda each: order.index(each.kind))
    kinds = Counter(each.kind for each in found)
    counts = [f"{kinds[kind]} {kind}" for kind in order if kinds[kind]]
    unseen = sum(here[name] is None for name in names)
    counts += [f"{len(names) - len(found) - unseen} unchanged", *([f"{unseen} not seen in sources"] if unseen else [])]
    return f"{counted(len(names), 'target')} of Megatron against {other}: {', '.join(counts)}", found


def _drift(name: str, here: Any, there: Any, tree: Path) -> Any:
    """Return the difference of two answers of :func:`main`, ``None`` for none: a pair, a reason, or ``None``."""
    target = name.replace(":", ".")
    if here is None or isinstance(here, str) or here == there:
        return None
    if isinstance(there, str):
        package = ".".join(name.partition(":")[0].split(".")[:2])
        inside = tree.joinpath(*package.split("."))
        outside = not (inside.is_dir() or inside.with_suffix(".py").is_file())
        return Drift(target, _OUTSIDE if outside else _GONE, f"no {package}" if outside else there)
    if there is None or here[1] == there[1]:
        return Drift(target, _BODY, "")
    return Drift(target, _SIGNATURE, f"{here[1] or 'no function'} -> {there[1] or 'no function'}")


def _fingerprints(names: Sequence[str], tree: Any) -> Mapping[str, Any]:
    """Return the fingerprint of each target, the text of an error for one that is gone, ``None`` for an unseen one."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PATCHCORE_")}
    path = [os.path.abspath(entry) for entry in sys.path]
    if tree is not None:  # without the packages of this Megatron: a namespace package would have parts of both
        roots = {name.partition(".")[0].partition(":")[0] for name in names}
        path = [str(tree), *(entry for entry in path if not any(Path(entry, root).is_dir() for root in roots))]
    environment["PYTHONPATH"] = os.pathsep.join(path)
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(
        command,
        input=json.dumps(list(names)),
        env=environment,
        cwd=tree,  # which comes first on the path
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SettingsError(f"the sources of Megatron cannot be read: {done.stderr.strip() or done.returncode}")
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def _tree_of(other: str, folder: Path) -> Path:
    """Return a folder that has the package ``megatron``."""
    if Path(other).is_dir():
        return Path(other).resolve()
    if "=" not in other and "/" in other:
        raise SettingsError(f"--against {other}: there is no such folder")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), other]
    try:
        done = subprocess.run(
            [*command, "--only-binary=:all:"], capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired as error:
        raise SettingsError(f"--against {other}: pip took more than {_PATIENCE} seconds") from error
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()]
        raise SettingsError(f"--against {other}: pip finds no wheel: {lines[-1]}; give a folder with a checkout")
    unpack_sources(wheels[0], folder / "tree")
    return folder / "tree"


def _answers(names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    for name in names:
        try:
            yield name, source_fingerprint(Target.parse(name))
        except TargetNotFound as error:
            yield name, str(error)


def main() -> None:
    """Read targets from stdin, and write their fingerprints to stdout, as JSON."""
    print(json.dumps(dict(_answers(json.load(sys.stdin)))))


if __name__ == "__main__":
    main()
