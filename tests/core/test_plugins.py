"""plugins.py: entry points become loaded plugins; one that fails takes no other down."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Callable

import pytest
from distributions import write_distribution

import patchcore as pc
from patchcore.planning.provenance import Provenance
from patchcore.plugins import Plugins, installed_plugins

GOOD = """
    import patchcore as pc

    @pc.hookimpl
    def register_patches():
        return [pc.Patch("good.patch", [pc.Replace("shop:price", len)])]
"""


@pytest.fixture
def install(make_package) -> Callable[..., None]:
    """Return a function that installs a plugin: its name, its source and the version of its distribution."""

    def install(name: str, source: str, version: str = "1.0") -> None:
        folder = make_package({f"{name}_plugin": source})
        write_distribution(folder, f"{name}-patches", version, plugins={name: f"{name}_plugin"})

    return install


@pytest.fixture
def shop(make_package) -> ModuleType:
    make_package({"shop": "def price(item): return 'price'\ndef label(): return 'label'"})
    import shop

    return shop


@pytest.fixture(autouse=True)
def nothing_installed() -> Iterator[None]:
    """Hide the plugins of the environment the tests run in."""
    before = list(sys.path)
    sys.path[:] = [path for path in before if not path.endswith("site-packages")]
    yield
    sys.path[:] = before


def names(candidates: Any) -> list[str]:
    return [candidate.patch.name for candidate in candidates]


def test_an_installed_plugin_is_loaded_with_its_provenance(install) -> None:
    install("good", GOOD, "2.5")
    plugins = Plugins()
    provenance = plugins.provenances["good"]
    assert provenance.distribution == "good-patches"
    assert provenance.version == "2.5"
    assert provenance.value == "good_plugin"
    assert provenance.file == sys.modules["good_plugin"].__file__
    assert str(provenance) == "plugin good, good-patches 2.5"
    assert plugins.problems == []
    assert plugins.complete


def test_a_plugin_may_be_a_class_or_an_object_of_a_module(install, make_package) -> None:
    source = """
        import patchcore as pc

        class Kit:
            def __init__(self, name): self.name = name

            @pc.hookimpl
            def register_patches(self):
                return [pc.Patch(self.name, [pc.Replace("shop:price", len)])]

        kit = Kit("kit.patch")
    """
    folder = make_package({"kits": source})
    write_distribution(folder, "kits", plugins={"kit": "kits:kit"})
    patcher = pc.Patcher.discover()
    assert names(patcher.collect()) == ["kit.patch"]
    assert patcher.plugins.provenances["kit"].file == sys.modules["kits"].__file__


# --- a plugin that fails -------------------------------------------------------------------------------------------

HOOK = "import patchcore as pc\n@pc.hookimpl\ndef "
BROKEN = "(): raise RuntimeError('broken in the hook')"
HALF_WAY = """register_patches():
    yield pc.Patch("bad.first", [pc.Replace("shop:label", len)])
    raise RuntimeError("broken half way")
"""
UNKNOWN = "ValueError: patchcore has no hook 'register_patch'; did you mean 'register_patches'?"

#: By kind: the source, the place that fails, and the message.
FAILURES = {
    "at load": ("raise RuntimeError('broken at load')", "load", "RuntimeError: broken at load"),
    "at load, by ending the program": ("raise SystemExit('no NPU')", "load", "SystemExit: no NPU"),
    "by a missing import": ("import nolibrary", "load", "ModuleNotFoundError: No module named 'nolibrary'"),
    **{
        f"in {hook}": (HOOK + hook + BROKEN, hook, "RuntimeError: broken in the hook")
        for hook in ("register_patches", "before_apply", "after_apply")
    },
    "half way through a generator": (HOOK + HALF_WAY, "register_patches", "RuntimeError: broken half way"),
    **{
        f"by what register_patches returns, {returned}": (
            f"{HOOK}register_patches(): return {returned}",
            "register_patches",
            message,
        )
        for returned, message in {
            "[pc.Patch('bad patch')]": "a patch name may contain only",
            "['a patch']": "expected a Patch, got 'a patch'",
            "3": "TypeError: expected a list, got 3",
            "pc.Patch('bad.alone')": "TypeError: expected a list, got Patch(",
        }.items()
    },
    "by an unknown hook": (f"{HOOK}register_patch(): return []", "load", UNKNOWN),
    "by an argument that the hook does not have": (
        f"{HOOK}register_patches(setings): return []",
        "load",
        "its arguments are: settings, plugins",
    ),
    "by a wrong answer of before_apply": (
        f"{HOOK}before_apply(): return False",
        "before_apply",
        "TypeError: expected None, Skip('why') or Wait('why'), got False",
    ),
}


@pytest.mark.parametrize("name", ["aaa", "zzz"])  # called after and before the good one
@pytest.mark.parametrize("kind", FAILURES)
def test_a_plugin_that_fails_is_reported_with_its_origin_and_the_others_go_on(
    install, shop, caplog, kind, name
) -> None:
    source, where, message = FAILURES[kind]
    install("good", GOOD)
    install(name, source, "0.9")
    with pc.Patcher.discover() as patcher, caplog.at_level(logging.WARNING, "patchcore"):
        assert shop.price is len
        assert shop.label() == "label"
        (problem,) = patcher.report().problems
    assert (problem.plugin, problem.distribution, problem.version) == (name, f"{name}-patches", "0.9")
    assert problem.where == where
    assert message in problem.message
    assert str(problem).startswith(f"plugin {name} ({name}-patches 0.9): {where} failed: ")
    raised = kind.startswith(("at load", "in ", "half way", "by a missing import"))
    assert bool(problem.traceback) == (raised or "bad patch" in kind)
    assert "patchcore/plugins.py" not in problem.traceback
    assert not patcher.plugins.complete


@pytest.mark.parametrize("kind", FAILURES)
def test_strict_raises_for_a_plugin_that_fails_and_leaves_nothing_applied(install, shop, kind) -> None:
    source, _, message = FAILURES[kind]
    install("good", GOOD)
    install("zzz", source)
    before = dict(vars(shop))
    patcher = pc.Patcher.discover(strict=True)
    with pytest.raises(pc.PatchError) as e:
        patcher.apply()
    assert message in str(e.value)
    assert "plugin zzz (zzz-patches 1.0)" in str(e.value)
    assert vars(shop) == before
    assert not patcher.applied
    assert e.value.report.problems


def test_a_plugin_that_fails_in_on_failure_leaves_the_decision_to_the_policy(install, shop) -> None:
    install("bad", f"{HOOK}on_failure{BROKEN}")
    install("wrong", f"{HOOK}on_failure(): return 'explode'")
    patch = pc.Patch("shop.bad", [pc.Replace("shop:missing", len)])
    with pc.Patcher.discover(patches=[patch]) as patcher:
        problems = {problem.plugin: problem.message for problem in patcher.report().problems}
    assert problems == {
        "bad": "RuntimeError: broken in the hook",
        "wrong": "TypeError: expected one of warn, raise, ignore, got 'explode'",
    }


def test_a_plugin_that_fails_after_an_import_under_strict_fails_the_import(install, make_package, shop) -> None:
    source = """
        import patchcore as pc
        @pc.hookimpl
        def after_apply(outcome):
            if outcome.status == "applied":
                raise RuntimeError("broken later")
    """
    make_package({"later": "def f(x): return 'f'"})
    install("bad", source)
    patcher = pc.Patcher.discover(patches=[pc.Patch("later.f", [pc.Replace("later:f", len)])], strict=True)
    patcher.apply()
    with pytest.raises(pc.PatchError, match="broken later"):
        import later  # noqa: F401
    assert not patcher.applied


def test_failures_of_plugins_are_logged_with_their_traceback_when_they_happen(install, caplog) -> None:
    install("bad", FAILURES["at load"][0])
    with caplog.at_level(logging.WARNING, "patchcore"):
        Plugins()
    assert "plugin bad (bad-patches 1.0): load failed: RuntimeError: broken at load" in caplog.text
    assert "Traceback" in caplog.text


def test_an_interrupt_while_a_plugin_loads_passes(install) -> None:
    install("bad", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        Plugins()


def test_a_failed_plugin_stays_out_of_every_hook(install) -> None:
    install(
        "bad",
        """
        import patchcore as pc
        @pc.hookimpl
        def register_patches(): return [pc.Patch("bad.patch", [pc.Replace("shop:price", len)])]
        @pc.hookimpl
        def unknown_hook(): pass
        """,
    )
    assert pc.Patcher.discover().collect() == []


# --- names that clash ----------------------------------------------------------------------------------------------


def test_the_second_plugin_of_a_name_is_reported(install, make_package) -> None:
    install("good", GOOD)
    folder = make_package({"other_plugin": GOOD})
    write_distribution(folder, "zzz-other", "3.0", plugins={"good": "other_plugin"})
    patcher = pc.Patcher.discover()
    assert names(patcher.collect()) == ["good.patch"]
    (problem,) = patcher.plugins.problems
    assert problem.distribution == "zzz-other"
    assert "the plugin name 'good' is already used by plugin good, good-patches 1.0; rename one" in problem.message


@pytest.mark.parametrize("other", ["aaa", "zzz"])
def test_the_name_of_a_patch_is_that_plugins_which_it_is_named_after(install, other) -> None:
    install(other, GOOD)
    install("good", GOOD)
    patcher = pc.Patcher.discover()
    assert {c.patch.name: c.provenance.plugin for c in patcher.collect()} == {
        "good.patch": "good",
        f"good.patch+{other}": other,
    }
    (problem,) = patcher.plugins.problems
    assert problem.plugin == other
    assert problem.message.startswith(
        "the patch name 'good.patch' is already used by plugin good, good-patches 1.0, so this"
    )


def test_of_two_plugins_that_a_patch_is_not_named_after_none_loses_it(install) -> None:
    install("one", GOOD)
    install("two", GOOD)
    patcher = pc.Patcher.discover()
    assert len(patcher.collect()) == 2
    (problem,) = patcher.plugins.problems
    assert f"is now called 'good.patch+{problem.plugin}'" in problem.message


def test_two_patches_of_one_name_in_one_plugin_are_a_problem_and_the_first_stays(install) -> None:
    install("good", GOOD.replace("[pc.Patch", "2 * [pc.Patch"))
    patcher = pc.Patcher.discover()
    assert names(patcher.collect()) == ["good.patch"]
    (problem,) = patcher.plugins.problems
    assert "is already used by plugin good, good-patches 1.0; rename" in problem.message


def test_one_module_under_two_entry_points_is_one_plugin_and_a_problem(make_package) -> None:
    folder = make_package({"twice_plugin": GOOD})
    write_distribution(folder, "twice", plugins={"one": "twice_plugin", "two": "twice_plugin"})
    patcher = pc.Patcher.discover()
    assert names(patcher.collect()) == ["good.patch"]
    assert [problem.plugin for problem in patcher.plugins.problems] == ["two"]


def test_a_distribution_that_is_twice_on_the_path_counts_once_the_first_one(install, tmp_path, monkeypatch) -> None:
    install("good", GOOD, "1.0")
    other = tmp_path / "other"
    write_distribution(other, "Good.Patches", "2.0", plugins={"good": "good_plugin"})
    monkeypatch.syspath_prepend(str(other))
    plugins = Plugins()
    assert plugins.problems == []
    assert plugins.provenances["good"].version == "2.0"


def test_a_first_copy_that_declares_no_plugin_any_more_hides_the_second(install, tmp_path, monkeypatch) -> None:
    install("good", GOOD, "1.0")
    write_distribution(tmp_path / "other", "good-patches", "2.0")
    monkeypatch.syspath_prepend(str(tmp_path / "other"))
    assert Plugins().provenances == {}


# --- broken metadata -----------------------------------------------------------------------------------------------


def test_a_distribution_whose_metadata_is_broken_is_a_problem_of_its_own(install, make_package) -> None:
    install("good", GOOD)
    info = write_distribution(make_package({}), "broken", plugins={"broken": "broken_plugin"})
    (info / "METADATA").unlink()
    plugins = Plugins()
    assert list(plugins.provenances) == ["good"]
    (problem,) = plugins.problems
    assert "broken-1.0.dist-info" in problem.plugin


def test_metadata_of_others_that_cannot_be_read_is_nobodys_problem(install, make_package) -> None:
    install("good", GOOD)
    info = write_distribution(make_package({}), "other")
    (info / "entry_points.txt").write_bytes(b"\xff\xfe[console_scripts\nnot an entry point")
    plugins = Plugins()
    assert list(plugins.provenances) == ["good"]
    assert plugins.problems == []


# --- which plugins are loaded --------------------------------------------------------------------------------------


def test_an_allow_list_loads_these_and_no_others(install) -> None:
    install("good", GOOD)
    install("bad", "raise SystemExit('loaded')")
    plugins = Plugins(allowed=["good"])
    assert list(plugins.provenances) == ["good"]
    assert [p.plugin for p in plugins.denied] == ["bad"]
    assert plugins.problems == []
    assert not plugins.complete


def test_an_empty_allow_list_loads_none(install) -> None:
    install("good", GOOD)
    assert Plugins(allowed=[]).provenances == {}


def test_an_unknown_plugin_in_the_allow_list_is_an_error_with_the_nearest(install) -> None:
    install("good", GOOD)
    with pytest.raises(pc.UnknownName) as e:
        Plugins(allowed=["god"])
    assert str(e.value) == "no plugin 'god' is installed (installed: good); did you mean 'good'?"


def test_one_that_is_left_out_is_not_loaded_and_the_others_are(install) -> None:
    install("good", GOOD)
    install("bad", "raise SystemExit('loaded')")
    plugins = Plugins(allowed=["no:bad"])
    assert list(plugins.provenances) == ["good"]
    assert [p.plugin for p in plugins.denied] == ["bad"]
    assert plugins.problems == []


def test_one_that_is_asked_for_and_left_out_is_an_error_that_says_so(install) -> None:
    install("good", GOOD)
    with pytest.raises(pc.UnknownName) as e:
        Plugins(allowed=["good", "no:good"])
    assert str(e.value) == "the plugin 'good' is both included and excluded by no:good; remove one of these"


def test_leaving_out_what_is_not_there_is_an_error_with_the_nearest(install) -> None:
    install("good", GOOD)
    with pytest.raises(pc.UnknownName, match="no:god: there is no plugin 'god'; did you mean 'good'"):
        Plugins(allowed=["no:god"])


def test_without_discovery_no_plugin_is_loaded(install) -> None:
    install("good", GOOD)
    assert Plugins(discover=False).provenances == {}
    assert pc.Patcher().collect() == []


def test_a_local_module_is_a_plugin_without_being_packaged(make_package) -> None:
    make_package({"mypatches": GOOD})
    patcher = pc.Patcher.discover(modules=["mypatches"])
    (candidate,) = patcher.collect()
    assert candidate.provenance.plugin == "mypatches"
    assert candidate.provenance.distribution is None
    assert str(candidate.provenance) == "plugin mypatches"


def test_finding_plugins_loads_none(install) -> None:
    install("bad", "raise SystemExit('loaded')", "3.2")
    (found,) = [provenance for provenance, _ in installed_plugins() if provenance.plugin == "bad"]
    assert found == Provenance("bad", "bad-patches", "3.2", "bad_plugin", group="npu_patches")


# --- calling hooks -------------------------------------------------------------------------------------------------


def test_hooks_may_leave_out_arguments_or_take_them_all(install, shop) -> None:
    source = """
        import patchcore as pc
        seen = []
        @pc.hookimpl
        def before_apply({arguments}): seen.append({seen})
    """
    install("none", source.format(arguments="", seen="'none'"))
    install("one", source.format(arguments="patch", seen="patch.name"))
    install("all", source.format(arguments="context, patch", seen="(context, patch)"))
    patch = pc.Patch("shop.price", [pc.Replace("shop:price", len)])
    patcher = pc.Patcher.discover(patches=[patch])
    plan = patcher.plan()
    with patcher:
        pass
    seen = {name: sys.modules[f"{name}_plugin"].seen for name in ("none", "one", "all")}
    assert seen["none"] == ["none", "none"]
    assert seen["one"] == ["shop.price", "shop.price"]
    *_, (context, given) = seen["all"]
    assert given is patch
    assert context.settings is patcher.settings
    assert context.plan == plan
    assert context.patcher is patcher
    assert str(context.provenance) == "local code"


ORDERED = """
    import patchcore as pc

    @pc.hookimpl{options}
    def register_patches():
        return [pc.Patch("{name}", [pc.Replace("shop:price", len)])]
"""


def test_tryfirst_and_trylast_are_honoured(install) -> None:
    install("aaa", ORDERED.format(name="aaa", options="(tryfirst=True)"))
    install("bbb", ORDERED.format(name="bbb", options=""))
    install("ccc", ORDERED.format(name="ccc", options="(trylast=True)"))
    plugins = Plugins()
    order = [provenance.plugin for provenance, _ in plugins.each("register_patches", settings=None, plugins=plugins)]
    assert order == ["aaa", "bbb", "ccc"]


def test_a_hook_may_have_another_name_in_the_plugin(install) -> None:
    install("good", GOOD)
    install(
        "named",
        """
        import patchcore as pc
        @pc.hookimpl(specname="register_patches")
        def patches_of_this_plugin(settings): return [pc.Patch("named.patch", [pc.Replace("shop:label", len)])]
        """,
    )
    assert sorted(names(pc.Patcher.discover().collect())) == ["good.patch", "named.patch"]


WRAPPER = """
    import patchcore as pc
    seen = []

    @pc.hookimpl(wrapper=True)
    def register_patches(settings):
        results = yield
        seen.append([patch.name for patches in results for patch in patches])
        return [[patch for patch in patches if patch.name != "shop.unwanted"] for patches in results]
"""

TWO = """
    import patchcore as pc

    @pc.hookimpl
    def register_patches():
        return [pc.Patch(name, [pc.Replace("shop:price", len)]) for name in ("shop.wanted", "shop.unwanted")]
"""


def test_a_hook_wrapper_goes_around_the_call_of_each_plugin(install) -> None:
    install("good", GOOD)
    install("two", TWO)
    install("wrapper", WRAPPER)
    patcher = pc.Patcher.discover()
    assert names(patcher.collect()) == ["shop.wanted", "good.patch"]
    own = [seen for seen in sys.modules["wrapper_plugin"].seen if seen]  # built-in plugins have none here
    assert own == [["shop.wanted", "shop.unwanted"], ["good.patch"]]
    assert {c.patch.name: c.provenance.plugin for c in patcher.collect()} == {
        "shop.wanted": "two",
        "good.patch": "good",
    }


def test_an_old_style_hook_wrapper_goes_around_too(install, shop) -> None:
    install(
        "wrapper",
        """
        import patchcore as pc
        seen = []

        @pc.hookimpl(hookwrapper=True)
        def before_apply(patch):
            outcome = yield
            seen.append((patch.name, outcome.get_result()))
            outcome.force_result(pc.Skip("wrapped"))
        """,
    )
    install("veto", "import patchcore as pc\n@pc.hookimpl\ndef before_apply(): return None")
    install("good", GOOD)
    with pc.Patcher.discover() as patcher:
        assert patcher.report()["good.patch"].reason == "vetoed by plugin veto, veto-patches 1.0: wrapped"
    assert sys.modules["wrapper_plugin"].seen == [("good.patch", None)]


BROKEN_WRAPPERS = {
    "before the call": "raise RuntimeError('broken wrapper')\n            yield",
    "after the call": "yield\n            raise RuntimeError('broken wrapper')",
    "in a helper": "result = yield\n            return helper(result)",
    "without a yield": "return\n            yield",
    "with two yields": "yield\n            yield",
}


@pytest.mark.parametrize("kind", BROKEN_WRAPPERS)
def test_a_hook_wrapper_that_fails_is_blamed_and_left_out_and_the_plugins_go_on(install, kind) -> None:
    install("good", GOOD)
    install("two", TWO)
    install(
        "wrapper",
        f"""
        import patchcore as pc

        def helper(result): raise RuntimeError("broken wrapper")

        @pc.hookimpl(wrapper=True)
        def register_patches():
            {BROKEN_WRAPPERS[kind]}
        """,
    )
    patcher = pc.Patcher.discover()
    assert names(patcher.collect()) == ["shop.wanted", "shop.unwanted", "good.patch"]
    assert {problem.plugin for problem in patcher.plugins.problems} == {"wrapper"}
    assert len(patcher.plugins.problems) == 1


def test_a_plugin_that_fails_inside_a_hook_wrapper_is_blamed_itself(install) -> None:
    install("wrapper", WRAPPER)
    install("good", GOOD)
    install("bad", FAILURES["in register_patches"][0])
    patcher = pc.Patcher.discover()
    assert names(patcher.collect()) == ["good.patch"]
    assert [problem.plugin for problem in patcher.plugins.problems] == ["bad"]


# --- sections of reports -------------------------------------------------------------------------------------------

TELLS = """
import patchcore as pc
@pc.hookimpl
def report_sections():
    yield pc.Section("device", ("8 devices",), mark="emulated")
"""


def test_what_plugins_tell_besides_patches_is_in_the_report(install) -> None:
    install("tells", TELLS)
    with pc.Patcher.discover() as patcher:
        report = patcher.report()
    assert report.sections == (pc.Section("device", ("8 devices",), "emulated"),)
    assert report.summary().endswith(" (emulated)")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('no idea')", "no idea"),
        ("return 3", "expected a list, got 3"),
        ("return ['text']", "expected patchcore.Section objects, got 'text'"),
        ("return pc.Section('device')", "expected a list, got Section("),
    ],
    ids=["raises", "no list", "no section", "one section"],
)
def test_a_plugin_that_fails_to_tell_is_a_problem_and_the_others_tell(install, body: str, message: str) -> None:
    install("tells", TELLS)
    install("bad", f"import patchcore as pc\n@pc.hookimpl\ndef report_sections():\n    {body}\n")
    report = pc.Patcher.discover().apply()
    assert [section.title for section in report.sections] == ["device"]
    (problem,) = report.problems
    assert (problem.plugin, problem.where) == ("bad", "report_sections")
    assert message in problem.message


@pytest.mark.parametrize("declaration", ["pc.Replace('shop price', len)", "pc.Patch('a patch')"])
def test_an_error_in_a_declaration_ends_with_the_line_of_its_author(install, declaration) -> None:
    install("bad", f"import patchcore as pc\n\nX = {declaration}\n")
    (problem,) = Plugins().problems
    *_, place, line, _ = problem.traceback.splitlines()
    assert place.endswith('bad_plugin.py", line 3, in <module>')
    assert line == f"    X = {declaration}"


def test_a_name_that_patchcore_has_stays_its_own(install) -> None:
    source = """
        import patchcore as pc
        from patchcore.settings import check_text

        @pc.hookimpl
        def register_settings(): return [pc.Setting("log", check_text, default="mine")]
        @pc.hookimpl
        def register_commands(subparsers): subparsers.add_parser("run")
    """
    install("bad", source)
    plugins = Plugins()
    assert [setting.default for setting in plugins.settings() if setting.key == "log"] == [None]
    (problem,) = plugins.problems
    assert str(problem) == (
        "plugin bad (bad-patches 1.0): register_settings failed: "
        "ValueError: the setting 'log' is already registered by plugin patchcore.run"
    )


BRINGS = """
import patchcore as pc

class hooks:
    @staticmethod
    @pc.hookspec
    def register_colours(shade): ...

@pc.hookimpl
def register_hookspecs():
    return hooks

@pc.hookimpl
def list_sections(plugins):
    answers = [answer for _, answers in plugins.each("register_colours", shade="dark") for answer in answers]
    colours = [colour for answer in answers for colour in answer]
    return [pc.Section("Colours", tuple(colours), data=colours)]
"""
IMPLEMENTS = """
import patchcore as pc

@pc.hookimpl(optionalhook={optional})
def register_colours(shade):
    return [shade + " red"]
"""


@pytest.mark.parametrize("name", ["after", "zealous"])
def test_a_plugin_brings_hooks_that_others_implement_in_whatever_order_they_load(install, name: str) -> None:
    install("mixes", BRINGS)
    install(name, IMPLEMENTS.format(optional=False))
    plugins = Plugins()
    (listed,) = plugins.sections("list_sections", plugins=plugins)
    assert listed == pc.Section("Colours", ("dark red",), data=["dark red"])
    assert not plugins.problems


def test_an_implementation_of_a_hook_that_nobody_brings_is_a_problem_unless_it_is_optional(install) -> None:
    install("firm", IMPLEMENTS.format(optional=False))
    install("relaxed", IMPLEMENTS.format(optional=True))
    plugins = Plugins()
    assert list(plugins.provenances) == ["relaxed"]
    (problem,) = plugins.problems
    assert "no hook 'register_colours'" in problem.message


def test_a_plugin_whose_hooks_cannot_be_had_is_reported_and_stays_out(install) -> None:
    install("broken", "import patchcore as pc\n@pc.hookimpl\ndef register_hookspecs():\n    raise RuntimeError('no')\n")
    install("good", GOOD)
    plugins = Plugins()
    assert list(plugins.provenances) == ["good"]
    assert [(problem.plugin, problem.where) for problem in plugins.problems] == [("broken", "register_hookspecs")]


def test_an_implementation_that_does_not_fit_a_hook_of_another_plugin_is_its_own_failure(install) -> None:
    install("mixes", BRINGS)
    install("misfit", IMPLEMENTS.format(optional=False).replace("(shade)", "(light)"))
    plugins = Plugins()
    assert list(plugins.provenances) == ["mixes"]
    assert [problem.plugin for problem in plugins.problems] == ["misfit"]
