"""Our plugins carry fingerprints for every version that their patches say they are for, and fit all of them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from patchcore.builtin.drift.drift import fingerprinted
from patchcore.builtin.drift.recorded import Fingerprint, Recorded, file_of
from patchcore.builtin.signatures.signatures import misfit
from patchcore.declare.changes import Replace, SlotChange, Wrap
from patchcore.declare.target import Target
from patchcore.planning.candidates import Candidate
from patchcore.planning.provenance import Provenance

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
#: Recorded are the releases on the index; these are the first and the last ones that patches name.
ENDS = {
    "diffusers": ("0.35.0", "0.42.1"),
    "mmcv": ("1.3.0", "2.2.0"),
    "mmengine": ("0.1.0", "0.10.7"),
    "mmdet": ("2.3.0", "3.3.0"),
    "mmdet3d": ("1.0.0rc6", "1.4.0"),
    "torch": ("2.0.0", "2.14.1"),
    "torch_npu": ("2.1.0.post8", "2.14.0"),
    "torch_scatter": ("2.1.0", "2.1.2"),
    "transformers": ("4.51.0", "5.24.0"),
}
#: What no index has; see tools/record_fingerprints.py.
ELSEWHERE = {
    *("apex", "amp_C", "fused_adam_cuda", "fused_lamb_cuda", "fused_layer_norm_cuda", "distributed_lamb_cuda"),
    *("xentropy_cuda", "mlp_cuda"),
}


class Anything(dict):
    """Names for the defaults of a signature, whatever they are."""

    def __missing__(self, name: str) -> Any:
        class Name:
            def __getattr__(self, _: str) -> Any:
                return self

        return Name()


def function(signature: str) -> Any:
    names: Mapping[str, Any] = Anything()
    exec(f"def target{signature}: pass", {}, names)
    return names["target"]


@pytest.fixture(scope="module")
def candidates() -> list[Candidate]:
    found = []
    for folder in sorted(PLUGINS.glob("*/*/plugin.py")):
        module = importlib.import_module(f"{folder.parent.name}.plugin")
        provenance = Provenance(folder.parent.name, "", "", module.__name__, module.__file__)
        found += [Candidate(patch, provenance) for patch in getattr(module, "PATCHES", ())]
    return found


@pytest.fixture(scope="module")
def files(candidates: list[Candidate]) -> dict[Path, Recorded]:
    paths = {file_of(candidate.provenance) for candidate in candidates}
    return {path: Recorded.read(path) for path in paths if path is not None}


def supported(
    candidates: list[Candidate], files: dict[Path, Recorded]
) -> Iterator[tuple[SlotChange, Target, str, Mapping[str, Fingerprint]]]:
    """Each change with its target, and each recorded version that its patch is for."""
    for candidate in candidates:
        recorded = files[file_of(candidate.provenance)]
        requirements = [Requirement(text) for text in candidate.patch.requires]
        for change, target in fingerprinted(candidate.patch, [c.target for c in candidate.patch.changes]):
            wanted = [r.specifier for r in requirements if r.name == target.root]
            for version, entries in recorded.libraries.get(target.root, {}).items():
                if all(specifier.contains(version, prereleases=True) for specifier in wanted):
                    yield change, target, version, entries


def test_the_versions_reach_from_the_first_to_the_last(files: dict[Path, Recorded]) -> None:
    found: dict[str, set[str]] = {}
    for recorded in files.values():
        for name, versions in recorded.libraries.items():
            found.setdefault(name, set()).update(versions)
    ends = {name: (min(versions, key=Version), max(versions, key=Version)) for name, versions in found.items()}
    assert ends == ENDS


def test_every_target_is_there_in_every_version_that_its_patch_is_for(
    candidates: list[Candidate], files: dict[Path, Recorded]
) -> None:
    listed = list(supported(candidates, files))
    assert len(listed) > 1000
    assert [f"{target} of {version}" for _, target, version, entries in listed if str(target) not in entries] == []


def test_replacements_take_the_calls_of_every_version(candidates: list[Candidate], files: dict[Path, Recorded]) -> None:
    compared = 0
    misfits = []
    for change, target, version, entries in supported(candidates, files):
        if isinstance(change, Wrap):
            callee, before = change.wrapper, 1
        elif isinstance(change, Replace) and change.factory is None:
            callee, before = change.replacement, 0
        else:
            continue
        signature = entries[str(target)].signature
        if signature and not isinstance(callee, Target):
            compared += 1
            reason = misfit(function(signature), callee, bound=len(target.path) > 1, before=before)
            misfits += [f"{target} of {version}: {reason}"] if reason else []
    assert misfits == []
    assert compared > 300


def test_no_plugin_is_left_out(candidates: list[Candidate], files: dict[Path, Recorded]) -> None:
    roots = {
        t.root for c in candidates for _, t in fingerprinted(c.patch, [change.target for change in c.patch.changes])
    }
    assert roots - set(sys.builtin_module_names) == set(ENDS) | ELSEWHERE
