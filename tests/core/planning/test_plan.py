"""plan.py: which patches, in which order, with which verdict; nothing is changed to find out."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patchcore as pc
from patchcore.planning.candidates import Candidate, select_patches
from patchcore.planning.plan import Plan, make_plan
from patchcore.planning.provenance import LOCAL_PROVENANCE, Provenance
from patchcore.settings import Choice


class Everything:
    """An environment in which every module is found and every requirement met."""

    def is_module(self, name: str) -> bool:
        return name.islower()

    def judge(self, patch: pc.Patch) -> Any:
        from patchcore.planning.conditions import Environment

        environment = Environment()
        environment.is_module = self.is_module
        return environment.judge(patch)


def patch(name: str, *targets: str, **declaration: Any) -> pc.Patch:
    changes = [pc.Replace(target, len) for target in targets or (f"lib:{name.replace('.', '_')}",)]
    return pc.Patch(name, changes, **declaration)


def by(plugin: str, *patches: pc.Patch) -> list[Candidate]:
    return [Candidate(p, Provenance(plugin, f"{plugin}-patches", "1.0")) for p in patches]


def plan(*patches: Any, choices: Any = (), complete: bool = True) -> Plan:
    candidates = [p if isinstance(p, Candidate) else Candidate(p, LOCAL_PROVENANCE) for p in patches]
    return make_plan(candidates, choices, Everything(), complete=complete)


def names(made: Plan) -> list[str]:
    return [entry.patch.name for entry in made]


def applied(made: Plan) -> list[str]:
    return [entry.patch.name for entry in made if entry.verdict == "apply"]


# --- order ---------------------------------------------------------------------------------------------------------


def test_order_is_priority_then_plugin_then_registration() -> None:
    late, early = patch("late", priority=1), patch("early", priority=-1)
    made = plan(*by("zeta", patch("z2"), patch("z1"), early), *by("alpha", late, patch("a")))
    assert names(made) == ["early", "a", "z2", "z1", "late"]


def test_after_and_before_go_over_priority() -> None:
    made = plan(patch("a", priority=-5, after="b"), patch("b"), patch("c", before="b", priority=9))
    assert names(made) == ["c", "b", "a"]


def test_after_and_before_accept_legacy_names_and_patches() -> None:
    first = patch("first", legacy_names="one")
    made = plan(patch("last", after=first), patch("middle", after="one", before="last"), first)
    assert names(made) == ["first", "middle", "last"]


def test_after_a_legacy_name_that_two_versions_share_means_the_one_that_fits() -> None:
    old = patch("ops.old", legacy_names="ops", when=lambda: False)
    current = patch("ops.new", legacy_names="ops", priority=5)
    assert names(plan(patch("user", after="ops"), old, current)) == ["ops.old", "ops.new", "user"]


def test_after_an_own_name_is_not_shadowed_by_another_patchs_legacy_name() -> None:
    impostor = patch("impostor", legacy_names="b", priority=-9)
    made = plan(patch("a", after="b"), impostor, patch("b", priority=5))
    assert names(made) == ["impostor", "b", "a"]


def test_after_a_patch_that_is_not_there_or_not_applied_is_no_constraint() -> None:
    made = plan(patch("a", after=["b", "nobody"]), patch("b", before="a", default=False))
    assert names(made) == ["a", "b"]


def test_a_cycle_is_an_error_that_prints_it() -> None:
    a, b, c = patch("a", after="c"), patch("b", after="a"), patch("c", after="b")
    with pytest.raises(pc.PlanError) as e:
        plan(*by("plug", a, b, c, patch("d")))
    text = str(e.value)
    assert any(cycle in text for cycle in ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"))
    assert "a (plugin plug, plug-patches 1.0) declares after=['c'], before=[]" in text
    assert "disable one of the patches" in text
    assert "'d'" not in text


def test_a_cycle_through_a_disabled_patch_is_none() -> None:
    a, b = patch("a", after="b"), patch("b", after="a")
    assert applied(plan(a, b, choices=[Choice(False, "a", "--disable")])) == ["b"]


@given(st.data())
def test_the_plan_does_not_depend_on_the_order_in_which_plugins_are_registered(data) -> None:
    total = data.draw(st.integers(2, 12))
    plugins = [data.draw(st.sampled_from("abcd")) for _ in range(total)]
    patches = [
        patch(
            f"p{i}",
            f"lib:f{data.draw(st.integers(0, 5))}",
            priority=data.draw(st.integers(-1, 1)),
            # only on lower numbers: no cycles
            after=data.draw(st.lists(st.sampled_from([f"p{j}" for j in range(i)] or ["nobody"]), max_size=2)),
            conflicts=data.draw(st.lists(st.sampled_from([f"p{j}" for j in range(total)]), max_size=1)),
            default=data.draw(st.booleans()),
        )
        for i in range(total)
    ]
    groups = {plugin: by(plugin, *(p for p, q in zip(patches, plugins) if q == plugin)) for plugin in set(plugins)}
    order = sorted(groups)
    expected = plan(*(c for plugin in order for c in groups[plugin]))
    random.Random(data.draw(st.integers())).shuffle(order)
    assert plan(*(c for plugin in order for c in groups[plugin])) == expected


# --- conflicts -----------------------------------------------------------------------------------------------------


def test_two_patches_of_one_slot_conflict_and_the_message_fixes_it() -> None:
    first, second = patch("first", "lib:f"), patch("second", "lib:f")
    made = plan(*by("one", first), *by("two", second))
    assert applied(made) == ["first"]
    assert names(Plan(tuple(made.conflicts))) == ["second"]
    assert made["second"].verdict == "failed"
    assert made["second"].reason == (
        "lib:f is patched by both first (plugin one, one-patches 1.0) and second (plugin two, two-patches 1.0); "
        "to apply both, the second on top of the first, declare after=['first'] in second; "
        "to apply only one, declare conflicts=['first'] in second, or run with --disable second"
    )


@pytest.mark.parametrize("order", [{"after": "first"}, {"before": "first"}, {"after": "one"}])
def test_patches_of_one_slot_that_declare_an_order_stack(order) -> None:
    made = plan(patch("first", "lib:f", legacy_names="one"), patch("second", "lib:f", **order))
    assert sorted(applied(made)) == ["first", "second"]


@pytest.mark.parametrize(
    ("first", "second", "slot"),
    [
        ("lib:Class", "lib:Class.method", "lib:Class.method"),
        ("lib:Class.method", "lib:Class", "lib:Class"),
        ("lib:Class.Inner.method", "lib:Class", "lib:Class"),
        ('lib:TABLE["a"]', "lib:TABLE", "lib:TABLE"),
        ("lib.sub.f", "lib.sub:f", "lib.sub:f"),
    ],
)
def test_a_slot_conflicts_with_what_contains_it_and_with_its_other_spelling(first, second, slot) -> None:
    made = plan(patch("a", first), patch("b", second))
    assert applied(made) == ["a"]
    assert made["b"].reason.startswith(f"{slot} is patched by both a (local code) and b (local code)")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("lib:Class.a", "lib:Class.b"),
        ("lib:f", "lib.f:f"),
        ('lib:T["a"]', 'lib:T["b"]'),
        ("lib:Class", "lib:Classic.m"),
    ],
)
def test_neighbouring_slots_do_not_conflict(first, second) -> None:
    assert applied(plan(patch("a", first), patch("b", second))) == ["a", "b"]


def test_changes_of_one_patch_do_not_conflict_with_each_other() -> None:
    assert applied(plan(patch("a", "lib:Class", "lib:Class.method", "lib:Class"))) == ["a"]


def test_a_patch_that_lost_a_conflict_does_not_make_others_lose() -> None:
    made = plan(patch("a", "lib:f"), patch("b", "lib:f", "lib:g"), patch("c", "lib:g"))
    assert applied(made) == ["a", "c"]


def test_declared_conflicts_skip_the_later_patch() -> None:
    made = plan(patch("a"), patch("b", conflicts="a"), patch("c", legacy_names="old"), patch("d", conflicts="old"))
    assert applied(made) == ["a", "c"]
    assert made["b"].verdict == "skipped"
    assert made["b"].reason == "conflicts with a (local code), which is applied"
    assert not made.conflicts


def test_declared_conflicts_work_from_either_side() -> None:
    assert applied(plan(patch("a", conflicts="b"), patch("b"))) == ["a"]


@pytest.mark.parametrize("kind", ["declared", "slot"])
def test_among_conflicting_patches_the_one_enabled_by_name_wins_over_a_default(kind) -> None:
    if kind == "declared":
        a, b = patch("a", conflicts="b"), patch("b", default=False)
    else:
        a, b = patch("a", "lib:f"), patch("b", "lib:f", default=False)
    assert applied(plan(a, b, choices=[Choice(True, "b", "--enable")])) == ["b"]


def test_a_call_has_no_slot_to_conflict_about() -> None:
    calls = [pc.Patch(name, [pc.Call(len, module="lib")]) for name in ("a", "b")]
    assert applied(plan(*calls, patch("c", "lib:f"))) == ["a", "b", "c"]


# --- choices -------------------------------------------------------------------------------------------------------

GROUP = (
    *by(
        "vision", patch("lib.conv", "lib.ops:conv", legacy_names=["dc", "deform"]), patch("lib.pool", "lib.ops.Pool.f")
    ),
    *by("text", patch("lib.attention", "lib.text:attend", default=False)),
)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lib.conv", ["lib.conv"]),
        ("dc", ["lib.conv"]),
        ("vision", ["lib.conv", "lib.pool"]),
        ("lib.ops:conv", ["lib.conv"]),
        ("lib.ops.conv", ["lib.conv"]),
        ("lib.ops:Pool.f", ["lib.pool"]),
        ("lib.ops.Pool.f", ["lib.pool"]),
        ("*", ["lib.conv", "lib.pool", "lib.attention"]),
    ],
)
def test_a_name_means_a_patch_legacy_name_plugin_target_in_either_form_or_all(name, meant) -> None:
    assert [c.patch.name for c in select_patches(name, GROUP)] == meant
    made = plan(*GROUP, choices=[Choice(False, name, "--disable")])
    assert [e.patch.name for e in made if e.reason == f"disabled by --disable ({name})"] == sorted(
        meant, key=names(made).index
    )


def test_the_name_of_a_patch_goes_before_a_legacy_name_before_a_plugin() -> None:
    group = (*by("x", patch("a"), patch("b", legacy_names="y")), *by("y", patch("x", legacy_names="a")))
    assert [c.patch.name for c in select_patches("a", group)] == ["a"]
    assert [c.patch.name for c in select_patches("x", group)] == ["x"]
    assert [c.patch.name for c in select_patches("y", group)] == ["b"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("lib.con", "lib.conv"),
        ("Deform", "deform"),
        ("visoin", "vision"),
        ("lib.ops:Conv", "lib.ops:conv"),
        ("cnov", "lib.conv"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest(name, nearest) -> None:
    with pytest.raises(
        pc.UnknownName,
        match=f"--disable: no patch, legacy name, plugin or target is called '{name}'.*did you mean '{nearest}'",
    ) as e:
        plan(*GROUP, choices=[Choice(False, name, "--disable")])
    assert "no patch, legacy name, plugin or target" in str(e.value)


@pytest.mark.parametrize("name", ["qqqq", "lib.ops:", ":", "lib ops", ""])
def test_a_name_that_resembles_nothing_is_an_error_too(name) -> None:
    with pytest.raises(pc.UnknownName):
        plan(*GROUP, choices=[Choice(False, name, "--disable")])


def test_an_unknown_name_is_a_note_when_plugins_are_missing() -> None:
    made = plan(*GROUP, choices=[Choice(False, "lib.cnv", "--disable")], complete=False)
    assert applied(made) == ["lib.conv", "lib.pool"]
    (note,) = made.notes
    assert note.startswith(
        "--disable may belong to a plugin that is not loaded: "
        "no patch, legacy name, plugin or target is called 'lib.cnv'"
    )
    assert str(made).endswith(f"note: {note}")


def test_a_default_patch_is_applied_and_another_only_when_asked_for() -> None:
    made = plan(*GROUP)
    assert applied(made) == ["lib.conv", "lib.pool"]
    assert made["lib.attention"].reason == "not in the default set; apply it with --enable lib.attention"
    assert made["lib.attention"].verdict == "off"
    enabled = plan(*GROUP, choices=[Choice(True, "lib.attention", "PATCHCORE_ENABLE")])
    assert "lib.attention" in applied(enabled)
    assert enabled["lib.attention"].chosen_by == "PATCHCORE_ENABLE"
    assert enabled["lib.conv"].chosen_by is None


PYPROJECT, ENVIRONMENT, COMMAND = range(3)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([(False, "lib.conv", PYPROJECT), (True, "lib.conv", ENVIRONMENT)], True),
        ([(True, "lib.conv", PYPROJECT), (False, "lib.conv", ENVIRONMENT)], False),
        ([(False, "*", COMMAND), (True, "lib.conv", ENVIRONMENT)], False),
        ([(True, "*", COMMAND), (False, "lib.conv", ENVIRONMENT)], True),
        ([(True, "lib.conv", COMMAND), (False, "*", COMMAND)], True),
        ([(False, "lib.conv", COMMAND), (True, "*", COMMAND)], False),
        ([(True, "lib.conv", COMMAND), (False, "vision", COMMAND)], True),
        ([(True, "vision", COMMAND), (False, "*", COMMAND)], True),
        ([(False, "vision", COMMAND), (True, "dc", COMMAND)], True),
        ([(False, "dc", COMMAND), (True, "lib.conv", COMMAND)], False),
        ([(True, "lib.ops:conv", COMMAND), (False, "lib.conv", COMMAND)], False),
        ([(True, "lib.conv", COMMAND), (False, "lib.conv", COMMAND)], False),
        ([(False, "lib.conv", COMMAND), (True, "lib.conv", COMMAND)], False),
    ],
)
def test_the_stronger_source_wins_then_the_more_specific_name_then_the_refusal(choices, expected) -> None:
    made = plan(*GROUP, choices=[Choice(enable, name, "somewhere", strength) for enable, name, strength in choices])
    assert (made["lib.conv"].verdict == "apply") is expected


def test_a_single_patch_is_more_specific_than_everything_even_when_it_is_everything() -> None:
    made = plan(patch("only"), choices=[Choice(True, "only", "--enable"), Choice(False, "*", "--disable")])
    assert applied(made) == ["only"]


# --- the plan itself -----------------------------------------------------------------------------------------------


def test_a_patch_that_a_user_does_not_want_is_told_from_one_that_does_not_fit() -> None:
    misfit = patch("misfit", when=lambda: pc.Skip("disabled in this model"))
    made = plan(misfit, patch("unwanted"), choices=[Choice(False, "unwanted", "--disable")])
    assert made["misfit"].verdict != "off"
    assert made["misfit"].reason == "disabled in this model"
    assert made["unwanted"].verdict == "off"


def test_a_plan_is_looked_up_by_name_then_by_legacy_name() -> None:
    made = plan(patch("a", legacy_names="b"), patch("b", legacy_names="old"))
    assert made["b"].patch.name == "b"
    assert made["old"].patch.name == "b"
    with pytest.raises(pc.UnknownName, match="did you mean 'a'"):
        made["A"]


def test_the_plan_prints_verdicts_reasons_and_targets() -> None:
    made = plan(*GROUP, choices=[Choice(False, "text", "--disable")])
    assert str(made).splitlines() == [
        "off      lib.attention [plugin text, text-patches 1.0]: disabled by --disable (text)",
        "apply    lib.conv [plugin vision, vision-patches 1.0]",
        "           replace lib.ops:conv",
        "apply    lib.pool [plugin vision, vision-patches 1.0]",
        "           replace lib.ops:Pool.f",
    ]
    assert str(plan()) == "no patches"


def test_a_missing_library_skips_and_does_not_conflict(make_package) -> None:
    make_package({"lib": "def f(): pass"})
    absent = pc.Patch("absent", [pc.Replace("lib:f", len), pc.Replace("nolibrary:g", len)])
    made = make_plan([Candidate(absent, LOCAL_PROVENANCE), Candidate(patch("b", "lib:f"), LOCAL_PROVENANCE)])
    assert applied(made) == ["b"]
    assert made["absent"].reason == "nolibrary is not installed"


def test_planning_changes_nothing_and_imports_no_target_library(make_package, run_python) -> None:
    make_package({"lib": "raise SystemExit('imported')", "lib.ops": "", "kernels": "raise SystemExit('imported')"})
    run_python(
        """
        import sys
        import patchcore as pc
        patch = pc.Patch("lib.conv", [pc.Replace("lib.ops:conv", "kernels:conv"), pc.Replace("lib.ops.pool", len)],
                         requires="lib", needs=["kernels", "lib.ops"])
        patcher = pc.Patcher([patch])
        before = set(sys.modules)
        finders = list(sys.meta_path)
        plan = patcher.plan()
        assert [entry.verdict for entry in plan] == ["apply"], plan
        assert str(plan["lib.conv"].targets[1]) == "lib.ops:pool"
        assert sys.meta_path == finders
        assert not {"lib", "lib.ops", "kernels"} & set(sys.modules)
        """
    )


def test_a_patch_of_a_library_that_another_patch_provides_goes_after_it() -> None:
    using = pc.Patch("a", pc.Replace("absent_library.part:f", len, create="always"))
    providing = pc.Patch("z", pc.DummyImport("absent_library.part"), priority=5)
    made = make_plan([Candidate(using, LOCAL_PROVENANCE), Candidate(providing, LOCAL_PROVENANCE)])
    assert [(entry.patch.name, entry.verdict) for entry in made] == [("z", "apply"), ("a", "apply")]
