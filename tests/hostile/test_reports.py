"""Files that are no reports, reports with fields that cannot be, and environment variables that are no numbers."""

from __future__ import annotations

import contextlib
import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, NamedTuple, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_runs import NASTY, a_report
from reports import PRICE, Reports, patcher
from turns import in_turn

import patchcore as pc
from patchcore import process
from patchcore.builtin.drift.lockfile import read_lock
from patchcore.builtin.drift.recorded import Recorded
from patchcore.builtin.report import report_file
from patchcore.builtin.report.merge import findings
from patchcore.builtin.report.reading import read_reports
from patchcore.builtin.run.session import Session
from patchcore.cli import main
from patchcore.process import describe_process, parse_decimal, process_rank, rank_variable
from patchcore.settings import Settings
from patchcore_torch.ranks.agreement import Comparison

#: A way from the root of a report to one of its values.
Route = tuple[Union[str, int], ...]


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


@pytest.fixture
def report(reports: Reports, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Result]:
    """Return a function that runs ``patchcore report`` on the folder of ``reports``."""

    def run(*arguments: str, folder: Path = reports.folder) -> Result:
        capsys.readouterr()
        try:
            code = main(["report", str(folder), *arguments])
        except SystemExit as exit:
            code = int(exit.code or 0)
        return Result(code, *capsys.readouterr())

    return run


#: The three views of a report directory.
VIEWS = ((), ("--format", "json"), ("--html",))


def whole(content: dict[str, Any]) -> dict[str, Any]:
    """Return a report in which every list and table has something in it, so that every field can be changed."""
    content = copy.deepcopy(content)
    change = content["patches"][0]["changes"][0]
    change.update(calls=3, replaced=1, rebound=["a:b"], kept=["c:d"], unreachable=["e:f"], slots=["shop:price", "g:h"])
    content["patches"][0]["remarks"] = ["drift"]
    problem = {"plugin": "shop", "where": "load", "distribution": "shop-npu", "version": "1.0"}
    content["problems"] = [{**problem, "message": "no cash", "traceback": "Traceback"}]
    content["notes"] = ["a note"]
    rows = [{"file": "train.py", "line": line, "what": "cuda", "count": 2} for line in (3, 4)]
    content["sections"] = [{"title": "sites", "lines": ["a line"], "mark": "emulated", "data": rows}]
    content["manifest"]["patches"]["shop.price"]["options"] = {"groups": "4"}
    content["settings"] = [{"name": "disable", "value": "x", "origin": "--disable"}]
    content["arguments"] = ["--disable", "x"]
    content["timeline"]["events"] = [
        {"at": 0.5, "took": 0.2, "kind": "import", "subject": "shop", "detail": "d"},
        {"at": 0.9, "took": None, "kind": "applied", "subject": "shop.price", "detail": ""},
        {"at": 1.9, "took": 0.1, "kind": "awake", "subject": "", "detail": ""},
    ]
    return content


def routes(value: Any, way: Route = ()) -> Iterator[Route]:
    """Yield the ways to all values of a report, the report itself first."""
    yield way
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from routes(inner, (*way, name))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from routes(inner, (*way, position))


def changed(content: Any, way: Route, value: Any) -> Any:
    """Return a copy of a report with another value at one place."""
    if not way:
        return value
    content = copy.deepcopy(content)
    holder = content
    for step in way[:-1]:
        holder = holder[step]
    holder[way[-1]] = value
    return content


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


#: What may stand where something else is expected. Python writes and reads numbers that JSON does not have.
ODD: list[Any] = [
    None,
    True,
    -1,
    10**9,
    10**30,
    float("nan"),
    "",
    "\ud800",
    "\x1b[31m\x00\n\u202e",
    [],
    {},
    [None],
    [{"file": "a", "line": "3-4"}, {"file": "a", "line": 2}, {"file": None}],
    nested(300),
]

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.sampled_from(["applied", "failed", "rank", "launcher", "import", "wrap a:b", NASTY]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


class TestFields:
    """Whatever a field of a report says, the three views end as commands end, and say which field it is."""

    @pytest.fixture
    def sound(self, reports: Reports) -> dict[str, Any]:
        return whole(a_report(reports))

    def test_each_field_with_each_odd_value(
        self, reports: Reports, sound: dict[str, Any], report: Callable[..., Result]
    ) -> None:
        path = reports.folder / "report-1-8-000000.json"
        odd = in_turn([(way, value) for way in routes(sound) for value in ODD])
        assert len(odd) > 500
        taken = 0
        for way, value in odd:
            path.write_text(json.dumps(changed(sound, way, value)))
            try:
                report_file.read_report(path)
            except report_file.Malformed:  # all of these are one finding; the tests below look at it
                continue
            taken += 1
            result = report(*VIEWS[taken % 3])
            assert result.code in (0, 1, 2), (way, value, result.text)
        assert taken > 100

    def test_nothing_that_a_terminal_obeys_is_printed(
        self, reports: Reports, sound: dict[str, Any], report: Callable[..., Result]
    ) -> None:
        """Whoever may write to the directory could else write to the terminal of whoever reads the report."""
        nasty = "\x1b]0;title\x07\x1b[2J\r\x9b31m\u202e"
        content = sound
        for way in routes(sound):
            value = content
            for step in way:
                value = value[step]
            fixed = way[-1:] in (("role",), ("status",)) or way[:1] == ("manifest",)
            if isinstance(value, str) and not fixed:
                content = changed(content, way, f"{value} {nasty}")
        other = {**content, "environment": {**content["environment"], "rank": 1, "pid": 9}, "digest": nasty}
        path = reports.folder / f"report-{nasty}.json"
        for text in (json.dumps(other), "{}"):
            (reports.folder / "report-0-7-000000.json").write_text(json.dumps(content))
            path.write_text(text)
            (reports.folder / "report-2.json").write_text(json.dumps({**content, "run": "later", "written": 4e9}))
            for arguments in (*VIEWS, ("--run", content["run"]), ("--run", "nosuch"), ("--all",)):
                result = report(*arguments)
                assert result.code in (1, 2)
                seen = result.text.replace("\n", "")
                assert seen.isprintable(), [character for character in seen if not character.isprintable()]
        for other_report in reports.folder.glob("report-?*.json"):
            other_report.write_text("{}")
        assert report().err.replace("\n", "").isprintable()

    def test_json_is_json_whatever_reports_say(
        self, reports: Reports, sound: dict[str, Any], report: Callable[..., Result]
    ) -> None:
        (reports.folder / "report-0-7-000000.json").write_text(json.dumps(sound))
        content = changed(sound, ("sections", 0, "data"), float("nan"))
        (reports.folder / "report-1-8-000000.json").write_text(json.dumps(content))

        def refuse(name: str) -> None:
            raise AssertionError(name)

        found = json.loads(report("--format", "json").out, parse_constant=refuse)["findings"]
        assert [finding["kind"] for finding in found] == ["unreadable", "plugin"]

    @pytest.mark.parametrize(
        ("way", "value", "message"),
        [
            (("environment", "rank"), "x", "Expected `int`, got `str` - at `$.environment.rank`"),
            (("environment", "rank"), 2**31 - 1, "Expected `int` <= 2147483646 - at `$.environment.rank`"),
            (("written",), -1, "Expected `float` >= 0.0 - at `$.written`"),
            (("role",), "boss", "Invalid enum value 'boss' - at `$.role`"),
            (("patches", 1, "status"), "a\x1bb", "Invalid enum value 'a\\x1bb' - at `$.patches[1].status`"),
            (("patches", 0, "changes", 0, "calls"), -3, "Expected `int` >= 0 - at `$.patches[0].changes[0].calls`"),
            (("sections", 0, "data"), nested(300), "lists and tables are nested too deeply"),
            (("sections", 0, "data"), 10**30, "a section has a number that is not between -2**63 and 2**63"),
        ],
        ids=str,
    )
    def test_the_finding_names_file_and_field(
        self,
        reports: Reports,
        sound: dict[str, Any],
        report: Callable[..., Result],
        way: Route,
        value: Any,
        message: str,
    ) -> None:
        (reports.folder / "report-0-7-000000.json").write_text(json.dumps(sound))
        path = reports.folder / "report-1-8-000000.json"
        path.write_text(json.dumps(changed(sound, way, value)))
        finding, _ = json.loads(report("--format", "json").out)["findings"]
        assert (finding["kind"], finding["subject"]) == ("unreadable", path.name)
        assert message in finding["message"]
        assert finding["message"].endswith("; the report is left out")
        assert finding["message"].isprintable()
        assert report("--html").code == 1
        assert path.name in report().out
        page = (reports.folder / "report.html").read_text(encoding="utf-8")
        assert path.name in page.replace("<wbr>", "")  # where a long name may be broken

    def test_a_report_with_more_than_expected_is_read(
        self, reports: Reports, sound: dict[str, Any], report: Callable[..., Result]
    ) -> None:
        """Keys are added without a new schema version."""
        (reports.folder / "report-0-7-000000.json").write_text(json.dumps(sound))
        added = {"new": [1, {"a": None}], "environment": {**sound["environment"], "rank": 1, "gpu": None}}
        content = changed({**sound, **added}, ("manifest", "patches", "shop.price", "new"), "key")
        content["digest"] = "other"
        (reports.folder / "report-1-8-000000.json").write_text(json.dumps(content))
        for view in VIEWS:
            report(*view)
        found = findings(*read_reports(reports.folder))
        assert [(finding.kind, finding.message.partition(";")[0]) for finding in found] == [
            ("plugin", "load: no cash"),
        ]


class TestFiles:
    """Only regular files of a sane size are read; all else that has the name of a report is a finding."""

    NAME = "report-1-9-ffffff.json"

    def unreadable(self, reports: Reports, report: Callable[..., Result]) -> str:
        """Return what is said about the file with the odd content, beside a sound one."""
        reports.write(patcher(PRICE))
        message = ""
        for view in VIEWS:
            result = report(*view)
            assert (result.code, result.err) == (1, "")
            if view == ("--format", "json"):
                (finding,) = json.loads(result.out)["findings"]
                assert (finding["kind"], finding["subject"]) == ("unreadable", self.NAME)
                message = finding["message"]
        return message

    def path(self, reports: Reports) -> Path:
        reports.folder.mkdir(exist_ok=True)
        return reports.folder / self.NAME

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes in folders")
    @pytest.mark.parametrize("link", [False, True], ids=["itself", "by a link"])
    def test_a_named_pipe(self, reports: Reports, report: Callable[..., Result], link: bool) -> None:
        path = self.path(reports)
        pipe = path.with_name("pipe") if link else path
        os.mkfifo(pipe)
        if link:
            path.symlink_to(pipe)
        assert "is not a regular file" in self.unreadable(reports, report)

    @pytest.mark.skipif(os.name == "nt", reason="devices are no files there")
    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
    def test_a_link_to_a_device(self, reports: Reports, report: Callable[..., Result], device: str) -> None:
        if not os.path.exists(device):
            pytest.skip(f"there is no {device}")
        self.path(reports).symlink_to(device)
        assert "is not a regular file" in self.unreadable(reports, report)

    def test_a_folder(self, reports: Reports, report: Callable[..., Result]) -> None:
        self.path(reports).mkdir()
        assert "is not a regular file" in self.unreadable(reports, report)

    @pytest.mark.parametrize("target", ["nowhere", NAME], ids=["nowhere", "itself"])
    def test_a_link_that_leads_nowhere(self, reports: Reports, report: Callable[..., Result], target: str) -> None:
        self.path(reports).symlink_to(target)
        assert "cannot be read: " in self.unreadable(reports, report)

    def test_a_link_to_a_report_is_a_report(self, reports: Reports, report: Callable[..., Result]) -> None:
        written = reports.write(patcher(PRICE))
        elsewhere = written.rename(written.with_name("moved"))
        written.symlink_to(elsewhere)
        assert report().code == 0

    def test_a_file_that_may_not_be_read(
        self, reports: Reports, report: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = self.path(reports)
        path.write_text("{}")
        open_ = os.open

        def refuse(name: Any, *arguments: Any, **named: Any) -> int:  # root may read everything
            if os.fspath(name) == str(path):
                raise PermissionError(13, "Permission denied")
            return open_(name, *arguments, **named)

        monkeypatch.setattr(os, "open", refuse)
        assert "cannot be read: Permission denied" in self.unreadable(reports, report)

    def test_a_file_that_is_too_large(
        self, reports: Reports, report: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = self.path(reports)
        with path.open("wb") as file:
            file.truncate(report_file.LARGEST + 1)  # a hole, which takes no space
        assert "is larger than 256 MiB" in self.unreadable(reports, report)

    def test_a_file_that_has_more_in_it_than_it_says(
        self, reports: Reports, report: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Files of ``/proc`` have the size 0, and another process may write to a file while it is read."""
        path = self.path(reports)
        path.write_text(" " * 200_000)
        reports.write(patcher(PRICE))
        monkeypatch.setattr(report_file, "LARGEST", 100_000)
        monkeypatch.setattr(report_file, "_expect_regular", lambda status: None)
        assert "is larger than" in self.unreadable(reports, report)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"\xff\xfe", "UnicodeDecodeError"),
            (b"[" * 100_000, "too deep"),
            (b'{"schema_version": 1' + b"0" * 5000 + b"}", ""),
            (b'{"schema_version": NaN}', "NaN is not a JSON value"),
            (b'{"schema_version": true}', "Expected `int`, got `bool` - at `$.schema_version`"),
            (b'{"schema_version": 2}', "has schema_version 2, this patchcore reads 1"),
            (b"null", "Expected `object`, got `null`"),
            (b"\x00" * 1000, "JSONDecodeError"),
            (b'{"schema_version": 1}', "Object missing required field `run`"),
        ],
        ids=lambda value: repr(value[:25]) if isinstance(value, bytes) else "",
    )
    def test_a_file_that_is_no_report(
        self, reports: Reports, report: Callable[..., Result], content: bytes, message: str
    ) -> None:
        self.path(reports).write_bytes(content)
        assert message in self.unreadable(reports, report)

    def test_a_report_that_is_cut_off_anywhere(self, reports: Reports, report: Callable[..., Result]) -> None:
        content = reports.write(patcher(PRICE)).read_bytes()
        for length in range(0, len(content) - 1, 97):
            self.path(reports).write_bytes(content[:length])
            result = report()
            assert (result.code, result.err) == (1, "")
            assert self.NAME in result.out

    def test_nothing_that_can_be_read(self, reports: Reports, report: Callable[..., Result]) -> None:
        self.path(reports).write_text("{}")
        for view in VIEWS:
            result = report(*view)
            assert (result.code, result.out) == (2, "")
            assert f"none of the reports in {reports.folder} can be read:\n  {self.NAME}: " in result.err

    def test_a_directory_that_cannot_be_one(self, report: Callable[..., Result], tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        (tmp_path / "loop").symlink_to("loop")
        for folder in (tmp_path / "file", tmp_path / "file" / "in", tmp_path / "loop", tmp_path / ("x" * 5000)):
            for view in VIEWS:
                result = report(*view, folder=folder)
                assert (result.code, result.out) == (2, "")


class TestRanks:
    def test_a_thousand_million_ranks(self, reports: Reports, report: Callable[..., Result]) -> None:
        path = reports.write(patcher(PRICE), 3, role="rank")
        content = json.loads(path.read_text())
        content["environment"]["ranks"] = 10**9
        path.write_text(json.dumps(content))
        for view in VIEWS:
            assert report(*view).code == 1
        found = json.loads(report("--format", "json").out)["findings"]
        assert [finding["processes"] for finding in found] == [
            "rank 0",
            "rank 1",
            "rank 2",
            "each of ranks 4 to 999999999",
        ]

    def test_few_missing_ranks_are_named_one_by_one(self, reports: Reports) -> None:
        for rank in (0, 2, 9):
            path = reports.write(patcher(PRICE), rank, role="rank")
            content = json.loads(path.read_text())
            content["environment"]["ranks"] = 9
            path.write_text(json.dumps(content))
        missing = [
            finding.processes for finding in findings(*read_reports(reports.folder)) if finding.kind == "missing"
        ]
        assert missing == [f"rank {rank}" for rank in (1, 3, 4, 5, 6, 7, 8)]

    @given(st.sets(st.integers(0, 60)), st.integers(2, 50))
    def test_every_missing_rank_is_named_once(self, ranks: set[int], size: int) -> None:
        from patchcore.builtin.report.merge import _gaps

        named: list[int] = []
        for text in _gaps(ranks, size):
            numbers = [int(word) for word in text.split() if word.isdigit()]
            named += range(numbers[0], numbers[-1] + 1)
        assert named == [rank for rank in range(size) if rank not in ranks]


class TestAnswersOfOtherRanks:
    """Another rank may have another patchcore; nobody waits for it in vain, and both sides say it."""

    class Store(dict[str, str]):
        def set(self, key: str, value: str) -> None:
            self[key] = value

        def check(self, keys: Any) -> bool:
            return all(key in self for key in keys)

        def get(self, key: str, default: Any = None) -> Any:
            return self[key].encode()

    KEY = "patchcore/ranks"

    @settings(max_examples=50)
    @given(JSON.filter(lambda value: value is not None))
    def test_any_manifest_of_rank_0(self, presented: Any) -> None:
        offer = {"id": "a", "group": "a", "number": 1, "digest": "other", "host": ""}
        manifest = {"id": "a", "manifest": presented}
        store = self.Store({f"{self.KEY}/offer": json.dumps(offer), f"{self.KEY}/manifest": json.dumps(manifest)})
        own = {"patchcore": "1", "python": "3", "patches": {}, "libraries": {}, "files": {}}
        comparison = Comparison(store, 1, 2, own)
        comparison.run(0)
        store.set(
            f"{self.KEY}/confirmed/1", json.dumps({"to": json.loads(store[f"{self.KEY}/answer/1"])["id"], "time": 1})
        )
        assert comparison.run(0)
        (line,) = comparison.differences()
        assert line.startswith("rank 1 cannot be compared with rank 0: ")

    @pytest.mark.parametrize("differences", [{}, [1], [["a"]], "text", 3, None])
    def test_any_answer(self, differences: Any) -> None:
        store = self.Store()
        comparison = Comparison(store, 0, 2, {})
        answer = {"to": json.loads(store[f"{self.KEY}/offer"])["id"], "differences": differences}
        store.set(f"{self.KEY}/answer/1", json.dumps(answer))
        assert comparison.run(0)
        (line,) = comparison.differences()
        assert line.startswith("rank 1 cannot be compared with rank 0: its answer has no list of differences; install ")

    @settings(max_examples=50)
    @given(JSON)
    def test_any_offer(self, offer: Any) -> None:
        """An error is logged by the caller; nothing else is raised than what JSON of another version can cause."""
        store = self.Store({f"{self.KEY}/offer": json.dumps(offer)})
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            comparison = Comparison(store, 1, 2, {"patches": {}})
            assert not comparison.run(0)
            assert comparison.silent() == ["rank 0 sends no patches to compare; start every rank with patchcore run"]


class TestEnvironment:
    """Numbers in environment variables have the digits 0 to 9 and an end; others are said, and patches are applied."""

    ODD = (
        "²",
        "٣",
        "\N{FULLWIDTH DIGIT ONE}",
        "①",
        "1_0",
        " 1",
        "1 ",
        "+1",
        "-1",
        "1.0",
        "0x1",
        "1e3",
        "9" * 5000,
        str(2**31),
        "x",
        "\x1b[1m",
    )

    @pytest.mark.parametrize("text", ["0", "7", "007", "2147483646", "0" * 5000 + "1"])
    def test_numbers(self, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RANK", text)
        assert (rank_variable(), process_rank()) == ("RANK", int(text.lstrip("0") or "0"))

    @given(st.text(max_size=30), st.integers(0, 10**20))
    def test_a_number_is_what_int_says_it_is(self, text: str, most: int) -> None:
        number = parse_decimal(text, most)
        if number is None:
            try:
                assert not text.isascii() or not text.isdigit() or int(text) > most
            except ValueError:
                pass
        else:
            assert number == int(text) <= most

    @pytest.mark.parametrize("variable", ["RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"])
    @pytest.mark.parametrize("text", ODD, ids=ascii)
    def test_what_is_no_number_is_logged_once_and_ignored(
        self, variable: str, text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        for name in (*process.RANK_VARIABLES, *process.SIZE_VARIABLES):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(process, "_logged", set())
        monkeypatch.setenv(variable, text)
        for _ in range(3):
            facts = describe_process()
            assert (facts["rank"], facts["ranks"], rank_variable()) == (0, 1, None)
        (message,) = caplog.messages
        assert message.startswith(f"{variable}={text[:60]!r} is ignored; expected a whole number from 0 to ")
        assert message.isprintable()

    def test_the_next_variable_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in process.RANK_VARIABLES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("RANK", "²")
        monkeypatch.setenv("SLURM_PROCID", "3")
        assert (rank_variable(), process_rank()) == ("SLURM_PROCID", 3)


class TestOtherFiles:
    """What else is read from files and from the environment may be as deep as anybody likes."""

    DEEP = 100_000

    def test_settings(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text(f"[tool.patchcore]\nplugins = {'[' * self.DEEP}{']' * self.DEEP}\n")
        with pytest.raises(pc.SettingsError, match=r"pyproject\.toml cannot be read: "):
            Settings.load(start=tmp_path)

    def test_a_lock(self, tmp_path: Path) -> None:
        path = tmp_path / "patchcore.lock"
        path.write_text(f'{{"schema_version": 3, "patches": {"[" * self.DEEP}{"]" * self.DEEP}}}')
        with pytest.raises(
            pc.SettingsError, match=r"patchcore\.lock cannot be read: .*; write it anew: patchcore lock"
        ):
            read_lock(path)

    def test_fingerprints(self, tmp_path: Path) -> None:
        path = tmp_path / "fingerprints.json"
        path.write_text(f'{{"schema_version": 1, "libraries": {"[" * self.DEEP}')
        with pytest.raises(pc.PluginError, match=r"fingerprints\.json cannot be read"):
            Recorded.read(path)

    def test_a_session(self) -> None:
        with pytest.raises(pc.SettingsError, match="is not what patchcore run wrote"):
            Session.parse(f'{{"protocol": {"[" * self.DEEP}')
