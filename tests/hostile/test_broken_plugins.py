"""Plugins that raise what would end the program, take names of others, or forget to be plugins."""

from __future__ import annotations

import logging
from typing import Callable

import pytest
from distributions import write_distribution
from programs import PATCHES, SHOP, Programs

import patchcore as pc
from patchcore.cli import main

#: What code may raise that is no ``Exception``, and how the report calls it.
ENDS = {
    "sys.exit(5)": "SystemExit: 5",
    "raise SystemExit": "SystemExit",
    "raise GeneratorExit('enough')": "GeneratorExit: enough",
    "raise Stop('enough')": "Stop: enough",
    "raise BaseException('enough')": "BaseException: enough",
    "raise Silent": "Silent",
}

HEAD = """
import sys
import patchcore as pc

class Stop(BaseException): pass

class Silent(BaseException):
    def __str__(self):
        raise BaseException("no words")

def end(*args, **kwargs):
    {end}

PATCH = pc.Patch("bad.patch", [pc.Wrap("shop:price", lambda original: 99)], default=False)
"""

#: Where a plugin's code runs: the source after HEAD, and where the problem is said to be.
HOOKS = {
    "load": "end()",
    "register_patches": "@pc.hookimpl\ndef register_patches(): end()",
    "register_patches, a generator": "@pc.hookimpl\ndef register_patches():\n    yield PATCH\n    end()",
    "register_hookspecs": "@pc.hookimpl\ndef register_hookspecs(): end()",
    "before_apply": "@pc.hookimpl\ndef before_apply(): end()",
    "after_apply": "@pc.hookimpl\ndef after_apply(): end()",
    "on_failure": "@pc.hookimpl\ndef on_failure(): end()",
    "report_sections": "@pc.hookimpl\ndef report_sections(): end()",
    "report_sections, a wrapper": "@pc.hookimpl(wrapper=True)\ndef report_sections():\n    end()\n    yield",
}
REGISTERING = "\n@pc.hookimpl\ndef register_patches(): return [PATCH]\n"

GOOD = """
import patchcore as pc

@pc.wrap("shop:price", name="good.dearer")
def dearer(original):
    return original() + 1

MISSING = pc.Patch("good.missing", [pc.Wrap("shop:gone", lambda original: 1)], after=["good.dearer"])

@pc.hookimpl
def register_patches():
    return [dearer, MISSING]

@pc.hookimpl
def report_sections():
    return [pc.Section("good", ("is well",))]
"""

Install = Callable[[str, str], None]


@pytest.fixture
def install(make_package, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install distributions ``NAME-patches 1.0``, each with one plugin of that name."""
    for name in ("PATCHCORE_DISABLE", "PATCHCORE_MODULES"):
        monkeypatch.delenv(name, raising=False)
    installed: list[str] = []
    make_package({"shop": "def price():\n    return 10\n"})

    def install(name: str, source: str) -> None:
        folder = make_package({f"{name}_plugin": source})
        write_distribution(folder, f"{name}-patches", "1.0", plugins={name: f"{name}_plugin"})
        installed.append(name)
        monkeypatch.setenv("PATCHCORE_PLUGINS", ",".join(installed))  # and none of those where the tests run

    return install


class TestEndings:
    """Code of a plugin that would end the program ends only itself, and the report says whose it was."""

    @pytest.mark.parametrize("end", ENDS)
    @pytest.mark.parametrize("place", HOOKS)
    def test_in_a_hook(self, install: Install, caplog, place: str, end: str) -> None:
        hook = place.partition(",")[0]
        source = HEAD.format(end=end) + HOOKS[place]
        install("bad", source if "register_patches" in place else source + REGISTERING)
        install("good", GOOD)
        with pc.Patcher.discover() as patcher:
            import shop  # type: ignore[import-not-found]

            assert shop.price() == 11
            report = patcher.report()
        problem = next(problem for problem in report.problems if problem.where == hook)
        assert (problem.plugin, problem.distribution, problem.version) == ("bad", "bad-patches", "1.0")
        assert problem.message == ENDS[end]
        assert "bad_plugin.py" in problem.traceback
        assert {problem.plugin for problem in report.problems} == {"bad"}
        assert [section.title for section in report.sections] == ["good"]
        assert "bad-patches 1.0" in caplog.text
        assert shop.price() == 10

    @pytest.mark.parametrize("end", ENDS)
    def test_in_a_condition(self, install: Install, end: str) -> None:
        patch = 'pc.Patch("bad.when", [pc.Wrap("shop:price", lambda original: 99)], when=end)'
        install("bad", f"{HEAD.format(end=end)}\n@pc.hookimpl\ndef register_patches(): return [{patch}]")
        install("good", GOOD)
        with pc.Patcher.discover() as patcher:
            record = patcher.report()["bad.when"]
            assert patcher.report()["good.dearer"].status == "pending"
        assert record.status == "failed"
        assert record.reason.startswith(f"its when condition raised {ENDS[end]} (")
        assert "bad_plugin.py:" in record.reason
        assert record.distribution == "bad-patches"

    @pytest.mark.parametrize("end", ENDS)
    @pytest.mark.parametrize(
        "change",
        [
            'pc.Replace("shop:price", factory=end)',
            'pc.Replace("shop:price", "bad_replacement:price")',
            'pc.Replace("shop:price", "bad_lazy:price")',
            'pc.Wrap("shop:price", "bad_replacement:price")',
            'pc.Call(end, module="shop")',
            'pc.ReplaceImport("shop", with_="bad_replacement")',
        ],
    )
    def test_in_what_a_change_runs(self, install: Install, make_package, change: str, end: str) -> None:
        head = HEAD.format(end=end)
        make_package({"bad_replacement": f"{head}\nend()", "bad_lazy": f"{head}\ndef __getattr__(name): end()"})
        install("bad", f"{head}\n@pc.hookimpl\ndef register_patches(): return [pc.Patch('bad.change', [{change}])]")
        with pc.Patcher.discover() as patcher:
            import shop

            assert shop.price() == 10
            record = patcher.report()["bad.change"]
        assert record.status == "failed", record
        assert f"{ENDS[end]} was raised, which would have ended the program" in record.reason

    @pytest.mark.parametrize("place", ["load", "register_patches", "before_apply", "report_sections", "when"])
    def test_an_interrupt_by_the_user_passes(self, install: Install, place: str) -> None:
        source = HEAD.format(end="raise KeyboardInterrupt")
        if place == "when":
            source += REGISTERING.replace("PATCH", 'pc.Patch("bad.when", PATCH.changes, when=end)')
        else:
            source += HOOKS[place] + ("" if place == "register_patches" else REGISTERING)
        install("bad", source)
        install("good", GOOD)
        with pytest.raises(KeyboardInterrupt):
            pc.Patcher.discover().apply()

    def test_an_object_without_a_repr(self, install: Install) -> None:
        source = HEAD.format(end="raise Stop('enough')") + "\nclass Shy:\n    __repr__ = end\n"
        source += REGISTERING.replace("PATCH", "Shy()")
        install("bad", source + "@pc.hookimpl\ndef before_apply(): return Shy()")
        install("good", GOOD)
        with pc.Patcher.discover() as patcher:
            messages = [problem.message for problem in patcher.report().problems]
        assert {"<Shy object whose repr raises Stop>" in message for message in messages} == {True}


class TestCommandsEnd:
    """The same from the command line."""

    @pytest.mark.parametrize("end", ENDS)
    def test_a_library_that_ends_when_it_is_imported(self, install: Install, make_package, capsys, end: str) -> None:
        make_package({"shop": f"{HEAD.format(end=end)}\nend()"})
        install("good", GOOD)
        assert main(["check", "--apply"]) == 1
        assert f"{ENDS[end]} was raised" in capsys.readouterr().out
        assert main(["explain", "--apply", "good.dearer"]) == 0
        assert f"{ENDS[end]} was raised" in capsys.readouterr().out

    @pytest.mark.parametrize("end", ENDS)
    def test_a_check_that_ends(self, install: Install, capsys, end: str) -> None:
        head = HEAD.format(end=end)
        patch = 'pc.Patch("bad.checked", PATCH.changes, checks=[pc.Check(lambda random: pc.Case(end))])'
        install("bad", f"{head}\n@pc.hookimpl\ndef register_patches(): return [{patch}]")
        assert main(["verify", "bad.checked", "--no-timing"]) == 1
        assert ENDS[end] in capsys.readouterr().out

    @pytest.mark.parametrize("end", ENDS)
    def test_a_plugin_that_ends_adding_to_the_command_line(self, install: Install, capsys, end: str) -> None:
        hooks = "".join(
            f"\n@pc.hookimpl\ndef {hook}(): end()\n" for hook in ("register_commands", "register_run_options")
        )
        install("bad", HEAD.format(end=end) + hooks + REGISTERING)
        assert main(["--help"]) == 0
        assert f"register_commands failed: {ENDS[end]}" in capsys.readouterr().err
        assert main(["list"]) == 0

    def test_a_run_says_so_and_goes_on(self, programs: Programs) -> None:
        programs.write(SHOP)
        bad = PATCHES.replace("import patchcore as pc", "import sys\nimport patchcore as pc").replace(
            '"shop.prices:price"', '"shop.prices:price", when=lambda: sys.exit(5)'
        )
        programs.write({"deals.py": bad})
        done = programs.run(programs.patchcore, "-p", "deals", "sell.py")
        assert done.stdout == "10\n"
        assert "its when condition raised SystemExit: 5" in done.stderr
        assert "1 failed" in done.stderr


class TestForgotten:
    """A module that has patches, and is no plugin for want of a hook or a return."""

    SOURCE = 'import patchcore as pc\nDEAR = pc.Patch("forgetful.dear", [pc.Replace("shop:price", len)])\n'
    RETURNS = {
        "no hook": "",
        "no mark": "def register_patches(): return [DEAR]",
        "nothing": "@pc.hookimpl\ndef register_patches(): [DEAR]",
        "an empty list": "@pc.hookimpl\ndef register_patches(): return []",
        "an empty generator": "@pc.hookimpl\ndef register_patches():\n    return\n    yield",
    }

    @pytest.mark.parametrize("kind", RETURNS)
    def test_is_reported(self, install: Install, capsys, kind: str) -> None:
        install("forgetful", self.SOURCE + self.RETURNS[kind])
        assert main(["check"]) == 1
        out = capsys.readouterr().out
        what = "no register_patches" if kind.startswith("no ") else "register_patches returns none"
        assert f"forgetful_plugin has 1 patch (DEAR), but {what}; write" in out
        assert "@patchcore.hookimpl" in out

    @pytest.mark.parametrize("kind", ["no hook", "nothing"])
    def test_is_said_by_a_run(self, programs: Programs, kind: str) -> None:
        programs.write({**SHOP, "deals.py": self.SOURCE + self.RETURNS[kind]})
        done = programs.run(programs.patchcore, "-p", "deals", "sell.py")
        what = "no register_patches" if kind.startswith("no ") else "register_patches returns none"
        assert f"deals has 1 patch (DEAR), but {what}; write" in done.stderr
        assert done.stdout == "10\n"

    def test_a_local_module_may_be_imported_for_what_that_does(self, programs: Programs) -> None:
        programs.write({**SHOP, "deals.py": "print('ready')"})
        done = programs.run(programs.patchcore, "-p", "deals", "sell.py")
        assert done.stdout.endswith("ready\n10\n")  # the command imports it, too
        assert "deals" not in done.stderr

    def test_a_plugin_without_any_hook_is_reported(self, install: Install, capsys) -> None:
        install("forgetful", "import patchcore as pc\ndef price(): return 1")
        assert main(["check"]) == 1
        assert "implements no hook of patchcore" in capsys.readouterr().out

    @pytest.mark.parametrize("source", [SOURCE, SOURCE + RETURNS["an empty list"], "import patchcore as pc"])
    def test_is_reported_once_though_patches_are_collected_again(self, install: Install, source: str) -> None:
        install("forgetful", source)
        patcher = pc.Patcher.discover()
        patcher.plan()
        patcher.with_settings(brake=3).plan()
        assert len(patcher.plugins.problems) == 1

    def test_plugins_that_are_in_order_are_not(self, install: Install, caplog) -> None:
        install("good", GOOD)
        install("quiet", "import patchcore as pc\n@pc.hookimpl\ndef register_patches(): return []")
        install("other", "import patchcore as pc\n@pc.hookimpl\ndef report_sections(): return []")
        with caplog.at_level(logging.WARNING), pc.Patcher.discover() as patcher:
            assert not patcher.report().problems


class TestNames:
    """A name that two plugins use costs neither its patch."""

    TAKING = """
        import patchcore as pc
        @pc.hookimpl(tryfirst={first})
        def register_patches():
            return [pc.Patch("good.dearer", [pc.Wrap("shop:label", lambda original: "taken")])]
    """

    @pytest.mark.parametrize("first", [True, False])
    @pytest.mark.parametrize("name", ["aaa", "zzz"])
    def test_of_a_patch(self, install: Install, make_package, name: str, first: bool) -> None:
        make_package({"shop": "def price(): return 10\ndef label(): return 'shop'"})
        install("good", GOOD)
        install(name, self.TAKING.format(first=first))
        with pc.Patcher.discover() as patcher:
            import shop

            assert (shop.price(), shop.label()) == (11, "taken")
            report = patcher.report()
        assert report["good.dearer"].plugin == "good"
        assert report[f"good.dearer+{name}"].plugin == name
        (problem,) = report.problems
        assert (problem.plugin, problem.where) == (name, "register_patches")
