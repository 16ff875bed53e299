"""patchcore adopt: a plugin of a program's own patches, which then does the same for the program without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchcore.builtin.adopt.adoption import adopt

ROOT = Path(__file__).resolve().parents[3]

LIBRARY = """
import functools

def scale(x):
    return x

def clip(x):
    return x

class Shop:
    def price(self):
        return 10

    @staticmethod
    def name():
        return "shop"
"""
FAST = """
import functools

def scale(x):
    return 2 * x

def price(self):
    return 7

class Kernels:
    @staticmethod
    def clip(x):
        return min(x, 5)

def extra(x):
    return -x

def traced(function):
    @functools.wraps(function)
    def traced_function(*args):
        return function(*args)

    return traced_function
"""
PATCHED = """
import biglib, fast
biglib.scale = fast.scale
biglib.clip = fast.Kernels.clip
biglib.extra = fast.extra
biglib.Shop.price = fast.price
"""
LEFT = "biglib.Shop.name = staticmethod(fast.traced(biglib.Shop.name))\n"
USE = "import biglib\nprint(biglib.scale(3), biglib.clip(9), biglib.extra(1), biglib.Shop().price())\n"


class Place:
    def __init__(self, folder: Path, path: list[str]) -> None:
        self.folder = folder
        self.path = path

    def run(self, *arguments: object, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
        names = [*map(str, path), *self.path, str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(names), "PATCHCORE_PLUGINS": ""}
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )


@pytest.fixture
def place(make_package: Any, tmp_path: Path) -> Place:
    folder = make_package({"biglib": LIBRARY, "fast": FAST})
    (tmp_path / "train.py").write_text(f"{PATCHED}{LEFT}{USE}")
    (tmp_path / "plain.py").write_text(USE)
    return Place(tmp_path, [str(folder)])


def test_the_plugin_does_what_the_program_did(place: Place) -> None:
    done = place.run("-m", "patchcore", "adopt", "shop-npu", "--", "train.py")
    assert done.returncode == 0, done.stderr
    assert "\n  shop.fast" in done.stdout
    assert "biglib:Shop.name" in done.stdout.partition("Left in the program")[2]
    package = place.folder / "shop-npu"
    assert place.run("-m", "pytest", "-q", "-p", "no:cacheprovider", package, path=(package,)).returncode == 0
    original = place.run("train.py")
    assert original.stdout == "6 5 -1 7\n"
    adopted = place.run("-m", "patchcore", "run", "-q", "-p", "shop_npu.plugin", "plain.py", path=(package,))
    assert (adopted.stdout, adopted.returncode) == (original.stdout, 0), adopted.stderr
    assert place.run("plain.py").returncode == 1  # the patches were needed


def test_the_targets_have_fingerprints(place: Place) -> None:
    place.run("-m", "patchcore", "adopt", "shop-npu", "--", "train.py")
    assert (place.folder / "shop-npu" / "shop_npu" / "fingerprints.json").is_file()


def test_a_program_that_fails_or_patches_nothing_leaves_no_folder(place: Place) -> None:
    (place.folder / "fails.py").write_text("raise SystemExit(3)\n")
    done = place.run("-m", "patchcore", "adopt", "shop-npu", "--", "fails.py")
    assert (done.returncode, "nothing is written" in done.stderr) == (3, True)
    (place.folder / "nothing.py").write_text("import biglib\n")
    done = place.run("-m", "patchcore", "adopt", "shop-npu", "--", "nothing.py")
    assert (done.returncode, "makes no patch that can be declared" in done.stderr) == (2, True)
    assert not (place.folder / "shop-npu").exists()


def test_a_program_is_expected(place: Place) -> None:
    done = place.run("-m", "patchcore", "adopt", "shop-npu")
    assert (done.returncode, "expected a program: patchcore adopt shop-npu -- train.py" in done.stderr) == (2, True)


def row(target: str, **facts: str) -> dict[str, str]:
    common = dict.fromkeys(("known", "conflict", "written at", "version"), "")
    return {
        **common,
        "target": target,
        "kind": "replaced",
        "by": "shop 1.0",
        "after": "x",
        "replacement": "a:b",
        **facts,
    }


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"kind": "removed"}, "takes nothing away"),
        ({"kind": "body"}, "wrap the function"),
        ({"kind": "module"}, "pc.ReplaceImport"),
        ({"conflict": "two owners: a and b"}, "a conflict: two owners"),
        ({"replacement": ""}, "no module has a name"),
    ],
)
def test_what_cannot_be_declared_has_its_reason(facts: dict[str, str], why: str) -> None:
    adoption = adopt([row("lib:name", **facts)])
    assert not adoption.groups
    assert why in adoption.left[0].why


def test_patches_of_patchcore_and_known_ones_are_passed_over() -> None:
    assert adopt([row("lib:a", by="patchcore"), row("lib:b", known="lib.py")]) == ((), ())


def test_a_patch_requires_the_version_on_which_it_was_seen() -> None:
    (group,) = adopt([row("torch.nn:Linear", version="2.13.0+cpu")]).groups
    assert (group.name, group.requires) == ("shop", ("torch==2.13.0",))
