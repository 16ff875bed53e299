"""News of a process: patches that were completed since its report was written, a line of JSON each, beside the report.

A whole report takes tens of milliseconds where there are a thousand patches, a line takes some microseconds.
"""

from __future__ import annotations

from typing import Any

from patchcore.report import ChangeRecord, PatchRecord, Problem, Report, Section

__all__ = ["add_news"]


def add_news(content: dict[str, Any], news: list[dict[str, Any]]) -> None:
    """Add news to the report of a process that has not come to its end.

    Args:
        content: the report, which is changed. The news that it has already are older than it.
        news: each with ``written``, a time, and ``patch``, the record of a patch, in order.
    """
    later = [one for one in news if one["written"] > content["written"]]
    if content["finished"] or not later:
        return
    latest = {one["patch"]["name"]: one["patch"] for one in later}
    content["patches"] = [latest.get(patch["name"], patch) for patch in content["patches"]]
    content["written"] = later[-1]["written"]
    timeline = content["timeline"]
    timeline["events"] += (_event(one, timeline["started"]) for one in later)
    content["summary"] = _summary(content)


def _event(news: dict[str, Any], started: float) -> dict[str, Any]:
    patch = news["patch"]
    at = round(news["written"] - started, 4)
    return {"at": at, "took": None, "kind": patch["status"], "subject": patch["name"], "detail": patch["reason"]}


def _summary(content: dict[str, Any]) -> str:
    patches = (
        PatchRecord(**{**patch, "changes": tuple(ChangeRecord(**change) for change in patch["changes"])})
        for patch in content["patches"]
    )
    problems = (Problem(**problem) for problem in content["problems"])
    sections = (Section(**section) for section in content["sections"])
    return Report(tuple(patches), tuple(problems), sections=tuple(sections)).summary()
