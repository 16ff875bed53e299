"""``patchcore plan --compat mindspeed -- ARGUMENTS`` with the small stack."""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest
from programs import Programs
from small_stack import install_stack


@pytest.fixture
def stack(programs: Programs) -> Programs:
    return install_stack(programs)


def plan(stack: Programs, *arguments: str, code: int = 0) -> str:
    command = [*stack.patchcore[:-1], "plan"]
    return stack.run(command, "--compat", "mindspeed", "--", *arguments, code=code).stdout


def section(text: str, title: str) -> list[str]:
    _, _, rest = text.partition(f"\n{title}\n")
    return [line.strip() for line in rest.partition("\n\n")[0].splitlines()]


def test_the_features_that_the_arguments_switch_on(stack: Programs) -> None:
    text = plan(stack, "--fused-rope", "--train-iters", "3")
    assert text.startswith("14 features, 3 needed with these arguments: 3 register 12 patches of 12 targets\n")
    assert section(text, "fused_rope") == [
        "wraps small_megatron.layers.rope",
        "replaces small_megatron.layers.attend",
    ]
    assert "makes fast_engine.pytorch.LayerNorm" in section(text, "requirements_basic")
    assert section(text, "Attributes that do not exist, and are added") == ["small_megatron.training.new_name"]


def test_rivals_are_named_before_anything_runs(stack: Programs) -> None:
    (rivals,) = section(
        plan(stack, "--fused-rope", "--rival", code=1), "Two features replace one target: the program ends here"
    )
    assert "fused_rope (mindspeed.features_manager:Rope), with mindspeed.functions:attend, and rival (" in rivals


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--spelling"], "small_megatron.training.Base.reset and small_megatron.config.Base.reset are one place"),
        (["--fused-rope", "--forced"], "small_megatron.layers.attend: forced (mindspeed.features_manager:Forced) repl"),
    ],
)
def test_so_is_what_mindspeed_does_not_report(stack: Programs, arguments: list[str], expected: str) -> None:
    (line,) = section(plan(stack, *arguments), "MindSpeed does not report these")
    assert line.startswith(expected)


def test_a_feature_that_is_disabled_is_in_the_plan_with_its_verdict(stack: Programs) -> None:
    command = [*stack.patchcore[:-1], "plan", "--compat", "mindspeed", "--disable", "mindspeed.fused_rope"]
    text = stack.run(command, "--", "--fused-rope", "--forced").stdout
    assert section(text, "Disabled") == ["mindspeed.fused_rope"]


def test_the_targets_are_compared_with_another_megatron(stack: Programs) -> None:
    package = stack.folder / "small_megatron"
    other = stack.folder / "other" / "small_megatron"
    shutil.copytree(package, other)
    layers = other / "layers.py"
    changed = layers.read_text().replace("def rope(x):", "def rope(x, base=1):").replace("def attend", "def attention")
    assert changed != layers.read_text()
    layers.write_text(changed)
    command = [*stack.patchcore[:-1], "plan", "--compat", "mindspeed", "--against", "other"]
    text = stack.run(command, "--", "--fused-rope", code=1).stdout
    (counts,) = [line for line in text.splitlines() if "against other" in line]
    assert "1 gone, 1 signature changed" in counts
    assert section(text, counts) == [
        "gone: small_megatron.layers.attend: small_megatron.layers has no attend; did you mean 'attention'?",
        "signature changed: small_megatron.layers.rope: (x) -> (x, base=1)",
    ]
    shutil.copytree(package, stack.folder / "same" / "small_megatron")
    command[-1] = "same"
    same = stack.run(command, "--", "--fused-rope").stdout
    assert same.endswith("\n8 targets of Megatron against same: 8 unchanged\n")
    command[-1] = "nowhere/at/all"
    assert "there is no such folder" in stack.run(command, "--", code=2).stderr


def test_a_feature_and_a_target_are_explained(stack: Programs) -> None:
    command = [*stack.patchcore[:-1], "plan", "--compat", "mindspeed", "--explain"]
    text = stack.run(command, "small_megatron.layers:attend", "--", "--fused-rope", "--ring").stdout
    assert "small_megatron.layers.attend: replaced by mindspeed.fused_rope (mindspeed.features_manager:Rope)" in text
    assert "small_megatron.layers.attend: wrapped by mindspeed.ring (" in text
    assert re.search(r"  with mindspeed.functions:attend \(.*functions.py:\d+\)", text)
    assert re.search(r"  original: .*layers.py:\d+", text)
    assert "  status: applied" in text
    feature = stack.run(command, "mindspeed.ring", "--", "--fused-rope", "--ring").stdout
    assert "wrapped by mindspeed.ring" in feature
    assert "mindspeed.fused_rope" not in feature
    wrong = stack.run(command, "mindspeed.rign", "--", "--ring", code=2).stderr
    assert "did you mean 'mindspeed.ring'" in wrong


def test_other_commands_name_the_one_that_knows_features(stack: Programs) -> None:
    explain = stack.run([*stack.patchcore[:-1], "explain"], "mindspeed.ring", code=2)
    assert "patchcore plan --compat mindspeed --explain mindspeed.ring -- ARGUMENTS" in explain.stderr
    stack.write({"train.py": ""})
    run = stack.run(stack.patchcore, "--against", "other", "train.py", code=2)
    assert "--against is an option of patchcore plan --compat mindspeed" in run.stderr


def test_targets_that_this_megatron_does_not_have(stack: Programs) -> None:
    text = plan(stack, "--later", code=1)
    later = "later (mindspeed.features_manager:Later)"
    assert section(text, "Targets that do not exist here") == [
        "Config has no gone: 1 target",
        f"small_megatron.config.Config.gone, of {later}",
        "ModuleNotFoundError: No module named 'small_megatron.gone': 1 target",
        f"small_megatron.gone.step, of {later}",
    ]


def test_replacements_that_do_not_fit_their_targets(stack: Programs) -> None:
    (line,) = section(plan(stack, "--later", code=1), "Replacements that do not accept every call of their target")
    assert line.startswith("mindspeed.later: replace small_megatron.layers:attend: added does not accept every call")


def test_code_that_fails_is_named_with_its_feature(stack: Programs) -> None:
    stack.write({"mindspeed/functions.py": "from nowhere import something"})
    text = plan(stack, code=1)
    assert "feature megatron_basic: ModuleNotFoundError: No module named 'nowhere'" in section(text, "Failures")


def test_without_mindspeed_the_module_is_named(programs: Programs) -> None:
    stack = install_stack(programs, modules={})
    done: Any = stack.run([*stack.patchcore[:-1], "plan"], "--compat", "mindspeed", "--", code=1)
    assert "No module named 'mindspeed'" in done.stderr
