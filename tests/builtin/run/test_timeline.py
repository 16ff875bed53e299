"""timeline.py: what happened when in a process, cheaply and in bounds."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest

import patchcore as pc
from patchcore.builtin.run import timeline
from patchcore.builtin.run.timeline import TIMELINE, Timeline, process_start


def new() -> None: ...


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that returns what has been noted since the test began, without its times."""
    first = len(TIMELINE._events)
    monkeypatch.setattr(TIMELINE, "_limit", first + 100)
    return lambda: [(event.kind, event.subject) for event in TIMELINE._events[first:]]


def test_times_are_seconds_since_the_process_started() -> None:
    before = time.time()
    kept = Timeline()
    kept.note("import", "shop", since=time.perf_counter() - 0.25)
    kept.note("applied", "shop.price", "why")
    view = kept.view()
    assert view["started"] == pytest.approx(process_start(), abs=0.05)
    imported, applied = view["events"]
    assert view["started"] + applied["at"] == pytest.approx(before, abs=5)
    assert imported["took"] == pytest.approx(0.25, abs=0.2)
    assert imported["at"] + imported["took"] == pytest.approx(applied["at"], abs=1)
    assert (applied["kind"], applied["subject"], applied["detail"]) == ("applied", "shop.price", "why")
    assert applied["took"] is None
    json.dumps(view)


def test_it_is_bounded() -> None:
    kept = Timeline(limit=3)
    for number in range(5):
        kept.note("applied", str(number))
    view = kept.view()
    assert [event["subject"] for event in view["events"]] == ["0", "1", "2"]
    assert view["left_out"] == 2


def test_statuses_of_patches_that_are_not_wanted_are_left_out_and_nothing_else() -> None:
    kept = Timeline()
    for kind, subject in (("applied", "a"), ("failed", "b"), ("import", "b"), ("reverted", "a"), ("awake", "")):
        kept.note(kind, subject)
    assert [(e["kind"], e["subject"]) for e in kept.view({"a"})["events"]] == [
        ("applied", "a"),
        ("import", "b"),
        ("reverted", "a"),
        ("awake", ""),
    ]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells when a process started")
def test_a_process_started_before_its_first_line() -> None:
    start = "from patchcore.builtin.run.timeline import process_start"
    code = f"import time; now = time.time(); {start}; print(now - process_start())"
    before = time.time()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert -0.02 <= float(done.stdout) <= time.time() - before + 0.02  # a clock tick is 10 ms


def test_where_the_system_does_not_tell_it_is_when_patchcore_was_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    assert process_start() == timeline._LOADED


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_begins_anew() -> None:
    code = """
import os, time
from patchcore.builtin.run.timeline import TIMELINE
TIMELINE.note("applied", "of the parent")
time.sleep(0.1)
if os.fork():
    os.wait()
else:
    (event,) = TIMELINE.view()["events"]
    print(event["kind"], event["detail"] == f"from process {os.getppid()}", event["at"] < 0.1, flush=True)
    os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "forked True True\n"


# --- who notes -----------------------------------------------------------------------------------------------------


def test_imports_that_patches_wait_for_and_what_became_of_the_patches(make_package: Any, noted: Any) -> None:
    make_package({"shop": "import shelf, other\ndef price(): pass", "shelf": "def label(): pass", "other": ""})
    price = pc.Patch("shop.price", [pc.Replace("shop:price", new)])
    label = pc.Patch("shop.label", [pc.Replace("shelf:labels", id)])
    with pc.Patcher([price, label]):
        importlib.import_module("shop")
    assert noted() == [
        ("import", "shelf"),
        ("failed", "shop.label"),
        ("import", "shop"),
        ("applied", "shop.price"),
        ("reverted", "shop.price"),
    ]
    failed = next(event for event in TIMELINE._events[-5:] if event.kind == "failed")
    assert "did you mean 'label'?" in failed.detail


def test_an_import_that_fails(make_package: Any, noted: Any) -> None:
    make_package({"shop": "1 / 0"})
    with pc.Patcher([pc.Patch("shop.price", [pc.Replace("shop:price", new)])]):
        with pytest.raises(ZeroDivisionError):
            importlib.import_module("shop")
    assert noted() == [("import", "shop"), ("reverted", "shop.price")]
    assert TIMELINE._events[-2].detail == "raised ZeroDivisionError"
