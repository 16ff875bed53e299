"""Vendors and what others add to them: hooks, patterns, decompositions, inference, what stays eager on request."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import patchcore as pc
from npu_graph.errors import CompileError, ConversionError, InferenceError, LaunchError, RewriteError, UnknownVendor
from npu_graph.options import KEEP_EAGER
from npu_graph.vendor import Vendor
from patchcore.errors import DeclarationError, SettingsError

aten = torch.ops.aten

THIRD_PARTY = """
    import patchcore as pc

    @pc.hookimpl(optionalhook=True)
    def register_conversions(vendor):
        if vendor.name != "reference":
            return
        import torch

        @vendor.conversion(torch.ops.aten.logaddexp)
        def logaddexp(operation, self, other):
            return f"np.logaddexp({self}, {other})"
"""
BROKEN = THIRD_PARTY + "\n        raise RuntimeError('no luck')\n"


def failure(call: Any, *arguments: Any) -> BaseException:
    """The error inside that of dynamo."""
    with pytest.raises(Exception) as caught:
        call(*arguments)
    return caught.value.__cause__ or getattr(caught.value, "inner_exception", caught.value)


def test_a_third_party_adds_an_operator_to_a_vendor_of_somebody_else(
    make_package: Any, make_vendors: Any, compiler_for: Any
) -> None:
    make_package({"acme": THIRD_PARTY})
    x, y = torch.randn(4), torch.randn(4)
    for modules, converted in (((), False), (("acme",), True)):
        compiler = compiler_for(make_vendors(*modules).get("reference"))
        torch.testing.assert_close(compiler(torch.logaddexp)(x, y), torch.logaddexp(x, y))
        assert ("aten.logaddexp.default" in compiler.converted) is converted
        torch._dynamo.reset()


def test_a_plugin_that_fails_to_add_is_reported_and_the_vendor_works(make_package: Any, make_vendors: Any) -> None:
    make_package({"broken": BROKEN})
    vendors = make_vendors("broken")
    assert vendors.get("reference").find(aten.add.Tensor)
    (problem,) = vendors._plugins.problems
    assert (problem.plugin, problem.where) == ("broken", "register_conversions")


def test_a_vendor_that_no_plugin_contributes_is_an_error_with_the_nearest(make_vendors: Any) -> None:
    with pytest.raises(UnknownVendor, match=r"no plugin contributes a vendor 'referense'.*did you mean 'reference'"):
        make_vendors().get("referense")


def test_a_second_conversion_must_say_that_it_overrides(reference: Vendor) -> None:
    def conversion(operation: Any, self: Any) -> str:
        return f"np.tanh({self})"

    with pytest.raises(DeclarationError, match=r"has a conversion of aten.tanh.default already.*override=True"):
        reference.conversion(aten.tanh.default)(conversion)
    reference.conversion(aten.tanh.default, override=True)(conversion)
    assert reference.find(aten.tanh.default).provider == __name__
    with pytest.raises(DeclarationError, match="has none; leave out"):
        reference.conversion(aten.igamma.default, override=True)(conversion)


@pytest.mark.parametrize("operator", [torch.add, "add", None, 3], ids=["function", "name", "none", "number"])
def test_what_is_no_operator_cannot_be_converted(reference: Vendor, operator: Any) -> None:
    with pytest.raises(DeclarationError, match="expected an operator of torch"):
        reference.conversion(operator)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        ("aten.rsqt.default", "torch has no operator 'aten.rsqt.default'; did you mean 'aten.rsqrt'?"),
        ("aten.rsqrt.defalt", "torch has no such overload; did you mean 'aten.rsqrt.default'?"),
        (
            "aten.add.Tensor",
            "takes x, which the operator has not; it has self, other, alpha, of which a conversion takes those it",
        ),
    ],
)
def test_a_conversion_that_could_never_be_used_is_an_error(reference: Vendor, operator: str, message: str) -> None:
    def conversion(operation: Any, x: Any) -> str:
        return f"np.tanh({x})"

    with pytest.raises(DeclarationError) as caught:
        reference.conversion(operator, override=True)(conversion)
    assert message in str(caught.value)
    assert __name__ in str(caught.value)


def test_a_conversion_of_an_operator_of_another_library_may_come_before_it(reference: Vendor) -> None:
    reference.conversion("acme_not_loaded.scale")(lambda operation, x: "")
    assert "acme_not_loaded.scale" in reference.declarations.conversions


def test_an_overload_comes_before_its_packet(reference: Vendor) -> None:
    reference.conversion(aten.hypot)(lambda operation, self, other: "packet")
    assert reference.find(aten.hypot.default).operator == "aten.hypot"
    reference.conversion(aten.hypot.default)(lambda operation, self, other: "overload")
    assert reference.find(aten.hypot.default).operator == "aten.hypot.default"


def test_an_argument_that_a_conversion_does_not_take_keeps_the_operator_eager(reference: Any, compiler: Any) -> None:
    @reference.conversion(aten.add.Tensor, override=True)
    def add(operation: Any, self: Any, other: Any) -> str:
        return f"np.add({self}, {other})"

    x, y = torch.randn(3), torch.randn(3)
    got = compiler(lambda x, y: torch.add(x, y, alpha=3) * 2)(x, y)
    torch.testing.assert_close(got, torch.add(x, y, alpha=3) * 2)
    assert compiler.eager == {"aten.add.Tensor": "the conversion takes no alpha"}


def test_a_condition_keeps_operators_eager_and_says_why(reference: Any, compiler: Any) -> None:
    @reference.conversion(aten.tanh.default, override=True, when=lambda operation: pc.Skip("too hyperbolic"))
    def tanh(operation: Any, self: Any) -> str:
        return f"np.tanh({self})"

    compiler(lambda x: x.tanh() + 1)(torch.randn(3))
    assert compiler.eager == {"aten.tanh.default": "too hyperbolic"}


def test_a_pattern_is_replaced_by_one_operator(reference: Any, compiler: Any) -> None:
    @reference.rewrite(lambda x: aten.mul.Tensor(x, aten.sigmoid.default(x)))
    def silu(x: Any) -> Any:
        return aten.silu.default(x)

    @reference.conversion(aten.silu.default)
    def convert(operation: Any, self: Any) -> str:
        return f"{self} * numerics.sigmoid({self})"

    x = torch.randn(4, 5)

    def call(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y * torch.sigmoid(y) - 2

    got = compiler(call, dynamic=True)(x)
    torch.testing.assert_close(got, torch.nn.functional.silu(x + 1) - 2)
    assert "aten.silu.default" in compiler.converted
    assert "aten.sigmoid.default" not in compiler.converted


def test_a_replacement_of_another_shape_is_refused(reference: Any, compiler: Any) -> None:
    @reference.rewrite(lambda x: aten.tanh.default(x))
    def smaller(x: Any) -> Any:
        return aten.select.int(x, 0, 0)

    error = failure(compiler(lambda x: x.tanh()), torch.randn(4, 5))
    assert isinstance(error, RewriteError)
    assert "the rewrite smaller" in str(error)
    assert "gives float32[5] in the place of float32[4, 5]" in str(error)


def declare_fma(vendor: Vendor, **options: Any) -> None:
    @vendor.rewrite(lambda x, y, z: aten.add.Tensor(aten.mul.Tensor(x, y), z), **options)
    def fma(x: Any, y: Any, z: Any) -> Any:
        return aten.addcmul.default(z, x, y)

    @vendor.conversion(aten.addcmul.default)
    def convert(operation: Any, self: Any, tensor1: Any, tensor2: Any) -> str:
        return f"{self} + {tensor1} * {tensor2}"


def test_parameters_of_a_pattern_stand_for_tensors(reference: Any, compiler: Any) -> None:
    declare_fma(reference)
    x, y, z = torch.randn(4, 5), torch.randn(5), torch.randn(4, 1)

    def call(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        return x * y + z, x * 2 + z, x * y + 1, torch.add(x * y, z, alpha=2)

    for got, wanted in zip(compiler(call)(x, y, z), call(x, y, z)):
        torch.testing.assert_close(got, wanted)
    operators = [node.operator for record in compiler.records for node in record.converted]
    assert sorted(operators) == ["aten.add.Tensor"] * 3 + ["aten.addcmul.default"] + ["aten.mul.Tensor"] * 3


def test_a_condition_says_where_a_pattern_is_replaced(reference: Any, compiler: Any) -> None:
    declare_fma(reference, when=lambda x, y, z: pc.Skip("of matrices only") if x.dim() != 2 else True)
    x = torch.randn(4, 5)
    compiler(lambda x, y: (x * y + x.cos(), x[0] * y[0] + x[1]))(x, x + 1)
    operators = [node.operator for record in compiler.records for node in record.converted]
    assert (operators.count("aten.addcmul.default"), operators.count("aten.mul.Tensor")) == (1, 1)


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (lambda x, y, z: True, "the rewrite fma .*: aten.addcmul.default does not take what it is given: "),
        (lambda x, y, z: 1 / 0, "the rewrite fma .*: its condition failed: ZeroDivisionError"),
    ],
    ids=["replacement", "condition"],
)
def test_a_rewrite_that_fails_is_named(reference: Any, compiler: Any, when: Any, message: str) -> None:
    declare_fma(reference, when=when)
    error = failure(compiler(lambda x: x * 2 + x.cos()), torch.randn(4))
    assert isinstance(error, RewriteError)
    assert re.search(message, str(error))


def test_a_vendor_decomposes_as_it_likes(reference: Any, compiler: Any) -> None:
    @reference.decomposition(aten.logaddexp.default)
    def logaddexp(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.exp(x) + torch.exp(y))

    x, y = torch.randn(4), torch.randn(4)
    torch.testing.assert_close(compiler(torch.logaddexp)(x, y), torch.logaddexp(x, y))
    assert compiler.converted == {"aten.exp.default", "aten.add.Tensor", "aten.log.default"}


@pytest.mark.parametrize("inferred", [((4, 5), torch.float64), ((4, 6), torch.float32), ((4,), torch.float32)], ids=str)
def test_a_conversion_that_infers_something_else_than_torch_is_an_error(
    reference: Any, compiler: Any, inferred: Any
) -> None:
    reference.conversion(aten.tanh.default, override=True, infer=lambda operation: inferred)(lambda operation, self: "")
    error = failure(compiler(lambda x: x.tanh()), torch.randn(4, 5))
    assert isinstance(error, InferenceError)
    assert f"infers {inferred[1]} {inferred[0]} for tanh, torch torch.float32 (4, 5)" in str(error)


def test_a_conversion_that_fails_is_named_with_what_to_do(reference: Any, compiler: Any) -> None:
    @reference.conversion(aten.tanh.default, override=True)
    def tanh(operation: Any, self: Any) -> str:
        raise ZeroDivisionError("oh no")

    error = failure(compiler(lambda x: x.tanh()), torch.randn(4))
    assert isinstance(error, ConversionError)
    for part in ("aten.tanh.default", __name__, "oh no", f"{KEEP_EAGER}=aten.tanh.default", "test_graph_vendors.py:"):
        assert part in str(error)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{0}.astype(np.float64)", "expected torch.float32 (4,) of aten.tanh.default (tanh), got torch.float64 (4,)"),
        ("{0}[:2]", "got torch.float32 (2,)"),
        ("nothing", "name 'nothing' is not defined"),
    ],
)
def test_a_kernel_that_gives_something_else_than_the_graph_says_is_an_error(
    reference: Any, compiler: Any, text: str, message: str
) -> None:
    reference.conversion(aten.tanh.default, override=True)(lambda operation, self: text.format(self))
    compiled = compiler(lambda x: x.tanh())
    with pytest.raises(LaunchError, match=r"vendor reference: subgraph_0 of graph \d+ \(inference\)") as caught:
        compiled(torch.randn(4))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("method", "replacement", "error", "message"),
    [
        ("generate", None, ConversionError, "Incomplete has no generate(subgraph), which returns the source"),
        ("generate", lambda self, subgraph: 3, ConversionError, "generate returned int, expected text"),
        ("load", None, CompileError, "Incomplete has no load(source), which returns the kernel"),
        ("load", lambda self, source: None, CompileError, "load returned NoneType, expected the kernel, to be called"),
        ("to_array", None, LaunchError, "Incomplete has no to_array(tensor)"),
        ("to_tensor", None, LaunchError, "Incomplete has no to_tensor(array, spec)"),
        (
            "to_tensor",
            lambda self, array, spec: array.numpy(),
            LaunchError,
            "expected a torch.Tensor for tanh, got",
        ),
        ("kernel", lambda x: x, LaunchError, "expected a list or tuple of 1 from the kernel, got Tensor"),
        ("kernel", lambda x: [x, x], LaunchError, "expected 1 output, got 2"),
        ("kernel", lambda x: [], LaunchError, "expected 1 output, got 0"),
        (
            "convert",
            lambda operation, self: None,
            ConversionError,
            "it returned None; return what the vendor",
        ),
    ],
)
def test_a_vendor_that_lacks_something_or_returns_something_else_is_told_what_is_expected(
    compiler_for: Any, method: str, replacement: Any, error: type[Exception], message: str
) -> None:
    methods = {
        "generate": lambda self, subgraph: "\n".join(operation.convert() for operation in subgraph.operations),
        "load": lambda self, source: replacement if method == "kernel" else lambda x: [x.tanh()],
        "to_array": lambda self, tensor: tensor,
        "to_tensor": lambda self, array, spec: array,
        method: replacement,
    }
    given = {name: function for name, function in methods.items() if function is not None and hasattr(Vendor, name)}
    vendor = type("Incomplete", (Vendor,), {"name": "incomplete", "dtypes": frozenset({"float32"}), **given})()
    vendor.conversion(aten.tanh.default)(replacement if method == "convert" else lambda operation, self: "tanh")
    compiled = compiler_for(vendor)(lambda x: x.tanh())
    with pytest.raises(Exception) as caught:
        compiled(torch.randn(4))
    raised = getattr(caught.value, "inner_exception", caught.value)
    assert isinstance(raised, error)
    assert message in str(raised)


class TestKeepEager:
    @pytest.mark.parametrize("name", ["aten.rsqrt.default", "aten.rsqrt", "reference:aten.rsqrt"])
    def test_operators_stay_eager_on_request(self, compiler: Any, monkeypatch: Any, name: str) -> None:
        monkeypatch.setenv(KEEP_EAGER, f" {name}, aten.cos.default")
        x = torch.rand(4) + 1
        torch.testing.assert_close(compiler(lambda x: (x * 2).rsqrt() + 1)(x), (x * 2).rsqrt() + 1)
        assert compiler.eager == {"aten.rsqrt.default": f"kept eager by {KEEP_EAGER}"}

    def test_what_is_said_of_another_vendor_does_not_count(self, compiler: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv(KEEP_EAGER, "other:aten.rsqrt")
        compiler(lambda x: x.rsqrt())(torch.rand(4))
        assert not compiler.eager

    def test_an_operator_that_would_be_decomposed_stays_whole(self, compiler: Any) -> None:
        norm = torch.nn.LayerNorm(4)
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiler(norm, keep_eager=["aten.native_layer_norm"])(x), norm(x))
        assert compiler.eager == {"aten.native_layer_norm.default": "kept eager by options"}

    def test_a_vendor_keeps_operators_eager_itself(self, reference: Any, compiler: Any, monkeypatch: Any) -> None:
        monkeypatch.setattr(reference, "keep_eager", frozenset({"aten.rsqrt.default"}))
        compiler(lambda x: x.rsqrt())(torch.rand(4))
        assert compiler.eager == {"aten.rsqrt.default": "kept eager by vendor reference"}

    def test_a_misspelt_operator_is_an_error_with_the_nearest(self, compiler: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv(KEEP_EAGER, "aten.rsqrt.defalt")
        error = failure(compiler(lambda x: x.rsqrt()), torch.rand(4))
        assert isinstance(error, SettingsError)
        assert "torch has no operator 'aten.rsqrt.defalt'; did you mean 'aten.rsqrt.default'?" in str(error)

    def test_an_unknown_option_is_an_error_with_the_nearest(self, compiler: Any) -> None:
        error = failure(compiler(lambda x: x.rsqrt(), keep_eagr=[]), torch.rand(4))
        assert isinstance(error, SettingsError)
        assert "did you mean 'keep_eager'" in str(error)


def test_a_vendor_may_be_declared_whole_in_its_module_without_torch(
    make_package: Any, make_vendors: Any, compiler_for: Any
) -> None:
    make_package(
        {
            "small": """
            import npu_graph
            import patchcore as pc

            class Small(npu_graph.Vendor):
                name = "small"
                dtypes = frozenset({"float32"})

                def generate(self, subgraph):
                    results = {operation.name: operation.convert() for operation in subgraph.operations}
                    return "\\n".join(results[output.operand.name] for output in subgraph.outputs)

                def load(self, source):
                    scales = [float(line) for line in source.read_text().splitlines()]
                    return lambda x: [x * scale for scale in scales]

                def to_array(self, tensor):
                    return tensor

                def to_tensor(self, array, spec):
                    return array

            VENDOR = Small()

            @VENDOR.conversion("aten.mul.Tensor", when=lambda call: isinstance(call.arguments["other"], float))
            def scale(operation, self, other):
                return str(other)

            @pc.hookimpl(optionalhook=True)
            def register_vendors():
                return [VENDOR]
            """
        }
    )
    vendors = make_vendors("small")
    compiler = compiler_for(vendors.get("small"))
    x = torch.randn(3)
    torch.testing.assert_close(compiler(lambda x: (x * 2.5, x * x))(x), (x * 2.5, x * x))
    assert compiler.converted == {"aten.mul.Tensor"}
    assert compiler.eager == {"aten.mul.Tensor": "not supported by the conversion"}


def vendor_class(body: str) -> str:
    return f"class Bad(npu_graph.Vendor): {body}\n    return [Bad()]"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("return [3]", "expected npu_graph.Vendor objects, got 3"),
        ("return 3", "not iterable"),
        ("return [npu_graph.Vendor()]", "the name of a vendor is an identifier"),
        (
            "from npu_graph.reference import VENDOR; return [VENDOR]",
            "the vendor name 'reference' is already used by plugin npu_graph.plugin",
        ),
        (vendor_class('name = "bad"'), "takes no dtype, so that all would stay eager: dtypes = frozenset({'float32'})"),
        (vendor_class('name = "bad"; dtypes = "float32"'), "dtypes are a set of names, {'float32'}, got 'float32'"),
        (vendor_class('name = "bad"; __init__ = lambda self: None'), "Bad.__init__ does not call super().__init__()"),
    ],
    ids=["no vendor", "no list", "no name", "a name that is taken", "no dtypes", "a dtype", "no super"],
)
def test_a_plugin_that_contributes_no_vendor_is_reported(
    make_package: Any, make_vendors: Any, source: str, message: str
) -> None:
    head = "import npu_graph\nimport patchcore as pc\n@pc.hookimpl\ndef register_vendors():\n    "
    make_package({"bad": head + source + "\n"})
    vendors = make_vendors("bad")
    assert vendors.get("reference")
    (problem,) = vendors._plugins.problems
    assert problem.where == "register_vendors"
    assert message in problem.message
