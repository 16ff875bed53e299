"""``patchcore run --markers`` and ``patchcore markers summary``: traces of whole programs, and what they sum up to."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from launching import PYTHON, RUN, Workplace, two_at_a_time

torch = pytest.importorskip("torch")
pytest.importorskip("torch_markers")

import torch_markers as markers  # noqa: E402
from patchcore.cli import main  # noqa: E402
from torch_markers.options import MarkerOptions, from_environment  # noqa: E402
from torch_markers.reading import TraceError, events  # noqa: E402
from torch_markers.summary import Summary  # noqa: E402

TRAIN = """
import torch
from torch.utils.data import DataLoader
import torch_markers as markers

def main():
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for data in DataLoader([torch.ones(3)] * 8, batch_size=2, num_workers=1):
        optimizer.zero_grad()
        with markers.range("whole step"):
            model(data).sum().backward()
        optimizer.step()
    print("trained")

if __name__ == "__main__":
    main()
"""


def traces(place: Workplace, folder: str) -> list[Path]:
    return sorted(place.folder.joinpath(folder).rglob("*.json"))


def test_every_way_to_ask_for_markers(tmp_path: Path) -> None:
    place = Workplace(tmp_path, {"train.py": TRAIN}, plugins="torch_markers")
    place.write({"by_file/train.py": TRAIN})
    place.write(
        {
            "by_file/pyproject.toml": '[tool.patchcore]\nenable = ["markers"]\ndisable = ["*"]\n'
            '[tool.patchcore.options."torch.markers"]\nbackend = "trace"\nlevel = "modules"\ndirectory = "by file"\n'
        }
    )
    options = ("--markers", "trace", "--markers-directory", "by option", "--markers-no-stacks")
    profiled = ("--profile", "records", "--profile-skip-first", "1", "--markers", "record_function")
    jobs = two_at_a_time(
        {
            "option": lambda: place.run(*RUN, *options, "train.py"),
            "profile": lambda: place.run(*RUN, *profiled, "train.py"),
            "file": lambda: place.run(*RUN, "by_file/train.py"),
            "variable": lambda: place.run(
                *RUN, "train.py", PATCHCORE_MARKERS="trace", PATCHCORE_MARKERS_DIRECTORY="by variable"
            ),
        }
    )
    assert {job.out for job in jobs.values()} == {"trained\n"}
    assert [line for line in jobs["option"].ours if "markers written to" in line]

    by_option = [json.loads(path.read_text())["traceEvents"] for path in traces(place, "by option")]
    assert len(by_option) == 2, "the program, and its worker, have a file each"
    said = [event["args"] for event in max(by_option, key=len)]
    assert {"op": "whole step"} in said
    assert not [one for one in said if "traceMarker" in one]
    assert {one["name"] for one in said if "strRepr" in one} == {"Sequential", "0", "1"}
    assert any(one.get("dir") == "bwd" for one in said)

    (profile,) = traces(place, "records")
    found = [markers.parse(event["name"]) for event in json.loads(profile.read_text())["traceEvents"]]
    assert [one["op"] for one in found if one and "op" in one].count("whole step") == 1

    by_variable = max((json.loads(path.read_text())["traceEvents"] for path in traces(place, "by variable")), key=len)
    assert {event["name"] for event in by_variable} > {"linear", "0 (backward)"}
    assert len(traces(place, "by_file/by file") + traces(place, "by file")) == 1


def test_without_asking_nothing_is_marked(tmp_path: Path) -> None:
    place = Workplace(
        tmp_path, {"quiet.py": "import torch; print(torch._C._len_torch_function_stack())"}, "torch_markers"
    )
    assert place.run(*RUN, "quiet.py").out == "0\n"
    assert place.run(*RUN, "--markers", "itt", "quiet.py").out == "1\n"


def test_a_misspelt_backend_starts_nothing(tmp_path: Path) -> None:
    place = Workplace(tmp_path, {"train.py": "print('ran')"}, plugins="torch_markers")
    job = place.run(*PYTHON, "-m", "patchcore", "run", "--markers", "nvxt", "train.py", code=2)
    assert "nvxt" in job.err
    assert job.out == ""


class TestOptions:
    def test_variables_are_options(self) -> None:
        environ = {"PATCHCORE_MARKERS": "itt", "PATCHCORE_MARKERS_STACKS": "off", "PATCHCORE_MARKERS_LEVEL": ""}
        options = MarkerOptions.of(from_environment(environ))
        assert options == MarkerOptions(backend="itt", stacks=False)


def trace(*ranges: tuple[float, float, dict[str, Any]], thread: int = 1) -> list[dict[str, Any]]:
    return [
        {"ph": "X", "cat": "patchcore.marker", "pid": 1, "tid": thread, "ts": start, "dur": end - start, "args": said}
        for start, end, said in ranges
    ]


MODEL = {"name": "Net", "mod": "m.Net", "strRepr": "Net()", "traceMarker": ["a.py:1"]}
LAYER = {"name": "first", "mod": "m.Linear", "strRepr": "Linear()", "traceMarker": ["a.py:1", "b.py:5"]}
LINEAR = {"op": "linear", "mod": "torch.nn.functional", "traceMarker": ["a.py:1", "b.py:7"]}


class TestSummary:
    def test_self_is_total_without_what_is_inside(self) -> None:
        summary = Summary()
        summary.add(trace((0, 100, MODEL), (10, 40, LAYER), (20, 30, LINEAR), (50, 80, LAYER)))
        assert [line[:5] for line in summary.lines("module")] == [
            ("first (Linear)", False, 2, 60.0, 60.0),
            ("Net (Net)", False, 1, 100.0, 40.0),
        ]
        assert summary.lines("op") == [("torch.nn.functional.linear", False, 1, 10.0, 10.0)]
        assert [(line.name, line.own) for line in summary.lines("site")] == [
            ("b.py:5", 50.0),
            ("a.py:1", 40.0),
            ("b.py:7", 10.0),
        ]

    def test_a_call_inside_of_itself_is_counted_once_in_total(self) -> None:
        summary = Summary()
        summary.add(trace((0, 100, LAYER), (10, 40, LAYER)))
        assert summary.lines("module") == [("first (Linear)", False, 2, 100.0, 100.0)]

    def test_forward_and_backward_and_threads_are_apart(self) -> None:
        summary = Summary()
        summary.add([*trace((0, 10, LAYER), (20, 50, {"dir": "bwd", **LAYER})), *trace((5, 25, LAYER), thread=2)])
        assert [(line.backward, line.calls, line.own) for line in summary.lines("module")] == [
            (False, 2, 30.0),
            (True, 1, 30.0),
        ]
        assert [line.backward for line in summary.lines("module", "calls")] == [False, True]

    def test_a_profilers_names_are_read(self, tmp_path: Path) -> None:
        with markers.start("record_function"), torch.profiler.profile() as profile:
            torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
        path = tmp_path / "trace.json.gz"
        profile.export_chrome_trace(str(path))
        summary = Summary()
        summary.add(events(str(path)))
        assert {(line.name, line.backward) for line in summary.lines("module")} == {
            ("Linear (Linear)", False),
            ("Linear (Linear)", True),
        }
        assert {"torch.nn.functional.linear", "torch.Tensor.sum", "torch.autograd.backward"} <= {
            line.name for line in summary.lines("op")
        }
        site = summary.lines("site")[0].name
        assert site.startswith(f"{__file__}:")


class TestReading:
    def test_an_event_longer_than_what_is_read_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("torch_markers.reading._CHUNK", 7)
        content = [{"name": "a" * 100, "n": [1, {"b": 2}]}, {"name": "\u20ac"}, {}]
        path = tmp_path / "t.json"
        for text in (json.dumps({"x": 1, "traceEvents": content, "after": 2}), json.dumps(content)):
            path.write_text(text)
            assert list(events(str(path))) == content
            path.write_bytes(gzip.compress(text.encode()))
            assert list(events(str(path))) == content

    def test_what_was_cut_off_gives_what_is_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "t.json"
        path.write_text(json.dumps({"traceEvents": [{"a": 1}, {"b": 2}]})[:-6])
        assert list(events(str(path))) == [{"a": 1}]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("not a trace", "is no chrome trace"),
            ('{"other": []}', "is no chrome trace"),
            ('{"traceEvents": [{"name": "a"b"}, {"name": "c"}, {}]}', r"is no valid JSON at character 17"),
        ],
    )
    def test_what_is_no_trace_is_an_error_with_its_place(self, content: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "t.json"
        path.write_text(content)
        with pytest.raises(TraceError, match=message):
            list(events(str(path)))


class TestCommand:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "t.json"
        path.write_text(json.dumps({"traceEvents": trace((0, 100, MODEL), (10, 40, LAYER), (20, 30, LINEAR))}))
        return path

    def test_tables(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["markers", "summary", str(path), "--top", "1"]) == 0
        out = capsys.readouterr().out.splitlines()
        assert out[0] == "time per module, 1 of 2"
        assert out[2].split() == ["0.070", "ms", "0.100", "ms", "1", "forward", "Net", "(Net)"]
        assert out[-1] == "3 markers among 3 events of 1 file"

    def test_json_and_sorting(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["--format", "json", "--by", "site", "--sort", "total"]
        assert main(["markers", "summary", str(path.parent), *arguments]) == 0
        content = json.loads(capsys.readouterr().out)
        assert [line["name"] for line in content["site"]] == ["a.py:1", "b.py:5", "b.py:7"]
        assert content["site"][0] == {"name": "a.py:1", "pass": "forward", "calls": 1, "total_us": 100, "self_us": 70}
        assert "op" not in content

    def test_no_marker_is_a_finding(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        tmp_path.joinpath("t.json").write_text('{"traceEvents": [{"ph": "X", "name": "aten::add", "ts": 1, "dur": 1}]}')
        assert main(["markers", "summary", str(tmp_path)]) == 1
        assert "no marker among 1 event;" in capsys.readouterr().err

    def test_a_missing_file_is_an_error(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["markers", "summary", str(tmp_path / "no.json")]) == 1
        assert "no.json cannot be read" in capsys.readouterr().err


def test_apex_is_marked_as_it_is_imported_and_restored(make_package: Any) -> None:
    make_package(
        {
            "apex": "",
            "apex.optimizers": "from .fused import FusedAdam",
            "apex.optimizers.fused": """
                import amp_C

                class FusedAdam:
                    def step(self):
                        return amp_C.adam(2)
            """,
            "amp_C": "def adam(factor):\n    return factor * 2\n",
        }
    )
    assert not [name for name in sys.modules if name.startswith("apex")]
    ranges: list[Any] = []

    class Log(ModuleType):
        idle = None

        def open(self, text: str) -> None:
            ranges.append(markers.parse(text))

        def close(self, token: Any) -> None: ...

        def finish(self) -> None: ...

    from torch_markers import backends

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(backends._MAKERS, "nvtx", lambda: Log("log"))
        with markers.start("nvtx", stacks=False):
            import amp_C  # type: ignore[import-not-found]
            from apex.optimizers import FusedAdam  # type: ignore[import-not-found]

            assert FusedAdam().step() == 4
            marked = FusedAdam.step, amp_C.adam
    assert [(said["mod"], said["op"]) for said in ranges] == [
        ("apex.optimizers.fused.FusedAdam", "step"),
        ("amp_C", "adam"),
    ]
    assert ranges[1]["args"] == [{"name": "factor", "type": "int", "value": 2}]
    assert FusedAdam.step is not marked[0]
    assert amp_C.adam is not marked[1]
