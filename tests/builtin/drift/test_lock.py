"""lockfile.py, ``patchcore lock`` and ``patchcore run --locked``."""

from __future__ import annotations

import importlib
import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patch_folder import SHOP as LIBRARY_OF_FOLDER
from patch_folder import PatchFolder
from reports import LABEL, PRICE, patcher
from reports import SHOP as LIBRARY

import patchcore as pc
from patchcore import __version__
from patchcore.builtin.drift.lockfile import compare_manifests, make_lock, read_lock, to_text, write_lock
from patchcore.builtin.run.program import Command
from patchcore.errors import SettingsError
from patchcore.planning.plan import Plan

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def shop(make_package: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> PatchFolder:
    return PatchFolder(make_package, monkeypatch, capsys)


def lock_of(*patches: pc.Patch, **named: Any) -> dict[str, Any]:
    return make_lock(patcher(*patches, **named).plan())


class TestContent:
    def test_is_a_manifest(self, make_package: Any) -> None:
        folder = make_package(LIBRARY)
        write_distribution(folder, "shop-library", "3.4", packages=["shop"])
        price = PRICE.evolve(options={"path": 'a"\\b', "n": 1})
        text = to_text(lock_of(price, LABEL, PRICE.evolve(name="shop.tax", requires=("nosuch>=2",))))
        content = json.loads(text)
        assert list(content) == sorted(content)
        assert list(content.pop("files")) == ["reports"]
        assert all(re.fullmatch(r"[0-9a-f]{16} \(\)", found) for found in content["targets"].values())
        assert content.pop("about").startswith("Written by patchcore lock")
        facts = {
            "verdict": "apply",
            "reason": "",
            "on top of": [],
            "options": {},
            "contributed by": "plugin shop, shop-npu 1.0",
            "file": None,
        }
        assert content == {
            "schema_version": 3,
            "patchcore": __version__,
            "python": PYTHON,
            "patches": {
                "shop.label": {**facts, "changes": ["replace shop:label <- reports.new"]},
                "shop.price": {
                    **facts,
                    "changes": ["replace shop:price <- reports.new"],
                    "options": {"n": "1", "path": "'a\"\\\\b'"},
                },
            },
            "libraries": {"shop": "3.4"},
            "targets": {"shop:label": content["targets"]["shop:label"], "shop:price": content["targets"]["shop:price"]},
            "not_applied": {"shop.tax": "skipped: requires nosuch>=2, nosuch is not installed"},
        }

    def test_versions_stand_for_the_sources_of_what_is_installed(self, make_package: Any) -> None:
        folder = make_package({**LIBRARY, "kernels": "def fast(): pass\n", "own": "def fast(): pass\n"})
        write_distribution(folder, "shop-kernels", "5.6", packages=["kernels"])
        changes = [pc.Replace("shop:price", "kernels:fast"), pc.Replace("shop:label", "own:fast"),
                   pc.Replace("shop:sale", "json:dumps")]  # fmt: skip
        lock = lock_of(PRICE.evolve(changes=changes))
        assert lock["libraries"] == {"kernels": "5.6", "shop": None}
        assert list(lock["files"]) == ["own"]

    def test_paths_are_left_out_of_reasons(self, make_package: Any, tmp_path: Path) -> None:
        def broken() -> bool:
            raise ValueError(f"no {tmp_path}/till.txt, see https://shop.example/till/1")

        make_package(LIBRARY)
        reason = lock_of(PRICE.evolve(when=broken))["patches"]["shop.price"]["reason"]
        assert "till.txt" in reason
        assert "https://shop.example/till/1" in reason
        assert str(tmp_path) not in reason
        assert str(Path(__file__).parent) not in reason

    def test_profiling_and_brake_of_a_run_are_left_out(self, make_package: Any) -> None:
        make_package(LIBRARY)
        assert lock_of(PRICE) == make_lock(patcher(PRICE).with_settings(brake=3, step="shop:label").plan())


#: What sources show, and what they do not: functions in C, names made in a loop, an object in a module's place.
_LIBRARY = {
    "store": "from math import sqrt\nfrom store.prices import price\nfrom _json import *\n",
    "store.prices": "import store.plain\ndef price(x): pass\nroot = __import__('math').sqrt\nprices = {'a': price}\n",
    "store.plain": "from _operator import index, mul\nclass Till:\n    from math import floor\n    add = sum\n",
    "store.made": "for name in ('one', 'two'):\n    globals()[name] = lambda: name\n",
    "store.proxy": "import sys\nf = len\nclass Proxy:\n    f = staticmethod(f)\nsys.modules[__name__] = Proxy()\n",
    "store.lazy": "def __getattr__(name):\n    if name == 'found': return len\n    raise AttributeError(name)\n",
}
_TARGETS = [
    *("store:sqrt", "store:price", "store:encode_basestring_ascii", "store.prices:root", "store.prices:price"),
    *("store.plain:index", "store.plain:mul", "store.plain:Till.floor", "store.plain:Till.add", "store.plain:Till"),
    *("store.made:one", "store.proxy:f", "store.lazy:found", "store.prices.price", "store.prices:prices['a']"),
    *("store.prices:gone", "_heapq:heappush", "math:sqrt"),
]


class TestImports:
    """A lock is of what is installed: it makes no difference what else this process has imported."""

    @given(st.permutations(list(_LIBRARY)), st.integers(0, len(_LIBRARY)))
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
    def test_make_no_difference(self, make_package: Any, order: list[str], count: int) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "store"]:
            del sys.modules[name]
        make_package(_LIBRARY)
        patches = [pc.Patch(f"store.p{i}", [pc.Replace(target, len)], after="*") for i, target in enumerate(_TARGETS)]
        before = to_text(lock_of(*patches))
        assert '"store.prices:price": ' in before
        assert "compiled" not in before
        for name in order[:count]:
            importlib.import_module(name)
        assert to_text(lock_of(*patches)) == before


class TestFile:
    def test_what_utf_8_cannot_hold(self, make_package: Any, tmp_path: Path) -> None:
        make_package(LIBRARY)
        lock = lock_of(PRICE.evolve(requires=("no\udc80such",)))
        write_lock(tmp_path / "a.lock", lock)
        assert read_lock(tmp_path / "a.lock") == lock

    def test_is_written_only_when_it_differs(self, tmp_path: Path) -> None:
        path = tmp_path / "a.lock"
        lock = make_lock(Plan(()))
        assert write_lock(path, lock)
        assert not write_lock(path, lock)
        assert write_lock(path, {**lock, "python": "2.7"})
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.lock"]

    def test_cannot_be_written(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match=r"nosuch.a\.lock cannot be written: No such file"):
            write_lock(tmp_path / "nosuch" / "a.lock", make_lock(Plan(())))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("[[", r"a\.lock cannot be read: "),
            ("\xff", r"a\.lock cannot be read: .*decode"),
            ("[]", r"is not what patchcore lock writes: Expected `object`, got `array`; write it anew"),
            (r'"\ud800"', "surrogates not allowed; write it anew"),
            (
                {"schema_version": 2},
                r"a\.lock has schema_version 2, this patchcore reads 3; write it anew: patchcore lock",
            ),
            (
                {"schema_version": 4, "patchcore": "7.0"},
                r"a\.lock has schema_version 4, this patchcore reads up to 3: it was written by patchcore 7\.0",
            ),
            ({"libraries": {"a": {}}}, r"Expected `str \| null`, got `object` - at `\$\.libraries\[\.\.\.\]`"),
            ({"patches": {"a": {}}}, r"Object missing required field `.*` - at `\$\.patches\[\.\.\.\]`"),
        ],
    )
    def test_that_cannot_be_used(self, tmp_path: Path, change: Any, message: str) -> None:
        path = tmp_path / "a.lock"
        if isinstance(change, dict):
            change = json.dumps({**json.loads(to_text(make_lock(Plan(())))), **change})
        path.write_bytes(change.encode("latin-1"))
        with pytest.raises(SettingsError, match=message):
            read_lock(path)

    def test_is_missing(self, tmp_path: Path) -> None:
        path = tmp_path / "a.lock"
        with pytest.raises(
            SettingsError, match=re.escape(f"no lock file {path}; write it: patchcore lock --file {path}")
        ):
            read_lock(path)


class TestDifferences:
    """Every fact that differs is named; what only follows from another verdict is not repeated."""

    def test_the_source_of_a_replacement(self, make_package: Any) -> None:
        locks = []
        for body in ("pass", "return 1"):
            make_package({**LIBRARY, "kernels": f"def fast(): {body}\n"})
            locks.append(lock_of(PRICE.evolve(changes=[pc.Replace("shop:price", "kernels:fast")])))
        (difference,) = compare_manifests(*locks)
        assert difference.subject == "file of kernels, of patch shop.price"

    def test_are_there_if_and_only_if_the_files_differ(self, make_package: Any) -> None:
        make_package(LIBRARY)
        sets: list[Any] = [
            [],
            [PRICE],
            [LABEL],
            [PRICE, LABEL],
            [PRICE.evolve(options={"n": 1})],
            [PRICE.evolve(options={"n": 2}, needs=["nosuch"]), LABEL],
            [PRICE.evolve(changes=[pc.Replace("tax:rate", len)])],
            [PRICE, PRICE.evolve(name="shop.again", after=("shop.price",))],
        ]
        locks = [lock_of(*patches, version=version) for version in ("1.0", "1.1") for patches in sets]
        for one, other in itertools.product(locks, locks):
            assert bool(compare_manifests(one, other)) == (to_text(one) != to_text(other))


class TestCommand:
    def test_write_and_check(self, shop: PatchFolder) -> None:
        counts = "4 patches to be applied, 0 not applied"
        assert shop.run("lock") == (0, f"patchcore.lock written: {counts}\n", "")
        assert shop.run("lock", "--check") == (0, "no differences\n", "")
        result = shop.run("lock")
        assert (result.code, result.out) == (0, f"{shop.folder / 'patchcore.lock'} is unchanged: {counts}\n")

    def test_differences(self, shop: PatchFolder) -> None:
        shop.run("lock")
        shop.write(
            shop=LIBRARY_OF_FOLDER.replace("def label():\n    return False", "def label(size=1):\n    return None")
        )
        result = shop.run("lock", "--check", "--disable", "shop.sale")
        assert (result.code, result.err) == (1, "")
        title, columns, sale, label = result.out.splitlines()
        assert title == f"Differences from {shop.folder / 'patchcore.lock'}"
        assert columns.split() == ["SUBJECT", "LOCKED", "HERE"]
        locked = "apply"
        assert re.split("  +", sale.strip()) == ["patch shop.sale", locked, "off"]
        subject, before, here = re.split("  +", label.strip())
        assert subject == "target shop:label, of patch shop.label"
        assert re.fullmatch(r"[0-9a-f]{16} \(\)", before)
        assert re.fullmatch(r"[0-9a-f]{16} \(size=1\)", here)
        rows = shop.run("lock", "--check", "--disable", "shop.sale", "--format", "json").json["differences"]
        assert rows[0] == {"subject": "patch shop.sale", "locked": locked, "here": "off"}

    def test_a_target_that_has_gone(self, shop: PatchFolder) -> None:
        shop.run("lock")
        shop.write(shop=LIBRARY_OF_FOLDER.replace("def label", "def caption"))
        (row,) = shop.run("lock", "--check", "--format", "json").json["differences"]
        assert (row["subject"], row["here"]) == ("target shop:label, of patch shop.label", "not there")

    def test_below_the_file(self, shop: PatchFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        shop.run("lock")
        (shop.folder / "below").mkdir()
        monkeypatch.setenv("PYTHONPATH", str(shop.folder))
        monkeypatch.chdir(shop.folder / "below")
        assert shop.run("lock", "--check").code == 0

    def test_another_file(self, shop: PatchFolder) -> None:
        assert shop.run("lock", "--file", "other.lock", "--format", "json").json["changed"] is True
        assert not (shop.folder / "patchcore.lock").exists()
        assert shop.run("lock", "--check", "--file", "other.lock").code == 0

    def test_check_without_a_file(self, shop: PatchFolder) -> None:
        message = "patchcore: there is no lock file patchcore.lock; write it: patchcore lock --file patchcore.lock\n"
        assert shop.run("lock", "--check") == (2, "", message)

    def test_a_plugin_that_is_broken(self, shop: PatchFolder) -> None:
        shop.run("lock")
        locked = (shop.folder / "patchcore.lock").read_text()
        shop.replace("return PATCHES", "raise LookupError('no patches today')")
        sys.modules.pop("deals")
        result = shop.run("lock")
        assert (result.code, result.out) == (1, "")
        assert "no patches today" in result.err
        assert result.err.splitlines()[-1].endswith(
            "patchcore.lock is not written, because the patches of a broken plugin would be missing in it"
        )
        assert (shop.folder / "patchcore.lock").read_text() == locked
        result = shop.run("lock", "--check")
        assert (result.code, "shop.sale" in result.out, "no patches today" in result.err) == (1, True, True)

    def test_a_patch_that_a_plugin_vetoes_is_not_applied(self, shop: PatchFolder) -> None:
        veto = "def before_apply(patch):\n    return pc.Skip('frozen') if patch.name == 'shop.sale' else None"
        shop.replace("@pc.hookimpl", f"@pc.hookimpl\n{veto}\n\n@pc.hookimpl")
        shop.run("lock")
        lock = read_lock(shop.folder / "patchcore.lock")
        assert lock["not_applied"] == {"shop.sale": "skipped: vetoed by plugin deals: frozen"}

    def test_imports_no_target(self, shop: PatchFolder) -> None:
        shop.run("lock")
        assert "shop" not in sys.modules


class TestLockedRun:
    @pytest.fixture
    def started(self, shop: PatchFolder, monkeypatch: pytest.MonkeyPatch) -> list[Command]:
        """The commands that were started, in the place of starting them."""
        started: list[Command] = []
        monkeypatch.setattr(Command, "replace_process", lambda command, environ: started.append(command))
        shop.write(**{"work.train": "", "work": ""})
        return started

    def test_starts_what_is_as_it_was_locked(self, shop: PatchFolder, started: list[Command]) -> None:
        shop.run("lock")
        assert shop.run("run", "--locked", "work/train.py") == (0, "", "")
        assert started[0].arguments[-1] == "work/train.py"

    def test_refuses_a_difference(self, shop: PatchFolder, started: list[Command]) -> None:
        shop.run("lock")
        result = shop.run("run", "--locked", "--disable", "shop.sale", "work/train.py")
        assert (result.code, started) == (1, [])
        assert result.err == (
            f"patchcore: nothing was started: this environment is not what {shop.folder / 'patchcore.lock'} says:\n"
            "  patch shop.sale: locked: apply; here: off\n"
            "if it is as it should be, write that down and review it: patchcore lock\n"
        )

    def test_without_the_option_nothing_is_compared(self, shop: PatchFolder, started: list[Command]) -> None:
        (shop.folder / "patchcore.lock").write_text("[[")
        assert shop.run("run", "work/train.py").code == 0

    def test_the_file_next_to_the_program_counts_first(self, shop: PatchFolder, started: list[Command]) -> None:
        shop.run("lock")
        (shop.folder / "work" / "patchcore.lock").write_text("[[")
        result = shop.run("run", "--locked", "work/train.py")
        assert (result.code, started) == (2, [])
        assert f"{shop.folder / 'work' / 'patchcore.lock'} cannot be read" in result.err

    def test_no_file(self, shop: PatchFolder, started: list[Command]) -> None:
        result = shop.run("run", "--locked", "work/train.py")
        assert (result.code, started) == (2, [])
        assert result.err.startswith("patchcore: --locked: there is no patchcore.lock, neither at or above ")


class TestSettings:
    """Settings of plugins that decide on what patches change."""

    @pytest.fixture
    def limited(self, shop: PatchFolder, monkeypatch: pytest.MonkeyPatch) -> PatchFolder:
        """A folder whose plugin has two settings, one of which affects patches."""
        source = """
from patchcore.settings import check_text

@pc.hookimpl
def register_settings():
    return [pc.Setting("limit", check_text, default="low", affects_patches=True), pc.Setting("colour", check_text)]

@pc.hookimpl
def register_run_options(parser):
    from patchcore.cli.options import SETTING_PREFIX
    parser.add_argument("--limit", dest=f"{SETTING_PREFIX}limit")

@pc.hookimpl"""
        shop.replace("@pc.hookimpl", source)
        monkeypatch.setattr(Command, "replace_process", lambda command, environ: None)
        shop.write(**{"work.train": "", "work": ""})
        return shop

    def test_are_in_the_file_and_compared(self, limited: PatchFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        limited.run("lock")
        assert read_lock(limited.folder / "patchcore.lock")["settings"] == {"limit": "'low'"}
        monkeypatch.setenv("PATCHCORE_COLOUR", "red")
        assert limited.run("lock", "--check").code == 0
        monkeypatch.setenv("PATCHCORE_LIMIT", "high")
        (row,) = limited.run("lock", "--check", "--format", "json").json["differences"]
        assert row == {"subject": "setting limit", "locked": "'low'", "here": "'high'"}

    def test_a_run_with_another_value_is_not_started(self, limited: PatchFolder) -> None:
        limited.run("lock")
        assert limited.run("run", "--locked", "--limit", "low", "work/train.py").code == 0
        refused = limited.run("run", "--locked", "--limit", "high", "work/train.py")
        assert refused.code == 1
        assert "  setting limit: locked: 'low'; here: 'high'\n" in refused.err

    def test_a_file_that_lacks_them_differs(self, shop: PatchFolder) -> None:
        lock = make_lock(Plan(()))
        (difference,) = compare_manifests(lock, make_lock(Plan(()), {"limit": "'low'"}))
        assert difference == ("setting limit", "no plugin has it", "'low'")
