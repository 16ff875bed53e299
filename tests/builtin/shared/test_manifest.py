"""manifest.py: what must be the same in every process, and nothing else."""

from __future__ import annotations

import copy
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import reports
from distributions import write_distribution
from hypothesis import given
from hypothesis import strategies as st
from reports import LABEL, PRICE, SHOP, new, patcher

import patchcore as pc
from patchcore import __version__
from patchcore.builtin.shared.manifest import Difference, compare_manifests, digest, make_manifest


@pytest.fixture
def folder(make_package: Any) -> Path:
    folder: Path = make_package(SHOP)
    return folder


def manifest(*patches: pc.Patch, **named: Any) -> dict[str, Any]:
    return make_manifest(patcher(*patches, **named).plan())


# --- what is in it -------------------------------------------------------------------------------------------------


def test_content(folder: Path) -> None:
    write_distribution(folder, "shop-library", "3.4", packages=["shop"])
    wrap = pc.Patch(
        "shop.both",
        [pc.Wrap("shop:price", lambda original: original()), pc.Replace("shop.label", new)],
        options={"n": 1, "mode": "fast"},
    )
    made = manifest(wrap, PRICE.evolve(name="tax.rate", changes=[pc.Replace("tax:rate", new)]))
    shop = made["files"]["shop"]
    assert re.fullmatch("[0-9a-f]{16}", shop)
    assert made == {
        "patchcore": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "patches": {
            "shop.both": {
                "verdict": "apply",
                "reason": "",
                "on top of": [],
                "changes": [
                    "wrap shop:price <- test_manifest.test_content.<locals>.<lambda>",
                    "replace shop:label <- reports.new",
                ],
                "options": {"mode": "'fast'", "n": "1"},
                "contributed by": "plugin shop, shop-npu 1.0",
                "file": None,
            },
            "tax.rate": {
                "verdict": "skipped",
                "reason": "tax is not installed",
                "on top of": [],
                "changes": ["replace tax:rate <- reports.new"],
                "options": {},
                "contributed by": "plugin shop, shop-npu 1.0",
                "file": None,
            },
        },
        "libraries": {"shop": "3.4", "tax": None},
        "files": {"shop": shop, "tax": None},
    }


def test_metadata_of_all_distributions_is_not_read_for_a_library_that_is_absent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("patchcore.builtin.shared.manifest.version_of_provider", asked.append)
    made = manifest(PRICE, PRICE.evolve(name="tax.rate", changes=[pc.Replace("tax:rate", new)]))
    assert made["libraries"] == {"shop": None, "tax": None}
    assert asked == ["shop"]


def test_nothing_is_imported(folder: Path) -> None:
    folder.joinpath("shop.py").write_text("raise SystemExit('imported')\n")
    manifest(PRICE)
    assert "shop" not in sys.modules


def test_modules_without_a_file(folder: Path) -> None:
    patch = pc.Patch("p", [pc.Replace("sys:nosuch", new), pc.Replace("nosuch.library:f", new)])
    assert manifest(patch)["files"] == {"nosuch.library": None, "sys": None}


def test_a_file_that_cannot_be_read(folder: Path) -> None:
    pending = patcher(PRICE)
    plan = pending.plan()
    folder.joinpath("shop.py").unlink()
    folder.joinpath("shop.py").mkdir()
    assert make_manifest(plan)["files"] == {"shop": None}


# --- what differs and what does not --------------------------------------------------------------------------------


def test_how_far_imports_have_come_makes_no_difference(folder: Path) -> None:
    before = manifest(PRICE)
    importlib.import_module("shop")
    assert manifest(PRICE) == before
    with patcher(PRICE) as applied:
        assert make_manifest(applied.applied_plan) == before


def test_files_are_compared_by_content_not_by_place_or_time(folder: Path, make_package: Any) -> None:
    before = manifest(PRICE)
    folder.joinpath("shop.py").unlink()
    make_package({"shop.inner": ""})
    folder.joinpath("shop", "__init__.py").write_text(SHOP["shop"])
    assert manifest(PRICE) == before


def test_it_is_the_same_in_every_process(folder: Path, run_python: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
        import sys
        sys.path.insert(0, {helpers!r})
        from reports import *
        from patchcore.builtin.shared.manifest import *
        options = {{"names": ("a", "b"), "table": {{"b": 1, "a": None}}, "f": 0.1, "text": "x"}}
        print(digest(make_manifest(patcher(PRICE.evolve(options=options), LABEL).plan())))
    """
    digests = set()
    for seed in ("0", "1"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        digests.add(run_python(code.format(helpers=str(Path(reports.__file__).parent))))
    assert len(digests) == 1


class Option:
    """Has the repr of most objects, which holds its address."""


def test_an_option_that_is_an_object_makes_no_difference(folder: Path) -> None:
    one, other = Option(), Option()
    assert manifest(PRICE.evolve(options={"o": [one]})) == manifest(PRICE.evolve(options={"o": [other]}))


def test_an_option_that_is_a_set_makes_no_difference(folder: Path) -> None:
    one, other = {0, 8}, {8, 0}  # one hash bucket: like text, in the order in which they came
    assert one == other
    assert manifest(PRICE.evolve(options={"o": one})) == manifest(PRICE.evolve(options={"o": other}))


def different(folder: Path, **changes: Any) -> list[Difference]:
    """Compare a manifest with that of the same patch with other attributes."""
    one = manifest(PRICE)
    other = manifest(PRICE.evolve(**changes))
    assert (digest(one) == digest(other)) == (not changes)
    return compare_manifests(one, other)


@pytest.mark.parametrize(
    ("changes", "one", "other"),
    [
        ({"options": {"n": 1, "m": "x"}}, "options none", "options m='x', n=1"),
        (
            {"changes": [pc.Replace("shop:label", new)]},
            "changes replace shop:price <- reports.new",
            "changes replace shop:label <- reports.new",
        ),
        ({"changes": []}, "changes replace shop:price <- reports.new", "changes "),
        ({"requires": ["shop>=99"]}, "apply", "skipped: requires shop>=99, the version of shop is unknown"),
        ({"when": lambda: pc.Skip("a holiday")}, "apply", "skipped: a holiday"),
        ({"when": lambda: 1 / 0}, "apply", "failed: its when condition raised ZeroDivisionError"),
        ({"default": False}, "apply", "off"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_a_patch_would_do(folder: Path, changes: dict[str, Any], one: str, other: str) -> None:
    found = next(d for d in different(folder, **changes) if d.subject == "patch shop.price")
    assert found.one == one
    assert found.other.startswith(other)


@pytest.mark.parametrize("source", ["kernels:fast", len, str.upper], ids=str)
def test_another_replacement(folder: Path, source: Any) -> None:
    one = manifest(PRICE.evolve(changes=[pc.Replace("shop:price", "kernels:slow")]))
    other = manifest(PRICE.evolve(changes=[pc.Replace("shop:price", source)]))
    assert [d.subject for d in compare_manifests(one, other)] == ["patch shop.price"]


def test_every_part_of_a_patch_is_said(folder: Path) -> None:
    one = manifest(PRICE)
    other = manifest(PRICE.evolve(options={"n": 1}, changes=[pc.Wrap("shop:price", new)]), version="2.0")
    assert [d.other.partition(" ")[0] for d in compare_manifests(one, other)] == ["changes", "options", "contributed"]


def test_the_file_of_a_plugin(folder: Path, make_package: Any) -> None:
    source = "import patchcore as pc\n@pc.hookimpl\ndef register_patches(): return [pc.Patch('p', [])]\n"
    found = []
    for text in (source, source, source + "# edited"):
        make_package({"deals": text})
        sys.modules.pop("deals", None)
        found.append(make_manifest(pc.Patcher.discover(plugins=[], modules=["deals"]).plan()))
    assert found[0] == found[1]
    (difference,) = compare_manifests(found[0], found[2])
    assert difference.subject == "patch p"
    assert re.fullmatch("file [0-9a-f]{16}", difference.one)


def test_the_file_of_a_target(folder: Path) -> None:
    one = manifest(PRICE)
    folder.joinpath("shop.py").write_text(SHOP["shop"] + "\n")
    other = manifest(PRICE)
    (difference,) = compare_manifests(one, other)
    assert difference == Difference("file of shop, of patch shop.price", one["files"]["shop"], other["files"]["shop"])


def test_libraries_and_versions_of_python_and_patchcore(folder: Path) -> None:
    one = manifest(PRICE)
    other = {**copy.deepcopy(one), "python": "3.8.1", "patchcore": "0.0", "libraries": {"shop": "2.0"}}
    assert compare_manifests(one, other) == [
        Difference("library shop, of patch shop.price", "none", "2.0"),
        Difference("python", one["python"], "3.8.1"),
        Difference("patchcore", __version__, "0.0"),
    ]


def test_a_patch_that_only_one_has(folder: Path) -> None:
    one, other = manifest(PRICE, LABEL), manifest(PRICE)
    assert compare_manifests(one, other) == [
        Difference("patch shop.label", "apply", "no plugin contributes it"),
    ]
    assert compare_manifests(other, manifest()) == [
        Difference("patch shop.price", "apply", "no plugin contributes it"),
    ]


def test_patches_that_differ_alike_are_one_difference(folder: Path) -> None:
    assert compare_manifests(manifest(PRICE, LABEL), manifest(PRICE, LABEL, version="2.0")) == [
        Difference(
            "patch shop.label, shop.price",
            "contributed by plugin shop, shop-npu 1.0",
            "contributed by plugin shop, shop-npu 2.0",
        )
    ]


def test_another_order_of_two_patches_of_one_target(folder: Path) -> None:
    tax = PRICE.evolve(name="shop.tax")
    one, other = manifest(PRICE, tax.evolve(after=["shop.price"])), manifest(PRICE, tax.evolve(before=["shop.price"]))
    assert compare_manifests(one, other) == [
        Difference("patch shop.price", "on top of none", "on top of shop.tax"),
        Difference("patch shop.tax", "on top of shop.price", "on top of none"),
    ]


MANIFESTS = [
    make_manifest(patcher(*patches, version=version).plan())
    for version in ("1.0", "1.1")
    for patches in (
        [],
        [PRICE],
        [LABEL],
        [PRICE, LABEL],
        [PRICE.evolve(options={"n": 1})],
        [PRICE.evolve(options={"n": 2}, needs=["nosuch"]), LABEL],
        [PRICE.evolve(changes=[pc.Replace("tax:rate", new)])],
    )
]
TABLES = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from([None, "1", "2"]))


@st.composite
def manifests(draw: Any) -> dict[str, Any]:
    made = copy.deepcopy(draw(st.sampled_from(MANIFESTS)))
    made["libraries"], made["files"] = draw(TABLES), draw(TABLES)
    made["python"] = draw(st.sampled_from(["3.9.1", "3.11.2"]))
    return made


@given(manifests(), manifests())
def test_whatever_makes_another_digest_is_a_difference_and_the_other_way_round_too(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    found = compare_manifests(one, other)
    assert bool(found) == (digest(one) != digest(other))
    assert sorted((d.subject, d.other, d.one) for d in found) == sorted(map(tuple, compare_manifests(other, one)))
    assert compare_manifests(one, copy.deepcopy(one)) == []
