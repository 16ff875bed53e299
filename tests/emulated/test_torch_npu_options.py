"""``torch.npu``: options that are recorded, and those that cannot be obeyed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu.npu import npu_config


@pytest.fixture(autouse=True)
def options_as_before() -> Iterator[None]:
    """Forget what a test records."""
    before = dict(npu_config._options)
    yield
    npu_config._options.clear()
    npu_config._options.update(before)


class TestOptions:
    def test_values_are_recorded_as_strings(self) -> None:
        given = {"ACL_OP_DEBUG_LEVEL": 3, "ANY_OTHER": 1.5}
        torch.npu.set_option(given)
        assert npu_config.recorded_option("ACL_OP_DEBUG_LEVEL") == "3"
        assert npu_config.recorded_option("ANY_OTHER") == "1.5"
        assert given == {"ACL_OP_DEBUG_LEVEL": 3, "ANY_OTHER": 1.5}

    @pytest.mark.parametrize(
        ("name", "value"), [("ACL_PRECISION_MODE", "high"), ("ACL_AICORE_NUM", 33), ("ACL_OP_DEBUG_LEVEL", "5")]
    )
    def test_a_value_that_there_is_not_is_refused_with_all_others(self, name: str, value: object) -> None:
        with pytest.raises(ValueError, match=f"value of {name} should be one of .*found '{value}'"):
            torch.npu.set_option({"ANY_OTHER": "1", name: value})
        assert npu_config.recorded_option("ANY_OTHER") is None

    def test_options_are_a_dictionary(self) -> None:
        with pytest.raises(TypeError, match="must be a dict, found str"):
            torch.npu.set_option("ACL_PRECISION_MODE")

    def test_compile_mode(self) -> None:
        assert torch.npu.is_jit_compile_false()
        torch.npu.set_compile_mode(jit_compile=True)
        assert not torch.npu.is_jit_compile_false()

    def test_format_of_products(self) -> None:
        assert torch.npu.get_mm_bmm_format_nd()
        torch.npu.set_option({"MM_BMM_ND_ENABLE": "disable"})
        assert not torch.npu.get_mm_bmm_format_nd()
        torch.npu.set_mm_bmm_format_nd(True)
        assert torch.npu.get_mm_bmm_format_nd()

    def test_compatible_implementations(self) -> None:
        assert not torch.npu.are_compatible_impl_enabled()
        torch.npu.use_compatible_impl(True)
        assert torch.npu.are_compatible_impl_enabled()

    def test_tuning_makes_its_directory(self, tmp_path: Path) -> None:
        torch.npu.set_aoe(str(tmp_path / "graphs"))
        assert (tmp_path / "graphs").is_dir()
        assert npu_config.recorded_option("autotunegraphdumppath") == str(tmp_path / "graphs")

    def test_timeout(self) -> None:
        torch.npu.set_op_timeout_ms(500)
        assert npu_config.recorded_option("OP_TIMEOUT_MS") == "500"


class TestSwitches:
    @pytest.mark.parametrize(
        ("switches", "name", "default", "option"),
        [
            (torch.npu.config, "allow_internal_format", True, "ALLOW_INTERNAL_FORMAT"),
            (torch.npu.matmul, "allow_hf32", False, "ALLOW_MATMUL_HF32"),
            (torch.npu.conv, "allow_hf32", True, "ALLOW_CONV_HF32"),
        ],
        ids=["config.allow_internal_format", "matmul.allow_hf32", "conv.allow_hf32"],
    )
    def test_they_can_be_set_and_seen(self, switches: object, name: str, default: bool, option: str) -> None:
        assert getattr(switches, name) is default
        setattr(switches, name, not default)
        assert getattr(switches, name) is not default
        assert npu_config.recorded_option(option) == ("disable" if default else "enable")

    def test_one_that_there_is_not_cannot_be_set(self) -> None:
        with pytest.raises(AttributeError):
            torch.npu.config.allow_internal_formats = False

    def test_the_type_of_products(self) -> None:
        assert torch.npu.matmul.cube_math_type is None
        torch.npu.matmul.cube_math_type = torch.npu.CubeMathType.USE_HF32
        assert torch.npu.matmul.cube_math_type is torch.npu.CubeMathType.USE_HF32
        with pytest.raises(ValueError, match="77"):
            torch.npu.matmul.cube_math_type = 77


class TestLimits:
    def test_a_device_limits_its_cores(self) -> None:
        whole = torch.npu.get_device_limit(1)
        torch.npu.set_device_limit(1, cube_num=12)
        assert torch.npu.get_device_limit("npu:1") == {"cube_core_num": 12, "vector_core_num": whole["vector_core_num"]}
        assert torch.npu.get_device_limit(0) == whole

    def test_a_stream_limits_its_cores(self) -> None:
        stream = torch.npu.Stream()
        whole = torch.npu.get_stream_limit(stream)
        torch.npu.set_stream_limit(stream, vector_num=8)
        assert torch.npu.get_stream_limit(stream)["vector_core_num"] == 8
        torch.npu.reset_stream_limit(stream)
        assert torch.npu.get_stream_limit(stream) == whole


class TestSynchronisation:
    def test_nothing_waits_so_nothing_can_warn(self) -> None:
        torch.npu.set_sync_debug_mode("default")
        assert torch.npu.get_sync_debug_mode() == 0
        for mode in ("warn", "error", 1, 2):
            with pytest.raises(NotEmulated, match="never waits"):
                torch.npu.set_sync_debug_mode(mode)
        with pytest.raises(RuntimeError, match="found 'loud'"):
            torch.npu.set_sync_debug_mode("loud")


class TestDeterminism:
    def test_levels_switch_torchs_own_demand(self) -> None:
        with pytest.warns(UserWarning, match="use_deterministic_algorithms to True"):
            torch.npu.set_deterministic_level(1)
        assert torch.are_deterministic_algorithms_enabled()
        with pytest.warns(UserWarning, match="use_deterministic_algorithms to False"):
            torch.npu.set_deterministic_level(0)
        assert not torch.are_deterministic_algorithms_enabled()

    def test_a_part_of_a_model_demands_it_both_ways(self) -> None:
        seen: dict[str, bool] = {}

        class Watching(torch.autograd.Function):
            @staticmethod
            def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
                seen["forward"] = torch.are_deterministic_algorithms_enabled()
                return x.clone()

            @staticmethod
            def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
                seen["backward"] = torch.are_deterministic_algorithms_enabled()
                return gradient

        x = torch.ones(2, device="npu", requires_grad=True)
        within = Watching.apply(torch.npu.enable_deterministic_with_backward(x * 3))
        torch.npu.disable_deterministic_with_backward(within).sum().backward()
        assert seen == {"forward": True, "backward": True}
        assert not torch.are_deterministic_algorithms_enabled()
        assert x.grad.tolist() == [3, 3]


class TestOverflow:
    def test_the_flag_of_older_chips_is_refused(self) -> None:
        with pytest.raises(RuntimeError, match="npu_check_overflow"):
            torch.npu.get_npu_overflow_flag()
        with pytest.warns(UserWarning, match="does nothing"):
            torch.npu.clear_npu_overflow_flag()

    @pytest.mark.parametrize(
        ("gradient", "overflow"),
        [
            (1.0, False),
            (float("nan"), True),
            ([1.0, 2.0], False),
            ([1.0, float("-inf")], True),
            ([3e38, 3e38], True),
        ],
        ids=["number", "nan", "finite", "infinite", "sum"],
    )
    def test_gradients_are_checked_themselves(self, gradient: object, overflow: bool) -> None:
        value = torch.tensor(gradient, device="npu") if isinstance(gradient, list) else gradient
        assert torch.npu.utils.npu_check_overflow(value) is overflow

    def test_only_gradients_are(self) -> None:
        with pytest.raises(RuntimeError, match="found str"):
            torch.npu.utils.npu_check_overflow("gradient")

    def test_there_is_no_handle(self) -> None:
        with pytest.warns(UserWarning, match="blas handle"):
            assert torch.npu.current_blas_handle() is None
