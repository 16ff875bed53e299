"""lockfile.py, ``patchcore lock`` and ``patchcore run --locked``."""

from __future__ import annotations

import importlib
import itertools
import json
import re
import sys
import zlib
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
from patchcore.builtin.drift.lockfile import compare, make_lock, read_lock, to_text, write_lock
from patchcore.builtin.run.command import Command
from patchcore.errors import SettingsError
from patchcore.planning.plan import Plan

#: Before a test replaces it.
zlib_of = zlib.compress

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def shop(make_package: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> PatchFolder:
    return PatchFolder(make_package, monkeypatch, capsys)


def lock_of(*patches: pc.Patch, **named: Any) -> dict[str, Any]:
    return make_lock(patcher(*patches, **named).plan())


class TestContent:
    def test_a_line_for_each_fact(self, make_package: Any) -> None:
        folder = make_package(LIBRARY)
        write_distribution(folder, "shop-library", "3.4", packages=["shop"])
        price = PRICE.evolve(options={"path": 'a"\\b', "n": 1})
        text = to_text(lock_of(price, LABEL, PRICE.evolve(name="shop.tax", requires=("nosuch>=2",))))
        content = json.loads(text)
        sources = content.pop("sources")
        assert list(sources) == ["reports", "shop_plugin"]
        label, price_of = content["targets"].values()
        assert re.fullmatch(r"[0-9a-f]{16} \(\)", label)
        not_applied = content.pop("not_applied")
        assert re.fullmatch("[0-9a-f]{16}", not_applied["hash"])
        assert not_applied["patches"] == "1"
        assert content.pop("about").startswith("Written by `patchcore lock`.")
        assert content == {
            "schema_version": 2,
            "patchcore": __version__,
            "python": PYTHON,
            "patches": {
                "shop.label": "to be applied, of plugin shop",
                "shop.price": "to be applied, of plugin shop",
            },
            "options": {"shop.price n": "1", "shop.price path": "'a\"\\\\b'"},
            "changes": {
                "shop.label replace shop:label": "reports.new",
                "shop.price replace shop:price": "reports.new",
            },
            "plugins": {"shop": "shop-npu 1.0"},
            "libraries": {"shop": "3.4"},
            "targets": {"shop:label": label, "shop:price": price_of},
        }
        facts = sum(len(table) for table in content.values() if isinstance(table, dict)) + len(sources)
        assert (
            len(text.splitlines()) == facts + len(not_applied) + len("{}") + 4 + 2 * 8
        )  # a table has two lines of its own

    def test_what_is_not_applied_adds_no_line(self, make_package: Any) -> None:
        make_package(LIBRARY)
        skipped = [PRICE.evolve(name=f"shop.{i}", requires=("nosuch>=2",)) for i in range(50)]
        few, many = to_text(lock_of(LABEL)), to_text(lock_of(LABEL, *skipped))
        assert few != many
        assert len(few.splitlines()) == len(many.splitlines())

    def test_the_order_of_two_patches_of_one_target(self, make_package: Any) -> None:
        make_package(LIBRARY)
        again = PRICE.evolve(name="shop.again", after=("shop.price",))
        assert lock_of(PRICE, again)["patches"] == {
            "shop.again": "to be applied, on top of shop.price, of plugin shop",
            "shop.price": "to be applied, of plugin shop",
        }

    def test_versions_stand_for_the_sources_of_what_is_installed(self, make_package: Any) -> None:
        folder = make_package({**LIBRARY, "kernels": "def fast(): pass\n", "own": "def fast(): pass\n"})
        write_distribution(folder, "shop-kernels", "5.6", packages=["kernels"])
        changes = [pc.Replace("shop:price", "kernels:fast"), pc.Replace("shop:label", "own:fast"),
                   pc.Replace("shop:sale", "json:dumps")]  # fmt: skip
        lock = lock_of(PRICE.evolve(changes=changes))
        assert lock["libraries"] == {"kernels": "5.6", "shop": "none"}
        assert list(lock["sources"]) == ["own", "shop_plugin"]

    @pytest.mark.parametrize("patches", list(itertools.permutations([PRICE, LABEL])), ids=["one way", "the other"])
    def test_does_not_depend_on_the_order_of_contributions(self, make_package: Any, patches: Any) -> None:
        make_package(LIBRARY)
        assert to_text(lock_of(*patches)) == to_text(lock_of(PRICE, LABEL))

    def test_paths_are_left_out_of_reasons(self, make_package: Any, tmp_path: Path) -> None:
        def broken() -> bool:
            raise ValueError(f"no {tmp_path}/till.txt, see https://shop.example/till/1")

        make_package(LIBRARY)
        reason = lock_of(PRICE.evolve(when=broken))["patches"]["shop.price"]
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
        patches = [pc.Patch(f"store.p{i}", [pc.Replace(target, len)]) for i, target in enumerate(_TARGETS)]
        before = to_text(lock_of(*patches))
        assert '"store:price": ' in before
        assert "compiled" not in before
        for name in order[:count]:
            importlib.import_module(name)
        assert to_text(lock_of(*patches)) == before


#: What has a meaning in JSON, what may not be in a string as it is, and what is far from ASCII.
ALPHABET = "az09_-.,=#[]{}'\"\\\b\t\n\r\x00\x1f\x7f\x80\u00e9\u2028\ufffe\U0001f40d"
TEXTS = st.text(ALPHABET, max_size=6)
TABLES = st.dictionaries(TEXTS, TEXTS, max_size=2)
LOCKS = st.fixed_dictionaries(
    {
        **dict.fromkeys(["patchcore", "python"], TEXTS),
        **dict.fromkeys(["patches", "options", "sources", "plugins", "libraries", "targets"], TABLES),
        "changes": st.dictionaries(st.builds("{} {} {}".format, TEXTS, TEXTS, TEXTS), TEXTS, max_size=2),
        **dict.fromkeys(["not applied", "unused plugins"], TABLES),
    }
)


class TestFile:
    @settings(max_examples=25)
    @given(lock=LOCKS)
    def test_reading_gives_what_was_written(self, lock: dict[str, Any], tmp_path_factory: Any) -> None:
        path = tmp_path_factory.getbasetemp() / "any.lock"
        write_lock(path, lock)
        assert read_lock(path) == lock
        assert compare(read_lock(path), lock) == []

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

    def test_is_not_written_anew_where_details_are_compressed_in_another_way(
        self, make_package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_package(LIBRARY)
        path = tmp_path / "a.lock"
        lock = lock_of(PRICE, *(LABEL.evolve(name=f"shop.{i}", requires=("nosuch>=2",)) for i in range(20)))
        monkeypatch.setattr("patchcore.builtin.drift.lockfile.zlib.compress", lambda data, level: zlib_of(data, 0))
        assert write_lock(path, lock)
        monkeypatch.undo()
        assert to_text(lock) != path.read_text()
        assert not write_lock(path, lock)
        assert read_lock(path) == lock

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("[[", r"a\.lock cannot be read: "),
            ("\xff", r"a\.lock cannot be read: .*decode"),
            ("[]", r"is not what patchcore lock writes: schema_version is None; write it anew: patchcore lock"),
            ({"schema_version": "2"}, r"schema_version is '2'"),
            ({"patchcore": None}, r"patchcore is None"),
            (
                {"schema_version": 3, "patchcore": "7.0"},
                r"a\.lock has schema_version 3, this patchcore reads up to 2: it was written by patchcore 7\.0",
            ),
            ({"patches": {"a": 1}}, r"patches\.a is 1"),
            ({"libraries": {"a": {}}}, r"libraries\.a is {}"),
            ({"changes": {"replace": "x"}}, r"changes has 'replace'"),
            ({"targets": []}, r"targets is \[\]"),
            (
                {"not_applied": {"hash": "0", "details": "eJyrrgUAAXUA+Q=="}},
                r"is not what not_applied\.hash stands for",
            ),
            ({"not_applied": {"hash": "0", "details": "????"}}, r"not_applied\.details cannot be read"),
            ({"not_applied": {"hash": "0"}}, r"not_applied\.details cannot be read"),
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

    def test_a_patch_that_is_applied_in_one_place_only(self, make_package: Any) -> None:
        make_package(LIBRARY)
        left_out = LABEL.evolve(requires=("nosuch>=2",))
        assert compare(lock_of(PRICE, LABEL), lock_of(PRICE, left_out)) == [
            (
                "patch shop.label",
                "to be applied, of plugin shop",
                "skipped: requires nosuch>=2, nosuch is not installed",
            )
        ]
        assert compare(lock_of(PRICE), lock_of(PRICE, LABEL)) == [
            ("patch shop.label", "no plugin contributes it", "to be applied, of plugin shop")
        ]

    def test_why_a_patch_is_not_applied(self, make_package: Any) -> None:
        make_package(LIBRARY)
        one, other = (LABEL.evolve(requires=(f"nosuch>={number}",)) for number in (2, 3))
        assert compare(lock_of(PRICE, one), lock_of(PRICE, other)) == [
            (
                "patch shop.label",
                "skipped: requires nosuch>=2, nosuch is not installed",
                "skipped: requires nosuch>=3, nosuch is not installed",
            )
        ]

    def test_an_option_a_replacement_and_a_version_of_a_plugin(self, make_package: Any) -> None:
        make_package(LIBRARY)
        one = lock_of(PRICE.evolve(options={"n": 1}))
        other = lock_of(PRICE.evolve(options={"n": 2}, changes=[pc.Replace("shop:price", len)]), version="2.0")
        assert compare(one, other) == [
            ("option shop.price n", "1", "2"),
            ("change shop.price replace shop:price", "reports.new", "builtins.len"),
            ("source of module reports, of patch shop.price", one["sources"]["reports"], "not patched"),
            ("plugin shop, of patch shop.price", "shop-npu 1.0", "shop-npu 2.0"),
        ]

    def test_the_source_of_a_replacement(self, make_package: Any) -> None:
        locks = []
        for body in ("pass", "return 1"):
            make_package({**LIBRARY, "kernels": f"def fast(): {body}\n"})
            locks.append(lock_of(PRICE.evolve(changes=[pc.Replace("shop:price", "kernels:fast")])))
        (difference,) = compare(*locks)
        assert difference.subject == "source of module kernels, of patch shop.price"

    def test_versions(self, make_package: Any) -> None:
        folder = make_package(LIBRARY)
        write_distribution(folder, "shop-library", "3.4", packages=["shop"])
        one = lock_of(PRICE)
        other = {**one, "libraries": {"shop": "3.5"}, "python": "3.8", "patchcore": "0.0"}
        assert compare(one, other) == [
            ("library shop, of patch shop.price", "3.4", "3.5"),
            ("python", PYTHON, "3.8"),
            ("patchcore", __version__, "0.0"),
        ]

    def test_a_plugin_of_which_nothing_is_applied(self, make_package: Any) -> None:
        make_package(LIBRARY)
        skipped = PRICE.evolve(requires=("nosuch>=2",))
        assert compare(lock_of(skipped), lock_of(skipped, version="2.0")) == [
            ("plugin shop", "shop-npu 1.0", "shop-npu 2.0")
        ]

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
            assert bool(compare(one, other)) == (to_text(one) != to_text(other))


class TestCommand:
    def test_write_and_check(self, shop: PatchFolder) -> None:
        counts = "4 patches to be applied, 0 not applied"
        assert shop.run("lock") == (0, f"patchcore.lock written: {counts}\n", "")
        assert shop.run("lock", "--check") == (0, "no differences\n", "")
        result = shop.run("lock")
        assert (result.code, result.out) == (0, f"{shop.folder / 'patchcore.lock'} is unchanged: {counts}\n")

    def test_explain(self, shop: PatchFolder) -> None:
        shop.run("lock", "--disable", "shop.sale")
        path = shop.folder / "patchcore.lock"
        title, row = shop.run("lock", "--explain").out.splitlines()
        assert title == f"1 patch not applied where {path} was written"
        assert row == "  shop.sale  skipped: by choice"
        found = shop.run("lock", "--explain", "--format", "json").json
        assert found["not_applied"] == {"shop.sale": "skipped: by choice"}

    def test_explain_needs_no_plugin(self, shop: PatchFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        shop.run("lock", "--disable", "shop.sale")
        (shop.folder / "deals.py").unlink()
        assert shop.run("lock", "--explain").code == 0

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
        locked = "to be applied, of plugin deals"
        assert re.split("  +", sale.strip()) == ["patch shop.sale", locked, "skipped: by choice"]
        subject, before, here = re.split("  +", label.strip())
        assert subject == "target shop:label, of patch shop.label"
        assert re.fullmatch(r"[0-9a-f]{16} \(\)", before)
        assert re.fullmatch(r"[0-9a-f]{16} \(size=1\)", here)
        rows = shop.run("lock", "--check", "--disable", "shop.sale", "--format", "json").json["differences"]
        assert rows[0] == {"subject": "patch shop.sale", "locked": locked, "here": "skipped: by choice"}

    def test_other_looks_of_a_library_are_no_difference(self, shop: PatchFolder) -> None:
        shop.run("lock")
        shop.write(shop="# all of it\n" + LIBRARY_OF_FOLDER.replace("():", "():  # that is it"))
        assert shop.run("lock", "--check") == (0, "no differences\n", "")

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
        assert (result.code, "patch shop.sale" in result.out, "no patches today" in result.err) == (1, True, True)

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
            "  patch shop.sale: locked: to be applied, of plugin deals; here: skipped: by choice\n"
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
