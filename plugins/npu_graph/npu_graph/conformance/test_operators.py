"""Every operator equals eager, whether the vendor takes it or not; required operators are converted."""

from __future__ import annotations

from typing import Any

import pytest

from npu_graph.conformance.plugin import CONVERTED, EAGER, FAILED, OUTCOME, PARTLY, SUITE, TRIAL


def pytest_generate_tests(metafunc: Any) -> None:
    """One test for each operator and dtype, so that each can be chosen, repeated and found in a report."""
    suite = metafunc.config.stash[SUITE]
    if "trial" in metafunc.fixturenames:
        metafunc.parametrize("trial", [pytest.param(trial, id=str(trial)) for trial in suite.trials])


def test_operator(trial: Any, graph_suite: Any, record_property: Any) -> None:
    """All cases of the operator in this dtype: values, dtypes, shapes and strides."""
    findings = graph_suite.findings(trial)
    record_property(TRIAL, f"{trial.dtype} {'dynamic' if trial.dynamic else 'static'}")
    present = [finding for finding in findings if not finding.absent]
    if not present:
        pytest.skip(findings[0].problem)
    record_property(OUTCOME, FAILED)
    required = trial.operator in graph_suite.required
    failures = {
        finding.case: finding.problem or f"not converted: {finding.reason}"
        for finding in present
        if finding.problem or (required and finding.reason)
    }
    expected = graph_suite.expected_of(trial)
    told = [
        f"{case.name} {str(trial).rpartition(trial.operator)[2][1:]}: {problem}"
        for case, problem in failures.items()
        if not any(each.covers(case) for each in expected)
    ]
    told += [
        f"expected to fail, and does not; take the line out of graph_expected_failures: {each.line}"
        for each in expected
        if not any(each.covers(case) for case in failures)
    ]
    if told:
        pytest.fail("\n".join([*told, f"to reproduce: {graph_suite.command(trial)}"]), pytrace=False)
    if failures:
        pytest.xfail("; ".join(each.reason for each in expected))
    refused = [finding for finding in present if finding.reason]
    record_property(OUTCOME, CONVERTED if not refused else EAGER if len(refused) == len(present) else PARTLY)


def test_every_conversion_has_a_case(graph_suite: Any) -> None:
    """Operators that the vendor converts and no case tries are named and skipped."""
    if graph_suite.untried:
        pytest.skip(
            f"no case calls {', '.join(graph_suite.untried)}, which the vendor converts: add cases by the hook "
            f"pytest_graph_operator_cases"
        )
