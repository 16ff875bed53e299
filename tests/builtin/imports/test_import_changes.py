"""Changes of imports: applied like any other change, reported, and taken back to the identical objects."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import Programs

import patchcore as pc
from patchcore.errors import DeclarationError
from patchcore.planning.plan import Plan
from patchcore.report import ChangeRecord


def patcher(*changes: Any, strict: bool = True, **declaration: Any) -> pc.Patcher:
    return pc.Patcher([pc.Patch("p", list(changes), **declaration)], strict=strict)


def only_change(made: pc.Patcher) -> ChangeRecord:
    return made.report().patches[0].changes[0]


@pytest.fixture(autouse=True)
def sys_modules_as_before() -> Iterator[None]:
    """What patches have brought into ``sys.modules`` is gone at the end, and nothing that was there."""
    before = dict(sys.modules)
    yield
    added = {name for name in sys.modules if name not in before and name.partition(".")[0] in ("gone", "added")}
    assert not added
    assert all(sys.modules.get(name) is module for name, module in before.items())


REAL = {
    "real": "from real.ops import conv\nname = 'real'",
    "real.ops": "def conv(): return 'real conv'\ndef pool(): return 'real pool'",
    "real.extra": "",
    "other": "from other.ops import conv\nname = 'other'",
    "other.ops": "def conv(): return 'other conv'\ndef pool(): return 'other pool'",
}


class TestDeclaration:
    @pytest.mark.parametrize("name", ["", "a.", ".a", "a b", "a:b", "1a", "a-b", None, 3], ids=repr)
    @pytest.mark.parametrize(
        "declare",
        [
            pc.StubImport,
            lambda name: pc.ReplaceImport(name, with_="m"),
            lambda name: pc.ReplaceImport("m", with_=name),
            lambda name: pc.InjectImport("m", "f", name),
            lambda name: pc.WhileImporting(name, pc.Replace("m:f", "n:f")),
        ],
        ids=["stub", "replace", "replace with", "inject", "while"],
    )
    def test_malformed_module_names_are_refused(self, declare, name) -> None:
        with pytest.raises(DeclarationError, match=r"dotted module name|with_ must be the name of a module"):
            declare(name)

    @pytest.mark.parametrize(
        ("declare", "message"),
        [
            (lambda: pc.StubImport("m", version=2), "version must be a string, got 2"),
            (lambda: pc.StubImport("m", attributes={"a.b": 1}), "has the key 'a.b'"),
            (lambda: pc.StubImport("m", attributes={"a": "text"}), "has no ':'"),
            (lambda: pc.ReplaceImport("m", with_="m.inner"), "'m.inner' is inside the module that it is to replace"),
            (lambda: pc.ReplaceImport("m", with_={"f": "text"}), "has no ':'"),
            (lambda: pc.InjectImport("m", "a.b", "n"), "'a.b' is not a name that can be imported"),
            (lambda: pc.WhileImporting("m", []), "has no changes"),
            (lambda: pc.WhileImporting("m", ["m:f"]), "'m:f' is not a change"),
            (
                lambda: pc.WhileImporting("m", pc.WhileImporting("n", pc.StubImport("o"))),
                "cannot contain another WhileImporting",
            ),
        ],
    )
    def test_other_malformed_arguments(self, declare, message) -> None:
        with pytest.raises(DeclarationError, match=message):
            declare()

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (pc.StubImport("a.b"), "stub a.b"),
            (pc.ReplaceImport("a.b", with_="c"), "replace-import a.b with c"),
            (pc.ReplaceImport("a.b", with_={"f": len, "g": 1}), "replace-import a.b with a module of f, g"),
            (pc.InjectImport("a", "f", "c.d"), "inject c.d:f from a"),
            (pc.WhileImporting("a", pc.Replace("m:v", 1)), "while-importing a: replace m:v"),
        ],
        ids=["stub", "replace", "replace with exports", "inject", "while"],
    )
    def test_words_and_values(self, change, words) -> None:
        assert str(change) == words
        assert change == change.evolve()
        assert hash(change) == hash(change.evolve())

    def test_options_reach_the_calls_inside(self, make_package) -> None:
        make_package({"lib": "", "seen": ""})
        seen: list[Any] = []
        call = pc.Call(lambda module, options: seen.append(options), module="seen", options={"n": 1})
        patch = pc.Patch("p", pc.WhileImporting("lib", call), options={"n": 1}).with_options({"n": 2})
        import seen as waited_for  # noqa: F401

        with pc.Patcher([patch], strict=True):
            importlib.import_module("lib")
        assert seen == [{"n": 2}]


class TestPlan:
    def plan(self, *changes: Any) -> Plan:
        return pc.Patcher([pc.Patch(f"p{i}", change) for i, change in enumerate(changes)]).plan()

    def test_nothing_is_imported(self, make_package) -> None:
        make_package(REAL)
        before = set(sys.modules)
        self.plan(
            pc.StubImport("gone"),
            pc.StubImport("real.gone"),
            pc.ReplaceImport("real", with_="other"),
            pc.InjectImport("other", "conv", "real.extra"),
            pc.WhileImporting("real", pc.Replace("other:name", "other:conv")),
        )
        assert not {name for name in set(sys.modules) - before if name.partition(".")[0] in ("real", "other")}

    @pytest.mark.parametrize(
        "changes",
        [
            (pc.StubImport("gone"), pc.StubImport("gone")),
            (pc.StubImport("gone"), pc.ReplaceImport("gone", with_="other")),
            (pc.ReplaceImport("real", with_="other"), pc.ReplaceImport("real", with_={})),
            (pc.ReplaceImport("real", with_="other"), pc.Replace("real:conv", "other:conv")),
            (pc.Replace("real:conv", "other:conv"), pc.ReplaceImport("real", with_="other")),
            (pc.InjectImport("other", "f", "real"), pc.InjectImport("real.ops", "f", "real")),
            (pc.WhileImporting("real", pc.Replace("other:v", 1)), pc.WhileImporting("real", pc.Replace("other:v", 2))),
        ],
        ids=["stub stub", "stub replace", "replace twice", "inside", "around", "inject", "while"],
    )
    def test_two_patches_that_change_the_same_are_a_conflict(self, make_package, changes, request) -> None:
        make_package(REAL)
        plan = self.plan(*changes)
        assert [entry.patch.name for entry in plan.conflicts] == ["p1"]
        # what is inside of a module can only be changed once the module is there
        order = "after=['p1'] in p0" if request.node.callspec.id == "around" else "after=['p0'] in p1"
        assert f"declare {order}" in plan["p1"].reason

    def test_windows_around_one_module_with_different_changes_go_together(self, make_package) -> None:
        make_package(REAL)
        first = pc.WhileImporting("real", pc.Replace("other:name", 1))
        second = pc.WhileImporting("real", pc.Replace("other:conv", 2))
        assert not self.plan(first, second).conflicts

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (pc.StubImport("gone.inner"), "gone is not installed"),
            (pc.ReplaceImport("gone.inner", with_="other"), "gone is not installed"),
            (pc.InjectImport("other", "f", "gone"), "gone is not installed"),
            (pc.WhileImporting("gone", pc.Replace("other:v", 1)), "gone is not installed"),
            (pc.WhileImporting("real", pc.Replace("gone:v", 1)), "gone is not installed"),
        ],
        ids=["stub inside", "replace inside", "inject", "while", "inside while"],
    )
    def test_a_library_that_is_not_there(self, make_package, change, reason) -> None:
        make_package(REAL)
        entry = self.plan(change)["p0"]
        assert (entry.verdict, entry.reason) == ("skipped", reason)

    def test_a_patch_is_meant_by_the_module_it_stubs(self) -> None:
        made = pc.Patcher([pc.Patch("p", pc.StubImport("gone"))], disable=["gone"])
        assert made.plan()["p"].verdict == "off"


class TestStubImport:
    def test_it_is_applied_reported_and_gone(self, make_package) -> None:
        made = patcher(pc.StubImport("gone"))
        finders = list(sys.meta_path)
        with made:
            from gone.inner import f  # noqa: F401

            record = only_change(made)
            assert (record.kind, record.target, record.status) == ("stub", "gone", "applied")
            assert record.slots == ("sys:modules['gone']", "sys:modules['gone.inner']", "gone:inner")
        assert sys.meta_path == finders
        assert importlib.util.find_spec("gone") is None
        assert only_change(made).status == "reverted"

    def test_names_that_keep_a_stub_are_named(self, make_package) -> None:
        make_package({"user": "import gone as g\nfrom gone import f\n@f\ndef k(): pass\n"})
        made = patcher(pc.StubImport("gone"))
        with made:
            importlib.import_module("user")
        (note,) = made.report().notes
        assert note == "user:f, user:g, user:k: still a stub of gone, which raises StubError when it is used"

    @pytest.mark.parametrize("imported", [True, False])
    def test_what_is_installed_is_not_hidden(self, make_package, imported) -> None:
        folder = make_package(REAL)
        if imported:
            importlib.import_module("real")
        with patcher(pc.StubImport("real")) as made:
            record = only_change(made)
            assert record.status == "skipped"
            assert record.reason == f"real exists ({folder / 'real' / '__init__.py'}), and a stub would hide it"
            assert importlib.import_module("real").name == "real"

    def test_a_folder_that_can_be_imported_by_accident_is_named(self, make_package) -> None:
        folder = make_package({"real.part": ""})
        with patcher(pc.StubImport("real")) as made:
            assert f"a folder without __init__.py: {folder / 'real'}" in only_change(made).reason

    def test_what_is_installed_later_is_not_hidden_either(self, make_package) -> None:
        with patcher(pc.StubImport("real")) as made:
            assert only_change(made).status == "applied"
            make_package(REAL)
            assert importlib.import_module("real.ops").conv() == "real conv"
            assert only_change(made).status == "skipped"

    def test_a_real_package_around_it_works_on(self, make_package) -> None:
        make_package(REAL)
        with patcher(pc.StubImport("real.gone")):
            from real.gone.deep import f  # noqa: F401
            from real.ops import conv

            real = sys.modules["real"]
            assert conv() == "real conv"
            assert "gone" in vars(real)
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module("real.missing")
        assert "gone" not in vars(real)
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("real.gone")

    def test_an_attribute_of_the_package_comes_back(self, make_package) -> None:
        make_package({"real": "gone = None", "real.ops": ""})
        real = importlib.import_module("real")
        with patcher(pc.StubImport("real.gone")):
            importlib.import_module("real.gone")
            assert real.gone is sys.modules["real.gone"]
        assert real.gone is None

    def test_inside_a_module_that_is_no_package(self, make_package) -> None:
        make_package({"single": ""})
        importlib.import_module("single")
        made = patcher(pc.StubImport("single.gone"), strict=False)
        made.apply()
        assert "single is a module, not a package" in only_change(made).reason
        made.revert()

    def test_an_import_that_was_blocked(self, monkeypatch) -> None:
        monkeypatch.setitem(sys.modules, "blocked", None)
        with patcher(pc.StubImport("blocked")):
            assert importlib.import_module("blocked").f
        assert sys.modules["blocked"] is None

    def test_nothing_fits_because_of_a_stub(self) -> None:
        needing = pc.Patch("needing", pc.Replace("gone:f", 1), needs=["gone"])
        made = pc.Patcher([pc.Patch("p", pc.StubImport("gone")), needing])
        with made:
            importlib.import_module("gone")
            made.refresh()
            assert made.report()["needing"].status == "skipped"

    def test_an_attribute_that_cannot_be_looked_up_fails_the_patch(self, make_package) -> None:
        make_package(REAL)
        made = patcher(pc.StubImport("gone", attributes={"f": "real:missing"}), strict=False)
        with made:
            with pytest.raises(ModuleNotFoundError, match="gone"):
                importlib.import_module("gone")
            assert "real:missing does not exist" in made.report()["p"].reason


USERS = {
    "user": """
        import real
        import real.ops as o
        from real.ops import conv as c
        def run(): return c(), o.conv(), real.name
        """,
}


class TestReplaceImport:
    def test_before_the_first_import(self, make_package) -> None:
        make_package({**REAL, **USERS})
        made = patcher(pc.ReplaceImport("real", with_="other"))
        with made:
            assert only_change(made).status == "pending"
            user = importlib.import_module("user")
            assert user.run() == ("other conv", "other conv", "other")
            assert sys.modules["real"] is sys.modules["other"]
            assert sys.modules["real.ops"] is sys.modules["other.ops"]
            assert only_change(made).status == "applied"
        assert importlib.import_module("real").name == "real"
        assert sys.modules["other"].__spec__.name == "other"

    def test_after_the_first_import(self, make_package) -> None:
        make_package({**REAL, **USERS})
        user = importlib.import_module("user")
        modules = {name: sys.modules[name] for name in ("real", "real.ops")}
        names = dict(vars(user))
        with patcher(pc.ReplaceImport("real", with_="other")) as made:
            assert user.run() == ("other conv", "other conv", "other")
            assert set(only_change(made).rebound) == {"user:real", "user:o", "user:c"}
            assert sys.modules["real.ops"] is sys.modules["other.ops"]
        assert {name: sys.modules[name] for name in modules} == modules
        assert dict(vars(user)) == names
        assert modules["real"].ops is modules["real.ops"]

    def test_a_module_that_is_imported_under_its_own_name_meanwhile_stays(self, make_package) -> None:
        make_package({**REAL, **USERS, "third": "import other"})
        importlib.import_module("user")
        with patcher(pc.ReplaceImport("real", with_="other")):
            third = importlib.import_module("third")
        assert third.other is sys.modules["other"]

    @pytest.mark.parametrize("first", ["real", "wrapping", "neither"])
    def test_the_other_module_may_build_on_the_real_one(self, make_package, first) -> None:
        wrapping = "from real import *\nimport real as _real\nname = 'wrapped ' + _real.name"
        make_package({**REAL, "wrapping": wrapping})
        with patcher(pc.ReplaceImport("real", with_="wrapping")) as made:
            if first != "neither":
                importlib.import_module(first)
            assert importlib.import_module("real").name == "wrapped real"
            assert sys.modules["wrapping"]._real.name == "real"
            assert only_change(made).status == "applied"
        assert importlib.import_module("real").name == "real"

    def test_already_imported_by_the_module_that_builds_on_it(self, make_package) -> None:
        make_package({**REAL, "wrapping": "import real\nname = 'wrapped ' + real.name", "user": "import real"})
        user, wrapping = importlib.import_module("user"), importlib.import_module("wrapping")
        with patcher(pc.ReplaceImport("real", with_="wrapping")) as made:
            assert user.real is wrapping
            assert wrapping.real.name == "real"
            assert "wrapping:real" in only_change(made).kept
        assert user.real is wrapping.real

    @pytest.mark.parametrize("space", [{"pack": "", "pack.part": "name = 'part'"}, {"pack.part": "name = 'part'"}])
    @pytest.mark.parametrize("imported", [True, False])
    def test_inside_a_real_and_a_namespace_package(self, make_package, space, imported) -> None:
        make_package({**space, "pack.near": "", "mine": "name = 'mine'"})
        before = importlib.import_module("pack.part") if imported else None
        with patcher(pc.ReplaceImport("pack.part", with_="mine")):
            from pack import part

            assert part.name == "mine"
            assert sys.modules["pack"].part is part
            importlib.import_module("pack.near")
        if imported:
            assert sys.modules["pack.part"] is sys.modules["pack"].part is before
        else:
            assert not hasattr(sys.modules["pack"], "part")

    def test_a_function_of_the_same_name_in_the_package_is_replaced_by_a_function(self, make_package) -> None:
        make_package({"pack": "from pack.conv import conv", "pack.conv": "def conv(): ...", "mine": "def conv(): ..."})
        pack = importlib.import_module("pack")
        original = pack.conv
        with patcher(pc.ReplaceImport("pack.conv", with_="mine")):
            assert pack.conv is importlib.import_module("mine").conv
            assert sys.modules["pack.conv"].__name__ == "mine"
        assert pack.conv is original

    def test_exports(self, make_package) -> None:
        make_package(REAL)
        exports = {"conv": "other.ops:conv", "limit": 3, "name": pc.Literal("x:y")}
        with patcher(pc.ReplaceImport("real", with_=exports)):
            space: dict[str, Any] = {}
            exec("from real import *", space)
            assert space["conv"]() == "other conv"
            assert (space["limit"], space["name"]) == (3, "x:y")
            assert importlib.util.find_spec("real") is not None
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module("real.ops")
            real = sys.modules["real"]
            real.limit = 4
            assert importlib.reload(real).limit == 3
        assert importlib.import_module("real.ops").conv() == "real conv"

    def test_what_only_the_replaced_one_has_cannot_be_imported(self, make_package) -> None:
        make_package(REAL)
        extra = importlib.import_module("real.extra")
        with patcher(pc.ReplaceImport("real", with_="other")):
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module("real.extra")
        assert sys.modules["real.extra"] is extra

    def test_nothing_to_put_there(self, make_package) -> None:
        make_package(REAL)
        made = patcher(pc.ReplaceImport("real", with_="other.opz"), strict=False)
        with made:
            assert "no module 'other.opz' to put in the place of real; did you mean 'other.ops'?" in (
                made.report()["p"].reason
            )
            assert importlib.import_module("real").name == "real"

    def test_a_replacement_that_fails_leaves_the_real_one(self, make_package) -> None:
        make_package({**REAL, "broken": "raise ValueError('no driver')"})
        made = patcher(pc.ReplaceImport("real", with_="broken"), strict=False)
        with made:
            assert importlib.import_module("real").name == "real"
            assert made.report()["p"].reason == "ValueError: no driver"

    def test_a_module_whose_body_runs_is_refused(self, make_package) -> None:
        source = """
            import patchcore as pc
            made = pc.Patcher([pc.Patch("p", pc.ReplaceImport("running", with_="other"))])
            made.apply()
            """
        make_package({**REAL, "running": source})
        made = importlib.import_module("running").made
        assert "running is being imported, so it is too late" in made.report()["p"].reason
        made.revert()

    def test_a_replacement_that_fails_is_an_error_under_strict(self, make_package) -> None:
        make_package({**REAL, "broken": "raise ValueError('no driver')"})
        with patcher(pc.ReplaceImport("real", with_="broken")):
            with pytest.raises(pc.PatchError, match="no driver"):
                importlib.import_module("real")

    def test_places_out_of_reach_are_reported(self, make_package) -> None:
        make_package({**REAL, "user": "import real\ntable = [real]\n"})
        importlib.import_module("user")
        with patcher(pc.ReplaceImport("real", with_="other")) as made:
            report = made.report(unreachable=True)
            assert any("user:table" in place for place in report["p"].changes[0].unreachable)

    def test_names_of_the_other_module_stay_its_own(self, make_package) -> None:
        make_package({**REAL, **USERS, "third": "import other\nfrom other.ops import conv"})
        importlib.import_module("user")
        third = importlib.import_module("third")
        names = dict(vars(third))
        with patcher(pc.ReplaceImport("real", with_="other")):
            pass
        assert dict(vars(third)) == names


class TestInjectImport:
    SOURCES = {"mine": "def f(): return 'mine'\nVALUE = 3", "lib": "__all__ = ['g']\ndef g(): ...", "lib.part": ""}

    @pytest.mark.parametrize("imported", [True, False])
    def test_a_missing_export(self, make_package, imported) -> None:
        make_package(self.SOURCES)
        if imported:
            exported = importlib.import_module("lib").__all__
        with patcher(pc.InjectImport("mine", "f", "lib")) as made:
            space: dict[str, Any] = {}
            exec("from lib import *", space)
            assert space["f"]() == "mine"
            assert sys.modules["lib"].__all__ == ["g", "f"]
            assert only_change(made).slots == ("lib:f", "lib:__all__")
        lib = sys.modules["lib"]
        assert not hasattr(lib, "f")
        assert lib.__all__ == ["g"]
        if imported:
            assert lib.__all__ is exported

    def test_a_name_that_exists_is_left_alone(self, make_package) -> None:
        make_package(self.SOURCES)
        lib = importlib.import_module("lib")
        g, exported = lib.g, lib.__all__
        with patcher(pc.InjectImport("mine", "g", "lib")) as made:
            assert (only_change(made).status, only_change(made).reason) == ("skipped", "lib:g already exists")
            assert lib.g is g
            assert lib.__all__ is exported

    def test_under_another_name_and_a_tuple(self, make_package) -> None:
        make_package({**self.SOURCES, "lib.part": "__all__ = ('x',)\nx = 1"})
        with patcher(pc.InjectImport("mine:VALUE", "limit", "lib.part")):
            part = importlib.import_module("lib.part")
            assert part.limit == 3
            assert part.__all__ == ("x", "limit")

    @given(st.permutations(["f", "g", "h"]))
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_several_patches_may_add_and_go_in_any_order(self, make_package, order) -> None:
        make_package({"mine": "f = g = h = len", "lib": "__all__ = []"})
        lib = importlib.import_module("lib")
        exported = lib.__all__
        made = {name: pc.Patcher([pc.Patch(name, pc.InjectImport("mine", name, "lib"))]) for name in "fgh"}
        for one in made.values():
            one.apply()
        left = {"f", "g", "h"}
        for name in order:
            assert set(lib.__all__) == left
            made[name].revert()
            left.remove(name)
        assert lib.__all__ is exported
        assert exported == []


CHECKING = {
    "base": "VERSION = '9.0'\ndef limit(): return 9",
    "picky": "import base\nfrom base import limit\nassert base.VERSION == '2.1', base.VERSION\nseen = limit()",
}


class TestWhileImporting:
    def shown(self, version: str) -> pc.WhileImporting:
        return pc.WhileImporting("picky", pc.Replace("base:VERSION", pc.Literal(version)))

    @pytest.mark.parametrize("imported", [True, False], ids=["base imported before", "base imported by the body"])
    def test_in_force_while_the_body_runs_and_not_afterwards(self, make_package, imported) -> None:
        make_package(CHECKING)
        if imported:
            importlib.import_module("base")
        with patcher(self.shown("2.1")) as made:
            assert only_change(made).reason == "waits for the import of picky"
            importlib.import_module("picky")
            assert sys.modules["base"].VERSION == "9.0"
            record = only_change(made)
            assert (record.status, record.slots) == ("applied", ("base:VERSION",))
            assert record.reason == "applied while picky was imported"

    def test_refused_all_the_same_and_put_back(self, make_package) -> None:
        make_package(CHECKING)
        with patcher(self.shown("3.0")) as made:
            for _ in range(2):
                with pytest.raises(AssertionError, match=r"3\.0"):
                    importlib.import_module("picky")
                assert sys.modules["base"].VERSION == "9.0"
            assert only_change(made).status == "pending"

    def test_names_bound_in_the_body_go_back(self, make_package) -> None:
        make_package(CHECKING)
        base = importlib.import_module("base")
        limit = base.limit
        changes = [pc.Replace("base:VERSION", pc.Literal("2.1")), pc.Replace("base:limit", lambda: 5)]
        with patcher(pc.WhileImporting("picky", changes)):
            picky = importlib.import_module("picky")
            assert picky.seen == 5
            assert picky.limit is base.limit is limit
            assert picky.limit() == 9

    def test_already_imported(self, make_package) -> None:
        make_package({**CHECKING, "picky": ""})
        importlib.import_module("picky")
        with patcher(self.shown("2.1")) as made:
            record = only_change(made)
            assert record.status == "skipped"
            assert record.reason.startswith("picky is already imported; apply the patch before that")

    def test_applied_by_its_own_body(self, make_package) -> None:
        source = """
            import patchcore as pc
            shown = pc.WhileImporting("running", pc.Replace("base:VERSION", pc.Literal("2.1")))
            made = pc.Patcher([pc.Patch("p", shown)])
            made.apply()
            import base
            seen = base.VERSION
            """
        make_package({**CHECKING, "running": source})
        running = importlib.import_module("running")
        assert running.seen == "9.0"
        assert only_change(running.made).status == "skipped"
        running.made.revert()

    def test_a_library_that_the_body_does_not_import(self, make_package) -> None:
        make_package({**CHECKING, "picky": ""})
        with patcher(self.shown("2.1")) as made:
            importlib.import_module("picky")
            assert only_change(made).reason == "replace base:VERSION: base was not imported during that time"
            assert importlib.import_module("base").VERSION == "9.0"

    def test_a_target_that_does_not_exist_fails_the_patch_and_not_the_import(self, make_package) -> None:
        make_package({**CHECKING, "picky": "import base\nseen = base.VERSION"})
        changes = [pc.Replace("base:VERSION", pc.Literal("2.1")), pc.Replace("base:VERSIO", 1)]
        with patcher(pc.WhileImporting("picky", changes), strict=False) as made:
            assert importlib.import_module("picky").seen == "9.0"
            assert "base has no VERSIO" in made.report()["p"].reason
            assert made.report()["p"].status == "failed"

    def test_a_patch_that_stays_comes_through_it(self, make_package) -> None:
        make_package(CHECKING)
        stays = pc.Patch("stays", pc.Replace("base:VERSION", pc.Literal("8.0")))
        window = pc.Patch("window", self.shown("2.1"), after=["stays"])
        with pc.Patcher([stays, window], strict=True):
            importlib.import_module("picky")
            assert sys.modules["base"].VERSION == "8.0"
        assert sys.modules["base"].VERSION == "9.0"

    def test_a_lazy_module_opens_it_when_it_is_executed(self, make_package) -> None:
        make_package(CHECKING)
        spec = importlib.util.find_spec("picky")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        lazy = importlib.util.module_from_spec(spec)
        sys.modules["picky"] = lazy
        spec.loader.exec_module(lazy)
        with patcher(self.shown("2.1")) as made:
            assert only_change(made).status == "pending"
            assert lazy.seen == 9
            assert only_change(made).status == "applied"

    def test_other_changes_of_the_module_are_written_after_it(self, make_package) -> None:
        make_package(CHECKING)
        with patcher(self.shown("2.1"), pc.Replace("picky:seen", 1)):
            assert importlib.import_module("picky").seen == 1


PATCHES = """
import patchcore as pc

@pc.hookimpl
def register_patches():
    shown = pc.Replace("base:VERSION", pc.Literal("2.1"))
    return [
        pc.Patch("stub", pc.StubImport("gone")),
        pc.Patch("replaced", pc.ReplaceImport("added", with_={"value": 3})),
        pc.Patch("shown", pc.WhileImporting("picky", shown)),
    ]
"""


@pytest.mark.parametrize(
    ("child", "printed"),
    [
        ("from gone.deep import f; print(f)", "<stub gone.deep.f>"),
        ("import importlib.util as u; print(u.find_spec('gone') is not None)", "True"),
        ("import added; print(added.value)", "3"),
        ("import picky; print(picky.base.VERSION)", "9.0"),
    ],
    ids=["stub", "find_spec", "replaced", "window"],
)
def test_every_process_of_a_run(programs: Programs, child: str, printed: str) -> None:
    """A child that does nothing but import what is not there is part of the run."""
    start = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    programs.write({"patches.py": PATCHES, "start.py": start, **{f"{name}.py": s for name, s in CHECKING.items()}})
    done = programs.run(programs.patchcore, "-p", "patches", "start.py", child)
    assert done.stdout.strip() == printed


@pytest.mark.parametrize("inner", ["", ".deep"])
def test_a_patch_changes_the_inside_of_a_module_that_another_patch_provides(make_package, inner) -> None:
    make_package({"kernels": "def conv(): return 'kernel'", "kernels.deep": "def conv(): return 'kernel'"})
    provides = pc.Patch("a.provides", pc.ReplaceImport("absent", with_="kernels"))
    inside = pc.Patch(
        "b.inside", pc.Wrap(f"absent{inner}:conv", lambda original: f"b({original()})"), after="a.provides"
    )
    patcher = pc.Patcher([inside, provides], strict=True)
    with patcher:
        module = importlib.import_module(f"absent{inner}")
        assert module.conv() == "b(kernel)"
        assert patcher.report()["b.inside"].status == "applied"
    assert importlib.import_module(f"kernels{inner}").conv() == "kernel"


def test_without_an_order_a_patch_of_a_provided_module_is_a_conflict(make_package) -> None:
    make_package({"kernels": "def conv(): return 'kernel'"})
    provides = pc.Patch("a.provides", pc.ReplaceImport("absent", with_="kernels"))
    plan = pc.Patcher([provides, pc.Patch("b.inside", pc.Replace("absent:conv", len))]).plan()
    assert [entry.patch.name for entry in plan.conflicts] == ["b.inside"]


def test_a_stub_has_nothing_inside_to_change() -> None:
    stub = pc.Patch("a.stub", pc.StubImport("absent"))
    plan = pc.Patcher([stub, pc.Patch("b.inside", pc.Replace("absent:conv", len), after="a.stub")]).plan()
    assert (plan["b.inside"].verdict, plan["b.inside"].reason) == ("skipped", "absent is not installed")
