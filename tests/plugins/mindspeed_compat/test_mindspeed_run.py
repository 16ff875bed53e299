"""``patchcore run --compat mindspeed`` with the small stack: the summary and the report have the features."""

from __future__ import annotations

import json

import pytest
from programs import Programs
from small_stack import install_stack

PROGRAM = """
import mindspeed.megatron_adaptor
from small_megatron.training import step
print(step(1))
"""


@pytest.fixture
def stack(programs: Programs) -> Programs:
    programs.write({"train.py": PROGRAM})
    return install_stack(programs)


def test_the_features_are_in_the_summary_and_in_the_report(stack: Programs) -> None:
    arguments = ["--compat", "mindspeed", "--report-dir", "reports", "train.py", "--fused-rope", "--forced"]
    done = stack.run(stack.patchcore, *arguments)
    assert done.stdout == "rival_attend(fused(rope(1)))\n"
    assert "MindSpeed: 4 applied" in done.stderr
    report = stack.run([*stack.patchcore[:-1], "report"], "reports").stdout
    assert "mindspeed.fused_rope" in report
    assert "forced (mindspeed.features_manager:Forced) replaces the function of fused_rope" in report


def test_each_change_is_in_the_report_of_the_process(stack: Programs) -> None:
    stack.run(stack.patchcore, "--compat", "mindspeed", "--report-dir", "reports", "train.py", "--fused-rope")
    report = json.loads(stack.run([*stack.patchcore[:-1], "report"], "reports", "--format", "json").stdout)
    assert "small_megatron.layers:attend" in json.dumps(report)


def test_a_feature_that_is_disabled_leaves_its_places_alone(stack: Programs) -> None:
    options = ["--compat", "mindspeed", "--disable", "mindspeed.fused_rope", "--report-dir", "reports"]
    done = stack.run(stack.patchcore, *options, "train.py", "--fused-rope")
    assert done.stdout == "attend(rope(1))\n"
    report = stack.run([*stack.patchcore[:-1], "report"], "reports", "--format", "json").stdout
    assert "mindspeed.fused_rope" in report


def test_a_disabled_name_that_means_no_feature_ends_the_program(stack: Programs) -> None:
    options = ["--compat", "mindspeed", "--disable", "mindspeed.fused_rop"]
    done = stack.run(stack.patchcore, *options, "train.py", "--fused-rope", code=1)
    assert "MindSpeed has no feature 'mindspeed.fused_rop'; did you mean 'mindspeed.fused_rope'" in done.stderr


@pytest.mark.parametrize("others", [[], ["--fused-rope"]])
def test_ranks_with_different_features_differ(stack: Programs, others: list[str]) -> None:
    """Each process of a job is a rank here; no launcher is needed for what the reports compare."""
    for rank, arguments in (("0", ["--fused-rope"]), ("1", others)):
        options = ["--compat", "mindspeed", "--report-dir", "reports", "train.py", *arguments]
        stack.run(stack.patchcore, *options, RANK=rank, WORLD_SIZE="2", PATCHCORE_RUN_ID="one")
    command = [*stack.patchcore[:-1], "report"]
    report = json.loads(stack.run(command, "reports", "--format", "json", code=0 if others else 1).stdout)
    found = [finding["subject"] for finding in report["findings"] if finding["kind"] == "difference"]
    assert found == ([] if others else ["patch mindspeed.fused_rope"])


def test_two_features_that_replace_one_target_end_the_program(stack: Programs) -> None:
    done = stack.run(stack.patchcore, "--compat", "mindspeed", "train.py", "--fused-rope", "--rival", code=1)
    assert "is replaced by two features of MindSpeed: fused_rope (" in done.stderr
