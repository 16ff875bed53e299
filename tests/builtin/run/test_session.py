"""A session: what ``patchcore run`` was told reaches every process, through environment variables."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from programs import PATCHES

import patchcore as pc
import patchcore_startup
from patchcore.builtin.run.roles import take_role
from patchcore.builtin.run.session import RUN_ID, LoadedPlugin, Session
from patchcore.errors import SettingsError
from patchcore.plugins import Plugins
from patchcore.settings import Choice, LocalModule, Settings

SETTINGS = Settings(
    plugins=("mmcv", "mine"),
    modules=(LocalModule("migrate_to_ascend.patch", "/project"), LocalModule("anywhere")),
    choices=(Choice(True, "mmcv.spconv3d", "--enable", 3), Choice(False, "*", "pyproject.toml")),
    on_failure="raise",
    values={"report_dir": "/reports", "log": "DEBUG"},
    options={"mine.clip": {"norm": 0.1, "names": ["a", "b"]}},
    variant="debug",
    origins={"on_failure": "--strict"},
)
SESSION = Session(
    "cafe",
    4711,
    SETTINGS,
    ("--brake", "3", "träin.py", "\udcff"),
    (LoadedPlugin("mmcv", "mmcv-npu", "1.0"),),
    ("mmcv",),
)


def written(session: Session = SESSION, **environ: str) -> dict[str, str]:
    return session.environment(environ)


def changed(**keys: Any) -> str:
    """Return the text of a session whose description has other values."""
    description = patchcore_startup.decode_session(SESSION.encode())
    return patchcore_startup.encode_session("2", ["4711"], {**description, **keys})


class TestReaches:
    @pytest.mark.parametrize("session", [SESSION, Session("cafe", 1, Settings())], ids=["full", "bare"])
    def test_another_process_whole(self, session: Session) -> None:
        assert Session.parse(written(session)[patchcore_startup.SESSION]) == session

    def test_an_environment_as_text_that_it_can_hold(self) -> None:
        text = written()[patchcore_startup.SESSION]
        assert re.fullmatch(r"[A-Za-z0-9_.:=~-]+", text)  # no quotes, spaces, commas

    def test_an_environment_with_words_and_names_that_are_not_ascii(self) -> None:
        names = ("größe", "word:torch.cuda, 'x'", "mmcv")
        text = SESSION._replace(libraries=names).encode()
        assert re.fullmatch(r"[A-Za-z0-9_.:=~-]+", text)
        assert tuple(patchcore_startup._decode_triggers(text.split(":")[1:-1])) == ("4711", *names)

    def test_a_date_in_the_options_as_text(self) -> None:
        """TOML has dates, JSON has not."""
        import datetime

        session = Session("cafe", 1, Settings(options={"p": {"since": datetime.date(2026, 1, 2)}}))
        parsed = Session.parse(written(session)[patchcore_startup.SESSION])
        assert parsed.settings.options == {"p": {"since": "2026-01-02"}}

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "null",
            "[]",
            '"text"',
            "{}",
            "2:4711:shop:",
            "2:4711:shop:no-base64",
            SESSION.encode()[:-3],
            changed(settings={"plugins": None}),
            changed(plugins=[["mmcv"]]),
        ],
    )
    def test_as_something_else_is_refused(self, text: str) -> None:
        with pytest.raises(SettingsError, match=r"PATCHCORE_SESSION is not what patchcore run wrote .*; unset it"):
            Session.parse(text)

    def test_from_another_version_is_refused(self) -> None:
        with pytest.raises(SettingsError, match=r"another version .*\(protocol 3, here 2\); install the same"):
            Session.parse("3:4711:anything:else")
        with pytest.raises(SettingsError, match=r"another version .*\(protocol 1, here 2\); install the same"):
            Session.parse('{"protocol": 1, "anything": "else"}')


class TestEnvironment:
    def test_adds_to_what_is_there(self) -> None:
        environ = {"HOME": "/root", "PYTHONPATH": "mine"}
        added = SESSION.environment(environ)
        assert environ == {"HOME": "/root", "PYTHONPATH": "mine"}
        assert added["HOME"] == "/root"
        assert added.keys() - environ.keys() == {patchcore_startup.SESSION}

    def test_says_what_wakes_a_process(self) -> None:
        session = Session("cafe", 4711, Settings(), libraries=("json", "mmcv"))
        assert written(session)[patchcore_startup.SESSION].startswith("2:4711:json:mmcv:")

    @pytest.mark.parametrize(
        ("path", "entries"),
        [
            (None, []),
            ("", []),
            ("b:a:b", ["b", "a", "b"]),
            (":a", ["", "a"]),  # the current directory
            (f"a:{patchcore_startup.SITE}:b", ["a", "b"]),
        ],
    )
    def test_goes_before_the_users_path_and_keeps_its_order(self, path: Any, entries: list[str]) -> None:
        environ = {} if path is None else {"PYTHONPATH": path.replace(":", os.pathsep)}
        assert written(**environ)["PYTHONPATH"].split(os.pathsep) == [patchcore_startup.SITE, *entries]

    def test_of_a_run_inside_a_run_is_the_inner_ones(self) -> None:
        inner = Session("babe", 4712, Settings())
        once = written(inner)
        assert written(inner, **written()) == once
        assert Session.parse(once[patchcore_startup.SESSION]) == inner

    def test_of_a_run_that_another_one_becomes_has_a_leader_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("RANK", "LOCAL_RANK", "PATCHCORE_LED"):
            monkeypatch.setenv(name, "")
        assert take_role(4711, Plugins(discover=False)) == "main"
        monkeypatch.setattr(os, "environ", dict(written(**os.environ)))
        assert take_role(4711, Plugins(discover=False)) == "main"


class TestOfAPatcher:
    @pytest.fixture
    def patcher(self) -> pc.Patcher:
        patches = [
            pc.Patch("a", [pc.Replace("shop.prices:price", print), pc.Replace("json:dumps", print)]),
            pc.Patch("b", [pc.Replace("store.prices:price", print)], needs=["mx_driving.ops"]),
            pc.Patch("c", [pc.Replace("sys:path", [])], default=False),  # of no concern, and every process has sys
        ]
        return pc.Patcher(patches, settings=SETTINGS)

    def test_has_what_the_processes_need(self, patcher: pc.Patcher, monkeypatch: pytest.MonkeyPatch) -> None:
        patcher.settings = Settings()
        monkeypatch.delenv(RUN_ID, raising=False)
        plan = patcher.plan()
        session = Session.of(patcher, plan, ["--brake", "3"])
        assert session.libraries == ("json", "mx_driving", "shop", "store")
        assert (session.launcher, session.arguments) == (os.getpid(), ("--brake", "3"))
        assert session.run != Session.of(patcher, plan).run

    def test_is_the_same_run_in_several_places_when_told_so(
        self, patcher: pc.Patcher, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        patcher.settings = Settings()
        monkeypatch.setenv(RUN_ID, "job-7")
        assert Session.of(patcher, patcher.plan()).run == "job-7"

    def test_knows_the_plugins_that_were_loaded(self, make_package: Any) -> None:
        folder = make_package({"deals": PATCHES, "broken": "1 / 0"})
        modules = (LocalModule("deals", str(folder)), LocalModule("broken", str(folder)))
        patcher = pc.Patcher.discover(settings=Settings(plugins=(), modules=modules))
        loaded = Session.of(patcher, patcher.plan()).plugins
        # Every Patcher loads those that support a library, too: the ones that happen to be installed.
        assert LoadedPlugin("deals", "", "") in loaded
        assert "broken" not in [plugin.name for plugin in loaded]


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (LoadedPlugin("mmcv", "mmcv-npu-patches", "1.0"), "mmcv (mmcv-npu-patches 1.0)"),
        (LoadedPlugin("d", "", ""), "d"),
    ],
)
def test_a_plugin_is_named_with_its_distribution(plugin: LoadedPlugin, text: str) -> None:
    assert str(plugin) == text


def test_the_folder_on_pythonpath_has_the_door() -> None:
    assert Path(patchcore_startup.SITE, "sitecustomize.py").is_file()
