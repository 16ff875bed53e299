"""The page of ``patchcore report --html``: what it tells, and that it is sound HTML whatever reports say."""

from __future__ import annotations

import base64
import copy
import hashlib
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Optional

import pytest
from page_runs import LABELS, SHOWN, a_report, large_run, member, nasty_run
from reports import PRICE, Reports, patcher

from patchcore import install_command
from patchcore.builtin.report.html import make_page
from patchcore.builtin.report.reading import Process
from patchcore.cli import main

VOID = ("meta", "link", "br", "img", "hr", "input", "wbr")


class Page(HTMLParser):
    """A page as an independent parser sees it; raises where tags are not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.tags: list[tuple[str, dict[str, Optional[str]]]] = []
        self.paths: dict[str, str] = {}  # by id: the text inside
        self._open: list[tuple[str, Optional[str]]] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
        attributes = dict(attrs)
        assert len(attributes) == len(attrs), f"an attribute twice in {attrs}"
        self.tags.append((tag, attributes))
        if tag not in VOID:
            self._open.append((tag, attributes.get("id")))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        opened, _ = self._open.pop()
        assert opened == tag, f"</{tag}> where <{opened}> is open"

    def handle_data(self, data: str) -> None:
        if any(tag in ("style", "script") for tag, _ in self._open):
            return
        self.text += data
        for _, anchor in self._open:
            if anchor is not None:
                self.paths[anchor] = self.paths.get(anchor, "") + data

    def all(self, tag: str) -> list[dict[str, Optional[str]]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def content(reports: Reports) -> dict[str, Any]:
    return a_report(reports)


def page_of(*processes: Process) -> Page:
    return Page(make_page(processes))


def on_ranks(content: dict[str, Any], *ranks: dict[str, Any]) -> Page:
    """Return the page of a run whose ranks have the same report, but for these keys."""
    return page_of(*(member(content, rank, "rank", 200 + rank, **view) for rank, view in enumerate(ranks)))


def changed(content: dict[str, Any], number: int = 0, **values: Any) -> list[dict[str, Any]]:
    """Return the patches of a report, one of them with other values."""
    patches: list[dict[str, Any]] = copy.deepcopy(content["patches"])
    patches[number].update(values)
    return patches


def counting(content: dict[str, Any], *calls: Optional[int], replaced: Optional[int] = None) -> list[dict[str, Any]]:
    """Return the patches of a report with the calls that were counted for the one change of each."""
    patches: list[dict[str, Any]] = copy.deepcopy(content["patches"])
    for patch, count in zip(patches, calls):
        patch["changes"][0].update(calls=count, replaced=replaced)
    return patches


# --- sound HTML ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["plain", "nasty", "large"])
def any_page(request: pytest.FixtureRequest, content: dict[str, Any]) -> str:
    run = {
        "plain": lambda: [Process(content)],
        "nasty": lambda: nasty_run(content),
        "large": lambda: large_run(content, ranks=9, workers=2, patches=60, sites=90),
    }
    return make_page(run[request.param]())


def test_ids_are_unique_and_links_lead_to_them(any_page: str) -> None:
    page = Page(any_page)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] or "" for attributes in page.all("a")]
    assert links
    assert {link[:1] for link in links} == {"#"}
    assert {link[1:] for link in links} <= set(ids)
    named = [attributes["aria-labelledby"] for _, attributes in page.tags if "aria-labelledby" in attributes]
    assert set(named) <= set(ids)


def test_nothing_is_loaded_and_no_script_runs_but_the_page_s_own(any_page: str) -> None:
    page = Page(any_page)
    assert page.all("script") == [{}]
    assert {tag for tag, _ in page.tags}.isdisjoint({"link", "img", "iframe", "object", "base", "form"})
    names = {name for _, attributes in page.tags for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in ("src", "srcset", "style", "action")}
    style = any_page.partition("<style>")[2].partition("</style>")[0]
    assert style
    assert "url(" not in style
    assert "@import" not in style
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    script = any_page.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_what_readers_and_their_tools_go_by(any_page: str) -> None:
    page = Page(any_page)
    assert any_page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert {"charset": "utf-8"} in page.all("meta")
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(attributes.get("scope") in ("row", "col") for attributes in page.all("th"))
    assert all(attributes.get("aria-label") or attributes.get("aria-hidden") for attributes in page.all("figure svg"))
    levels = [int(tag[1]) for tag, _ in page.tags if tag in ("h1", "h2", "h3", "h4")]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:]))


def test_the_same_reports_make_the_same_page(content: dict[str, Any]) -> None:
    run = large_run(content, ranks=3, workers=2, patches=20, sites=20)
    again = large_run(copy.deepcopy(content), ranks=3, workers=2, patches=20, sites=20)
    assert make_page(run) == make_page(again)


def test_every_text_of_a_report_is_shown_as_it_is(content: dict[str, Any]) -> None:
    page = page_of(*nasty_run(content))
    missing = [label for label in LABELS if f"{label} {SHOWN}" not in page.text]
    assert missing == []
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text


def test_a_page_can_be_written_whatever_bytes_names_are_made_of(content: dict[str, Any]) -> None:
    content["environment"]["directory"] = "/data/\udcff\x00"
    page = make_page([Process(content)])
    assert r"/data/\udcff\x00" in Page(page).text
    page.encode("utf-8")


def test_arguments_are_quoted_as_a_shell_needs_them(content: dict[str, Any]) -> None:
    content["arguments"] = ["--disable", "a b", "--"]
    assert "patchcore run --disable 'a b' --" in page_of(Process(content)).paths["options"]


def test_the_page_draws_the_timelines_of_the_first_200_processes(content: dict[str, Any]) -> None:
    run = large_run(content, ranks=203, workers=1, patches=2, sites=2)  # and the launcher
    page = page_of(*run)
    assert sum(tag == "figcaption" for tag, _ in page.tags) == 200
    assert "The timelines of 4 more processes are left out" in page.paths["timeline"]
    assert "left out" not in page_of(*large_run(content, ranks=199, workers=1, patches=2, sites=2)).paths["timeline"]


def test_a_large_run_makes_a_page_of_a_few_megabytes(content: dict[str, Any]) -> None:
    run = large_run(content)
    assert len(run) == 1 + 64 * 9
    assert len(make_page(run)) < 6_000_000


# --- the verdict ---------------------------------------------------------------------------------------------------


def test_a_run_without_findings(content: dict[str, Any]) -> None:
    page = on_ranks(content, {}, {})
    assert page.text.index("No findings") < page.text.index("Verdict")
    assert "2 processes, 2 ranks, on box" in page.text
    assert "All have the same manifest" in page.paths["processes"]


def test_a_process_that_an_exception_has_ended(content: dict[str, Any]) -> None:
    page = on_ranks(content, {}, {"error": "ValueError: no data"})
    assert "ended with ValueError: no data" in page.paths["verdict"]
    assert "error" in page.paths["processes"]


def test_a_failure_comes_first_with_its_reason_and_is_open(content: dict[str, Any]) -> None:
    content["patches"] = changed(content, 1, status="failed", reason="shop has no label; did you mean 'labels'?")
    page = on_ranks(content, {}, {"finished": False})
    assert "2 findings" in page.text
    verdict = page.paths["verdict"]
    assert verdict.index("failed") < verdict.index("did you mean 'labels'?") < verdict.index("unfinished")
    patches = page.paths["patches"]
    assert patches.index("shop.label") < patches.index("shop.price")
    number = [patch["name"] for patch in content["patches"]].index("shop.label") + 1
    (details,) = [attributes for attributes in page.all("details") if attributes.get("id") == f"patch-{number}"]
    assert "open" in details


def test_marks_are_in_the_head(content: dict[str, Any]) -> None:
    content["sections"] = [{"title": "npu", "lines": ["on the CPU"], "mark": "emulated NPU", "data": None}]
    page = page_of(Process(content))
    assert page.text.index("emulated NPU") < page.text.index("Verdict")


def test_the_traceback_of_a_plugin(content: dict[str, Any]) -> None:
    problem = {"plugin": "shop", "where": "load", "message": "no cash", "distribution": None, "version": None}
    content["problems"] = [{**problem, "traceback": "Traceback (most recent call last):\n  till"}]
    page = on_ranks(content, {}, {})
    assert page.paths["verdict"].count("  till") == 1


def test_without_counts_it_says_how_to_have_them(content: dict[str, Any]) -> None:
    verdict = page_of(Process(content)).paths["verdict"]
    assert "Calls were not counted in this run. patchcore run --count counts them." in verdict


def test_patches_that_were_never_hit(content: dict[str, Any]) -> None:
    page = on_ranks(content, {"patches": counting(content, 3, 0)}, {"patches": counting(content, 4, 0)})
    verdict = page.paths["verdict"]
    assert "shop.label" in verdict
    assert "shop.price" not in verdict
    assert "1 never hit" in page.text
    assert "7 hits" in page.paths["patches"]


def test_calls_that_the_predicate_left_to_the_original_are_no_hits(content: dict[str, Any]) -> None:
    page = on_ranks(content, {"patches": counting(content, 5, 5, replaced=0)})
    assert page.paths["verdict"].partition("Applied, but never called")[2].count("shop.") == 2
    assert "0 hits" in page.paths["patches"]


# --- processes and patches -----------------------------------------------------------------------------------------


def test_processes_that_are_alike_are_one_row(content: dict[str, Any]) -> None:
    page = page_of(*large_run(content, ranks=64, workers=8, patches=2, sites=2))
    rows = page.paths["processes"]
    assert "ranks 0\N{EN DASH}63" in rows
    assert "512 workers of ranks 0\N{EN DASH}63" in rows
    assert "Each of 577 processes" in rows


def test_a_status_that_ranks_do_not_share(content: dict[str, Any]) -> None:
    skipped = changed(content, 0, status="skipped", reason="needs mx_driving")
    page = on_ranks(content, {}, {}, {"patches": skipped})
    processes = page.paths["processes"]
    assert "applied on ranks 0\N{EN DASH}1" in processes
    assert "skipped on rank 2: needs mx_driving" in processes
    assert "ranks differ" in page.paths["patches"]


def test_drift_options_and_references(content: dict[str, Any]) -> None:
    content["patches"] = changed(content, 0, remarks=["shop:price: the body has changed"])
    content["patches"][0]["changes"][0]["rebound"] = ["till:price"]
    content["patches"][0]["changes"][0]["unreachable"] = ["till:sell, a default argument"]
    content["manifest"]["patches"]["shop.price"]["options"] = {"level": "2"}
    page = page_of(Process(content))
    assert "the body has changed" in page.paths["patch-1"]
    assert "level = 2" in page.paths["patch-1"]
    assert "till:price" in page.paths["references"]
    assert "till:sell, a default argument" in page.paths["references"]
    assert "level" in page.paths["options"]


# --- targets -------------------------------------------------------------------------------------------------------


def test_layers_from_the_outermost_to_the_original(content: dict[str, Any]) -> None:
    number = [target["target"] for target in content["layers"]].index("shop:price")
    outer = {**content["layers"][number]["layers"][0], "patch": "shop.audit", "kind": "wrap"}
    content["layers"][number]["layers"].insert(0, outer)
    page = page_of(Process(content))
    targets = page.paths["targets"]
    assert targets.index("Patched several times") < targets.index("shop:label")
    anchor = next(name for name in page.paths if name.startswith("target-") and "shop:price" in page.paths[name])
    stack = page.paths[anchor]
    assert stack.index("wrap") < stack.index("replace") < stack.index("original")
    assert "shop.audit" in stack
    assert "reports.py:" in stack
    assert "shop.py:1" in stack


def test_layers_that_differ_between_ranks(content: dict[str, Any]) -> None:
    other = copy.deepcopy(content["layers"])
    other[0]["layers"][0]["place"]["line"] = 4711
    page = on_ranks(content, {}, {}, {"layers": other})
    assert "On ranks 0\N{EN DASH}1:" in page.paths["targets"]
    assert "On rank 2:" in page.paths["targets"]


# --- the timeline --------------------------------------------------------------------------------------------------


def events(*entries: tuple[float, Optional[float], str, str]) -> dict[str, Any]:
    names = ("at", "took", "kind", "subject")
    return {
        "started": 1000.0,
        "events": [{**dict(zip(names, entry)), "detail": ""} for entry in entries],
        "left_out": 3,
    }


def test_imports_and_patches_on_the_timeline(content: dict[str, Any]) -> None:
    timeline = events((1.0, 0.5, "import", "shop"), (1.6, None, "applied", "shop.price"), (2.0, 0.1, "compared", ""))
    page = on_ranks(content, {"timeline": timeline, "written": 1010.0}, {"timeline": timeline, "written": 1010.0})
    shown = page.paths["timeline"]
    assert "1970-01-01 00:16:40 UTC" in shown
    assert "shop: 500 ms from 1.00 s on" in shown
    assert "applied shop.price" in shown
    assert "3 later events were not kept" in shown
    labels = [attributes.get("aria-label") for attributes in page.all("svg")]
    assert "rank 1, rank 201 on box: 1 import, 1 patch applied" in labels
    assert "Applied 1.60 s after the start of the process." in page.paths["patch-1"]


def test_the_axis_says_where_it_is_cut(content: dict[str, Any]) -> None:
    for event in content["timeline"]["events"]:
        event.update(at=0.1, took=None)
    for seconds, cut in ((0.2, False), (3600, True)):
        content["written"] = content["timeline"]["started"] + seconds
        timeline = page_of(Process(content)).paths["timeline"]
        assert ("The axis is cut in 1 place, where nothing happened: 60 min from 0 s on." in timeline) == cut
        assert ("The axis is cut" in timeline) == cut


def test_what_explains_a_patch_that_failed_can_be_copied(content: dict[str, Any]) -> None:
    name = content["patches"][0]["name"]
    failed = {**content, "patches": changed(content, status="failed", reason="no")}
    assert f'<code class="command">patchcore explain {name}</code>' in make_page([Process(failed)])
    assert 'class="command"' not in make_page([Process(content)])


def test_reports_without_timeline_and_layers(content: dict[str, Any]) -> None:
    for key in ("timeline", "layers", "settings", "arguments"):
        del content[key]
    page = page_of(Process(content))
    assert "The reports of this run have no timeline." in page.paths["timeline"]
    assert "shop.price" in page.paths["patches"]


# --- what plugins tell ---------------------------------------------------------------------------------------------


def told(data: Any, lines: Any = ("a line",)) -> dict[str, Any]:
    return {"sections": [{"title": "rewritten", "lines": list(lines), "mark": "", "data": data}]}


def site(**values: Any) -> dict[str, Any]:
    return {"group": "shop.price", "file": "/work/model.py", "line": 7, "before": "cuda", "count": 2, **values}


def test_lines_of_the_program_are_tables_of_their_files_with_counts_of_all_processes(content: dict[str, Any]) -> None:
    other = site(line=3, before="cuda:1", count=1)
    page = on_ranks(content, told([site()]), told([site(), other]))
    text = page.paths["told"]
    assert "2 lines; 5 in all" in text
    assert text.index("model.py:3shop.pricecuda:1rank 11") < text.index("model.py:7shop.pricecudaall processes4")
    assert "a line" not in text
    assert {"href": "#patch-1"} in page.all("a")
    assert "/work/" in [each.get("data-folder") for each in page.all("details")]


def test_a_line_of_the_program_is_one_row_however_many_processes_differ(content: dict[str, Any]) -> None:
    page = on_ranks(content, *(told([site(before=f"cuda:{rank}")]) for rank in range(6)))
    text = page.paths["told"]
    assert text.count("model.py:7") == 1
    assert "shop.pricecuda:0cuda:1cuda:2cuda:3and 2 moreall processes12" in text


@pytest.mark.parametrize("data", [None, [], ["a"], [{"a": [1]}], {"a": 1}, [{"count": "many"}]], ids=repr)
def test_all_other_data_is_told_by_its_lines(content: dict[str, Any], data: Any) -> None:
    assert "a line" in on_ranks(content, told(data), told(data)).paths["told"]


# --- the command ---------------------------------------------------------------------------------------------------


def test_the_command_writes_the_page_and_prints_its_path(
    reports: Reports, content: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports.write(patcher(PRICE))
    capsys.readouterr()
    path = reports.folder / "report.html"
    assert main(["report", str(reports.folder), "--html"]) == 0
    assert capsys.readouterr() == (f"{path}\n", "")
    Page(path.read_text(encoding="utf-8"))
    assert main(["report", "--html", str(reports.folder)]) == 0  # the page is no report of a process
    assert capsys.readouterr().out == f"{path}\n"
    elsewhere = tmp_path / "run.html"
    reports.write(patcher(PRICE), 1, role="rank", finished=False)
    assert main(["report", str(reports.folder), "--html", str(elsewhere)]) == 1
    assert capsys.readouterr().out == f"{elsewhere}\n"
    assert "unfinished" in elsewhere.read_text(encoding="utf-8")


def test_without_jinja_there_is_no_page_but_the_report(
    reports: Reports, content: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reports.write(patcher(PRICE))
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["report", str(reports.folder), "--html"]) == 2
    assert f"needs Jinja2, which is not installed: {install_command('patchcore[html]')}" in capsys.readouterr().err
    assert not (reports.folder / "report.html").exists()
    assert main(["report", str(reports.folder)]) == 0


def test_a_page_that_cannot_be_written_leaves_nothing(
    reports: Reports, content: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports.write(patcher(PRICE))
    path = tmp_path / "folder"
    path.mkdir()
    assert main(["report", str(reports.folder), "--html", str(path)]) == 2
    assert f"the page cannot be written to {path}: " in capsys.readouterr().err
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--html"], "the following arguments are required: DIR"),
        ([], "the following arguments are required: DIR"),
        (["DIR", "--html", "--format", "json"], "not allowed with argument --format json"),
    ],
)
def test_what_the_command_cannot_do(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        main(["report", *arguments])
    assert e.value.code == 2
    assert message in capsys.readouterr().err
