"""The example examples/every_hook: every hook does what docs/hooks.md says of it, without any library installed."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from distributions import write_distribution
from replay import difference

import patchcore as pc
from patchcore import hookspecs
from patchcore.cli import main
from patchcore.planning.candidates import Candidate
from patchcore.planning.provenance import COMMANDS, SUPPORT, Provenance
from patchcore.plugins import BUILTINS, Plugins
from patchcore.settings import LocalModule, Settings

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "every_hook"
PAGE = ROOT / "docs" / "hooks.md"

HOOKS = [name for name, hook in vars(hookspecs).items() if hasattr(hook, "patchcore_spec")]
#: Those of ``patchcore run`` that the page shows with the others.
OF_RUN = ("configure_run", "register_engines", "register_run_options", "start_process")
#: The hooks that no built-in plugin implements, with the package of a plugin that does.
NOT_IN_BUILTINS = {
    "register_patches": "mmcv_npu",  # built-in features are no patches
    "register_marks": "patchcore_torch",  # a compiler belongs to a library
    "register_handovers": "patchcore_torch",  # a protocol belongs to a library
    "registry_tables": "mmcv_npu",  # a table belongs to a library, and the core knows no library
    "on_failure": "mx_driving_compat",  # the settings on_failure and required= decide for all other patches
    "emulated_devices": "npu_emulator",  # a device belongs to a library
    "list_sections": "npu_graph",  # patchcore list shows plugins and patches itself
}

FEATURES = [name for names in BUILTINS.values() for name in names]

LIBRARY = """
    import os

    THREADS = os.environ.get("POINTCLOUD_THREADS")

    class Registry:
        def __init__(self): self._entries = {"Voxels": 1}

    MODELS = Registry()

    def voxels(x): return "voxels", x

    TABLE = {"voxels": voxels}
"""


def faster(x: Any) -> Any:
    return "faster", x


def slower(original: Any, x: Any) -> Any:
    return original(x)


@pytest.fixture
def plugin(monkeypatch) -> ModuleType:
    """The example's module."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    module = importlib.import_module("team_cluster.plugin")
    monkeypatch.setattr(module, "AUDIT", module.Audit())
    return module


@pytest.fixture
def pointcloud(make_package, monkeypatch) -> Iterator[None]:
    """Make the library importable, and leave the environment as it was."""
    make_package({"pointcloud": LIBRARY})
    monkeypatch.delenv("POINTCLOUD_THREADS", raising=False)
    before = variables()
    yield
    assert variables() == before


def variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def loaded(*others: str) -> Plugins:
    modules = [LocalModule(name) for name in ("team_cluster.plugin", *others)]
    plugins = Plugins(discover=False, modules=modules)
    assert not plugins.problems
    return plugins


def patcher(*patches: pc.Patch, strict: bool = False, **settings: Any) -> pc.Patcher:
    return pc.Patcher(patches, plugins=loaded(), settings=Settings.of(settings, origin="test"), strict=strict)


def replacing(value: Any = faster, **arguments: Any) -> pc.Patch:
    return pc.Patch("mine", pc.Replace("pointcloud:voxels", value), summary="faster voxels", **arguments)


def test_the_example_implements_every_hook(plugin) -> None:
    plugins = loaded()
    callers = plugins.manager.get_hookcallers(plugin)
    assert {caller.name for caller in callers} == {*HOOKS, *OF_RUN, "contacts"}


def builtins_with_all_hooks() -> Plugins:
    """Return the built-in plugins with the hooks that some add when a patch is collected that concerns them."""
    of_libraries = ("patchcore.torch", "npu_emulator.support", "fake_cann.support")
    plugins = Plugins(discover=False, commands=True, allowed=[f"no:{name}" for name in of_libraries])
    patch = pc.Patch("wraps", pc.Wrap("json:JSONEncoder.encode", slower), phase="before:json")
    candidate = Candidate(patch, Provenance("mine", file=__file__))
    pc.Patcher([candidate], plugins=plugins).collect()
    return plugins


def test_find_home(plugin, pointcloud) -> None:
    other = pc.Patch("other", pc.Replace("pointcloud.legacy:voxels", faster), summary="the same place")
    (conflict,) = patcher(replacing(), other).plan().conflicts
    assert conflict.reason.startswith("pointcloud:voxels is patched by both mine (local code) and other")


def test_a_built_in_plugin_implements_every_hook_but_these() -> None:
    builtins = builtins_with_all_hooks()
    assert len(builtins.builtins) == len(FEATURES)
    assert [hook for hook in HOOKS if not builtins.implements(hook)] == [h for h in HOOKS if h in NOT_IN_BUILTINS]


def test_only_the_command_line_loads_the_built_in_plugins_that_do_nothing_but_add_commands() -> None:
    manager = Plugins(discover=False, commands=True).manager
    hooks = {name: manager.get_hookcallers(manager.get_plugin(f"patchcore.{name}")) or [] for name in FEATURES}
    only_commands = {name for name, callers in hooks.items() if [c.name for c in callers] == ["register_commands"]}
    assert only_commands == set(BUILTINS[COMMANDS])
    assert [*Plugins(discover=False).builtins] == [f"patchcore.{name}" for name in BUILTINS[SUPPORT]]


def test_so_it_does_with_plugins_of_others(tmp_path, monkeypatch, make_package) -> None:
    make_package({"acme_tools": "import patchcore as pc\n@pc.hookimpl\ndef register_commands(subparsers): pass\n"})
    write_distribution(tmp_path / "site", "acme-tools", "1.0", commands={"acme": "acme_tools"})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert "acme" in Plugins(allowed=["acme"], commands=True).provenances
    everywhere = Plugins(allowed=["acme"])
    assert not everywhere.provenances
    assert everywhere.denied == [found for found in everywhere.denied if found.plugin != "acme"]


@pytest.mark.parametrize(("hook", "package"), NOT_IN_BUILTINS.items())
def test_a_plugin_of_ours_implements_what_no_built_in_does(hook: str, package: str) -> None:
    sources = (ROOT / "plugins" / package).rglob("*.py")
    assert any(re.search(rf"hookimpl(\(.*\))?\n *def {hook}\(", file.read_text(encoding="utf-8")) for file in sources)


class TestTheNewKindOfChange:
    def test_is_in_force_before_the_library_is_imported_and_reverted_exactly(self, plugin, pointcloud) -> None:
        before = variables()
        with patcher(threads=2) as patched:
            assert importlib.import_module("pointcloud").THREADS == "2"
            (change,) = patched.report()["team_cluster.threads"].changes
            assert (change.kind, change.status) == ("set-environment", "applied")
            assert change.slots == ("os:environ['POINTCLOUD_THREADS']",)
        assert variables() == before

    def test_stays_while_another_patch_on_top_is_reverted_and_follows_one_below(self, plugin, pointcloud) -> None:
        from team_cluster.environment import SetEnvironment

        def patch(name: str, value: str) -> pc.Patch:
            return pc.Patch(name, SetEnvironment("POINTCLOUD_THREADS", value, before="pointcloud"), after="*")

        below, above = patcher(patch("below", "1")), patcher(patch("above", "2"))
        below.apply()
        above.apply()
        assert os.environ["POINTCLOUD_THREADS"] == "2"
        below.revert()
        assert os.environ["POINTCLOUD_THREADS"] == "2"
        assert above.revert().notes == ()

    def test_is_skipped_where_it_comes_too_late(self, plugin, pointcloud) -> None:
        importlib.import_module("pointcloud")
        with patcher(threads=2) as patched:
            record = patched.report()["team_cluster.threads"]
            assert (record.status, record.reason) == ("skipped", "pointcloud is imported already")
            assert "POINTCLOUD_THREADS" not in os.environ

    def test_restores_the_value_that_was_there(self, plugin, pointcloud, monkeypatch) -> None:
        with monkeypatch.context() as patched:
            patched.setenv("POINTCLOUD_THREADS", "8")
            with patcher(threads="2"):
                assert os.environ["POINTCLOUD_THREADS"] == "2"
            assert os.environ["POINTCLOUD_THREADS"] == "8"


def test_settings_decide_which_patches_there_are(plugin, monkeypatch) -> None:
    assert patcher().collect() == []
    monkeypatch.setenv("PATCHCORE_THREADS", "3")
    settings = Settings.load()
    (candidate,) = pc.Patcher(plugins=loaded(), settings=settings).collect()
    assert candidate.patch.changes[0].value == "3"
    assert patcher().with_settings(threads=5).collect()[0].patch.changes[0].value == "5"


def test_an_impossible_setting_is_refused_with_its_source(plugin) -> None:
    with pytest.raises(pc.SettingsError, match=r"^test: threads = 'many'; expected a number of threads$"):
        patcher(threads="many")


def test_a_registry_of_the_library_has_entries_that_can_be_patched(plugin, pointcloud) -> None:
    models = importlib.import_module("pointcloud").MODELS
    patch = pc.Patch("mine", [pc.Replace('pointcloud:MODELS["Voxels"]', 2), pc.Register("pointcloud:MODELS", Settings)])
    with patcher(patch) as patched:
        assert patched.report()["mine"].status == "applied"
        assert models._entries == {"Voxels": 2, "Settings": Settings}
    assert models._entries == {"Voxels": 1}


def test_the_guard_refuses_a_lambda(plugin, pointcloud) -> None:
    voxels = importlib.import_module("pointcloud").voxels
    with patcher(replacing(lambda x: x)) as patched:
        record = patched.report()["mine"]
        assert record.status == "failed"
        assert "pointcloud:voxels: a lambda cannot be pickled; write a function with a name" in record.reason
        assert importlib.import_module("pointcloud").voxels is voxels


def test_what_stands_for_an_original_is_marked(plugin, pointcloud) -> None:
    with patcher(pc.Patch("plain", pc.Wrap("pointcloud:voxels", slower))):
        assert importlib.import_module("pointcloud").voxels.sampled_as == "pointcloud.voxels"
    assert not hasattr(importlib.import_module("pointcloud").voxels, "sampled_as")


def test_a_cloud_elsewhere_gets_the_call_before_the_patch(plugin, pointcloud) -> None:
    class Cloud:
        def run_there(self, function: Any, *args: Any) -> Any:
            return "there", function

    pointcloud = importlib.import_module("pointcloud")
    with patcher(pc.Patch("plain", pc.Wrap("pointcloud:voxels", slower))):
        assert pointcloud.voxels(Cloud()) == ("there", pointcloud.voxels)
        assert pointcloud.voxels(1) == ("voxels", 1)


def test_the_remark_is_a_finding_where_sources_are_read(plugin, pointcloud) -> None:
    patch = pc.Patch("mine", pc.Replace("pointcloud:voxels", faster))
    (remark,) = patcher(patch).plan().remarks(patcher(patch).plan()["mine"])
    assert (remark.text, remark.finding) == ("it has no summary", True)
    assert patcher(replacing()).plan().remarks(patcher(replacing()).plan()["mine"]) == []
    with pytest.raises(pc.PatchError, match=r"it has no summary. give the patch a summary=, or leave it out with"):
        patcher(patch, strict=True).apply()


def test_patches_of_plugins_that_are_not_trusted_are_vetoed(plugin, pointcloud) -> None:
    with patcher(replacing(), threads=2, trusted="team_cluster.plugin") as patched:
        report = patched.report()
        assert report["team_cluster.threads"].status == "applied"
        assert report["mine"].status == "skipped"
        assert "is not trusted" in report["mine"].reason
        assert plugin.AUDIT.statuses == {"team_cluster.threads": "applied", "mine": "skipped"}


def test_the_report_tells_of_the_job_and_of_a_patch_that_was_completed_by_an_import(plugin, pointcloud) -> None:
    plugin.AUDIT.job = "nightly"
    with patcher(replacing()) as patched:
        assert patched.report().sections == (section(plugin, "pending"),)
        importlib.import_module("pointcloud")
        assert patched.report().sections == (section(plugin, "applied"),)


def section(plugin: ModuleType, status: str) -> pc.Section:
    data = {"run": "", "job": "nightly", "plugins": {}, "patches": [{"patch": "mine", "status": status}]}
    return pc.Section("audit", ("job nightly", f"mine: {status}"), data=data)


def test_the_hook_that_the_example_brings_is_implemented_by_others(plugin, make_package) -> None:
    make_package(
        {"vision": "import patchcore as pc\n@pc.hookimpl(optionalhook=True)\ndef contacts(): yield 'vision'\n"}
    )
    plugins = loaded("vision")
    (listed,) = plugins.sections("list_sections", plugins=plugins)
    assert listed == pc.Section("contacts", ("vision: vision", "team_cluster.plugin: cluster@example.org"))


@pytest.fixture
def installed(plugin, monkeypatch, tmp_path) -> None:
    """The example as an installed plugin, and no other one."""
    write_distribution(tmp_path / "site", "team-cluster-patches", "0.1.0", plugins={"team_cluster": plugin.__name__})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PATCHCORE_PLUGINS", "team_cluster")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("node", "emulated"), [("login", True), ("a17", False)])
def test_an_emulated_device_is_named_and_not_timed(installed, monkeypatch, capsys, node, emulated) -> None:
    """``verify`` reports it, and ``doctor`` names the plugin; the framework stands in for one that knows the device."""
    from patchcore.builtin.verify.framework import Framework

    class AnyDevice(Framework):
        def require_device(self, device: str) -> None: ...

    monkeypatch.setattr("patchcore.builtin.verify.command.framework_of", lambda plugins: AnyDevice())
    monkeypatch.setenv("CLUSTER_NODE", node)
    main(["verify", "--device", "pointcloud:1", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["emulated"] is emulated
    main(["doctor", "--format", "json"])
    facts = {fact["name"]: fact["value"] for fact in json.loads(capsys.readouterr().out)["facts"]}
    assert facts.get("pointcloud") == ("emulated by plugin team_cluster" if emulated else None)


def test_the_command_is_there(installed, capsys) -> None:
    assert main(["contacts"]) == 0
    assert capsys.readouterr().out == "team_cluster: cluster@example.org\n"


def test_the_options_of_run_are_settings_or_reach_the_plugin(plugin, installed) -> None:
    from patchcore.builtin.run import command
    from patchcore.builtin.run.roles import registered_engines
    from patchcore.builtin.run.session import Session

    given = ["--threads", "2", "--trusted", "a,b", "--trusted", "c", "--job", "nightly"]
    options = command.parse([*given, "train.py"])
    settings, plugins = options.patcher.settings, options.patcher.plugins
    assert (settings.get("threads"), settings.origins["threads"]) == (2, "--threads")
    plugins.notify("configure_run", options=command.parse_options(given, plugins), settings=settings)
    session = Session.of(options.patcher, options.patcher.plan())
    plugins.notify("start_process", patcher=options.patcher, session=session)
    assert (plugin.AUDIT.job, plugin.AUDIT.run) == ("nightly", session.run)
    assert [engine.name for engine in registered_engines(plugins)] == ["team-queue"]
    assert not plugins.problems


def blocks(language: str) -> list[tuple[str, str]]:
    """Return the blocks of the page in a language, with the name of the file that is given above each."""
    pattern = rf"(?:^`([\w./-]+)`:\n\n)?^```{language}\n(.*?)^```"
    return re.findall(pattern, PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("file", "text"), [block for block in blocks("python") if block[0].startswith("team_cluster")])
def test_the_page_quotes_the_example(file: str, text: str) -> None:
    source = (EXAMPLE / file).read_text(encoding="utf-8")
    for part in text.split("\n\n\n"):
        assert part.strip("\n") in source


def test_the_page_has_every_hook_and_the_built_ins_that_implement_it() -> None:
    page = PAGE.read_text(encoding="utf-8")
    plugins = builtins_with_all_hooks()
    for hook in HOOKS:
        (row,) = re.findall(rf"^\| `{hook}\(.*\|$", page, flags=re.MULTILINE)
        callers = getattr(plugins.manager.hook, hook).get_hookimpls()
        users = {str(plugins.manager.get_name(caller.plugin)).split(".")[1] for caller in callers}
        shown = row.split("|")[-2]
        assert users == set(re.findall(r"`(\w+)`", shown.partition(";")[0])), hook


def test_the_session_on_the_page_prints_what_it_shows(tmp_path) -> None:
    for file, text in blocks("python"):
        if file and not file.startswith("team_cluster"):
            (tmp_path / file).write_text(text)
    site = tmp_path / "site"
    write_distribution(site, "team-cluster-patches", "0.1.0", plugins={"team_cluster": "team_cluster.plugin"})
    path = [str(site), str(EXAMPLE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PATCHCORE_", "RANK"))},
        "PYTHONPATH": os.pathsep.join(path),
        "PATCHCORE_PLUGINS": "team_cluster",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }
    for _, session in blocks("console"):
        parts = re.split(r"^\$ (.*)\n", session, flags=re.MULTILINE)[1:]
        for command, shown in zip(parts[::2], parts[1::2]):
            if command.startswith("patchcore"):
                command = f"{shlex.quote(sys.executable)} -m {command}"
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=600,
            )
            assert difference(shown, done.stdout) is None, f"$ {command}\n{done.stdout}"


@pytest.mark.parametrize("trusted", [(), ("local",)])
def test_a_patch_of_a_trusted_plugin_that_fails_raises(plugin, pointcloud, trusted) -> None:
    importlib.import_module("pointcloud")
    name = patcher(replacing()).collect()[0].provenance.plugin
    patched = patcher(replacing("pointcloud:nothing"), trusted=[name] if trusted else [])
    if trusted:
        with pytest.raises(pc.PatchError, match="pointcloud:nothing does not exist"):
            patched.apply()
    else:
        assert patched.apply()["mine"].status == "failed"
        patched.revert()


def test_the_plugins_that_contribute_are_counted_when_all_were_asked(plugin) -> None:
    patcher(threads=2).collect()
    assert plugin.AUDIT.contributed == {"team_cluster.plugin": 1}


def test_only_tables_of_modules_are_searched_for_originals(plugin, pointcloud) -> None:
    library = importlib.import_module("pointcloud")
    kept = {"deep": {"deeper": library.voxels}}
    with patcher(replacing()) as patched:
        (change,) = patched.report(unreachable=True)["mine"].changes
        assert change.unreachable == ("table pointcloud:TABLE['voxels']",)
    assert kept["deep"]["deeper"] is library.voxels
