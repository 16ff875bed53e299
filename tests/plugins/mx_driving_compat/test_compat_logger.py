"""Logging of the mx_driving.patcher API: events, summary and ranks; and the results it reports."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from mx_driving_compat.messages import summary
from mx_driving_compat.messages.logger import (
    EventPolicy,
    PatcherLogger,
    PatchError,
    PatchInfo,
    SummaryConfig,
    set_patcher_log_level,
)
from mx_driving_compat.messages.results import PatchResult, PatchStatus
from patchcore.process import RANK_VARIABLES

LOGGER = logging.getLogger("mx_driving.patcher")


@pytest.fixture(autouse=True)
def fresh_logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the logger be as in a new process, in no job, and put it back afterwards."""
    for name in RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    before = LOGGER.handlers[:], LOGGER.level, LOGGER.propagate
    LOGGER.handlers[:], LOGGER.propagate = [], True
    LOGGER.setLevel(logging.NOTSET)
    yield
    LOGGER.handlers[:], LOGGER.propagate = before[0], before[2]
    LOGGER.setLevel(before[1])


@pytest.fixture
def log() -> PatcherLogger:
    """A logger that logs events at once."""
    return PatcherLogger().set_buffer_enabled(False)


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


# --- the logger -----------------------------------------------------------------------------------------------------


def test_the_logger_is_left_alone_until_the_first_record(run_python: Any) -> None:
    printed = run_python(
        """
        import logging
        from mx_driving_compat.messages.logger import patcher_logger
        logger = logging.getLogger("mx_driving.patcher")
        print(len(logger.handlers), logger.level, logger.propagate)
        patcher_logger.info("one")
        print(len(logger.handlers), logger.level, logger.propagate)
        """
    )
    assert printed.split() == ["0", "0", "True", "1", str(logging.INFO), "False"]


def test_a_handler_and_a_level_of_the_user_are_kept(log: PatcherLogger, capsys: pytest.CaptureFixture[str]) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    log.debug("one")
    assert [record.getMessage() for record in records] == ["one"]
    assert LOGGER.handlers == [handler]
    assert shown(capsys) == ""


def test_the_level_can_be_set_before_the_first_record(log: PatcherLogger, capsys: pytest.CaptureFixture[str]) -> None:
    set_patcher_log_level(logging.WARNING)
    log.info("one")
    log.warning("two")
    assert log.set_level(logging.DEBUG) is log
    log.debug("three")
    assert shown(capsys) == "[Patcher] WARNING: two\n[Patcher] DEBUG: three\n"


# --- events and actions ---------------------------------------------------------------------------------------------


def test_events_are_logged_with_their_reasons(log: PatcherLogger, capsys: pytest.CaptureFixture[str]) -> None:
    log.applied("mmcv.a")
    log.applied("mmcv.b", reason="on import of mmcv")
    log.skipped("mmcv.c", reason="precheck failed")
    log.failed("mmcv.d", "no such thing", package="mmcv")
    log.error("unexpected")
    assert shown(capsys).splitlines() == [
        "[Patcher] INFO: Applied: mmcv.a",
        "[Patcher] INFO: Applied: mmcv.b (on import of mmcv)",
        "[Patcher] INFO: Skipped: mmcv.c (precheck failed)",
        "[Patcher] WARNING: Failed: mmcv.d (no such thing)",
        "[Patcher] WARNING: unexpected",
    ]


EVENTS = {
    "on_apply": lambda log: log.applied("x"),
    "on_skip": lambda log: log.skipped("x"),
    "on_fail": lambda log: log.failed("x"),
    "on_error": lambda log: log.error("x"),
}


@pytest.mark.parametrize("event", EVENTS)
def test_an_action_can_be_a_level_or_silence(
    log: PatcherLogger, capsys: pytest.CaptureFixture[str], event: str
) -> None:
    log.set_level(logging.DEBUG)
    for action in ("debug", "info", "warning", "error"):
        log.configure(**{event: action})  # type: ignore[arg-type]
        EVENTS[event](log)
        assert shown(capsys).startswith(f"[Patcher] {action.upper()}: ")
    log.configure(**{event: "silent"})  # type: ignore[arg-type]
    EVENTS[event](log)
    assert shown(capsys) == ""


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("rank", [0, 2])
def test_an_action_can_be_the_end_of_every_rank(
    log: PatcherLogger, capsys: pytest.CaptureFixture[str], event: str, rank: int
) -> None:
    log.set_rank(rank).configure(**{event: "exit"})  # type: ignore[arg-type]
    with pytest.raises(SystemExit) as end:
        EVENTS[event](log)
    assert end.value.code == 1
    assert shown(capsys).startswith("[Patcher] ERROR: rank 2: " if rank else "[Patcher] ERROR: ")


@pytest.mark.parametrize(("action", "raised"), [("exception", PatchError), ("exit", SystemExit)])
def test_a_failure_that_ends_it_does_not_wait_for_the_summary(action: Any, raised: type[BaseException]) -> None:
    with pytest.raises(raised) as error:
        PatcherLogger().set_rank(2).configure(on_fail=action).failed("x")
    assert str(error.value) == ("rank 2: Failed: x" if action == "exception" else "1")


def test_an_unknown_action_is_refused_and_changes_nothing(
    log: PatcherLogger, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError) as error:
        log.configure(on_apply="silent", on_fail="warn")  # type: ignore[arg-type]
    assert str(error.value) == (
        "on_fail='warn' is not an action; did you mean 'warning'?; "
        "expected one of debug, info, warning, error, exception, exit, silent"
    )
    log.applied("x")
    assert shown(capsys) == "[Patcher] INFO: Applied: x\n"


# --- the summary ----------------------------------------------------------------------------------------------------


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "installed_version", {"mmcv": "2.1.0", "other": "9"}.get)


@pytest.fixture
def kept(versions: None) -> PatcherLogger:
    """A logger with something of every kind for the summary."""
    log = PatcherLogger()
    log.add_skipped_module("flash_attn")
    log.add_injected_import("mmcv.runner.Hook")
    log.add_replaced_import("a -> b")
    log.applied("loose")
    log.applied("mmcv.ops.msda.forward", package="mmcv", patch_name="msda")
    log.applied("mmcv.ops.msda.backward", package="mmcv", patch_name="msda", reason="on import of mmcv.ops")
    log.applied("mmcv.ops.dc", package="mmcv", patch_name="dc")
    log.skipped("mmdet.x", "not installed", package="mmdet", patch_name="resnet", extra_info="3.3")
    log.failed("mmcv.y", "precheck error: boom", package="mmcv", patch_name="dc")
    return log


LINE, THIN = "=" * 78, "-" * 78
IMPORTS = [
    "  Skipped Modules:",
    "    - flash_attn",
    THIN,
    "  Injected Imports:",
    "    + mmcv.runner.Hook",
    THIN,
    "  Replaced Imports:",
    "    * a -> b",
]
APPLIED = [
    "  Applied Patches:",
    "    [mmcv] (2.1.0)",
    "      dc:",
    "        + mmcv.ops.dc",
    "      msda:",
    "        + mmcv.ops.msda.forward",
    "        + mmcv.ops.msda.backward (on import of mmcv.ops)",
    "    [other]",
    "      unknown:",
    "        + loose",
]
SKIPPED = ["  Skipped Patches:", "    [mmdet] (3.3)", "      resnet:", "        ~ mmdet.x (not installed)"]
FAILED = [
    "  Failed Patches:",
    "    [mmcv] (2.1.0)",
    "      dc:",
    "        ! mmcv.y (precheck error: boom)",
]


def framed(*sections: list[str]) -> str:
    lines = ["", LINE, "=== MX-DRIVING PATCHER SUMMARY ===", LINE]
    for section in sections:
        lines += [*section, THIN]
    return "\n".join([*lines[:-1], LINE, "", ""])


@pytest.mark.parametrize(
    ("configuration", "sections"),
    [
        ({"show_applied": False}, (IMPORTS, SKIPPED, FAILED)),
        ({"show_import_events": False}, (APPLIED, SKIPPED, FAILED)),
        ({"on_apply": "silent"}, (IMPORTS, SKIPPED, FAILED)),
        ({"on_fail": "silent"}, (IMPORTS, APPLIED, SKIPPED)),
        ({"on_apply": "silent", "show_applied": True}, (IMPORTS, APPLIED, SKIPPED, FAILED)),
    ],
    ids=lambda value: "-and-".join(value) if isinstance(value, dict) else str(len(value)),
)
def test_sections_are_shown_unless_switched_off_or_silent(
    kept: PatcherLogger, capsys: pytest.CaptureFixture[str], configuration: dict[str, Any], sections: Any
) -> None:
    actions = {name: value for name, value in configuration.items() if name.startswith("on_")}
    kept.configure(**actions).configure_summary(
        **{name: value for name, value in configuration.items() if name not in actions}
    )
    kept.flush_summary()
    assert shown(capsys) == "[Patcher] INFO: " + framed(*sections)


@pytest.mark.parametrize(
    "configuration",
    [
        {"enabled": False},
        {"level": logging.DEBUG},
        {"show_applied": False, "show_skipped": False, "show_failed": False, "show_import_events": False},
    ],
    ids="-".join,
)
def test_a_summary_that_is_not_wanted_is_forgotten(
    kept: PatcherLogger, capsys: pytest.CaptureFixture[str], configuration: Any
) -> None:
    assert kept.configure_summary(**configuration) is kept
    kept.flush_summary()
    kept.configure_summary(enabled=True, level=logging.INFO, show_applied=True)
    kept.flush_summary()
    assert shown(capsys) == ""


# --- ranks ----------------------------------------------------------------------------------------------------------


def test_other_ranks_tell_only_what_went_wrong(log: PatcherLogger, capsys: pytest.CaptureFixture[str]) -> None:
    log.set_rank(3)
    log.applied("a")
    log.skipped("b")
    log.info("c")
    log.warning("d")
    log.debug("e")
    log.failed("f", "why")
    log.error("g")
    assert shown(capsys).splitlines() == ["[Patcher] WARNING: rank 3: Failed: f (why)", "[Patcher] WARNING: rank 3: g"]


def test_other_ranks_log_the_failures_of_a_summary(kept: PatcherLogger, capsys: pytest.CaptureFixture[str]) -> None:
    kept.set_rank(3).configure(on_fail="error")
    kept.flush_summary()
    kept.flush_summary()
    assert shown(capsys) == "[Patcher] ERROR: rank 3: Failed: mmcv.y (precheck error: boom)\n"


def test_a_rank_that_was_set_stays_until_the_environment_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log = PatcherLogger().set_rank(2)
    monkeypatch.setenv("RANK", "5")
    assert log.rank == 2
    assert log.set_rank_from_env().rank == 5
    monkeypatch.setenv("RANK", "6")
    assert log.rank == 6


# --- records --------------------------------------------------------------------------------------------------------


def test_records_have_the_defaults_of_the_api() -> None:
    assert EventPolicy() == ("log", logging.INFO)
    assert PatchInfo("t", "p", "n") == ("t", "p", "n", "", "")
    assert SummaryConfig() == (True, logging.INFO, None, None, None, True)


def test_a_result_says_what_became_of_a_patch() -> None:
    result = PatchResult(PatchStatus.SKIPPED, "mmcv.x", "mmcv")
    assert result == PatchResult(status=PatchStatus("skipped"), name="mmcv.x", module="mmcv", reason=None)
    assert [status.value for status in PatchStatus] == ["applied", "skipped", "failed"]
