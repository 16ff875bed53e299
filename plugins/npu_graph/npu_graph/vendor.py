"""A vendor: everything that one kind of hardware needs, and nothing that all kinds share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

from patchcore import DeclarationError, Skip
from patchcore.plugin import counted, signature_of

if TYPE_CHECKING:
    import torch

    from npu_graph.operations.subgraph import Operation, Subgraph, TensorSpec

__all__ = ["Conversion", "Declarations", "Rewrite", "Vendor", "answer", "name_of"]

Function = TypeVar("Function", bound=Callable[..., Any])
#: Whether an operation is taken: yes, no, or no and why.
Answer = Union[bool, Skip]


@dataclass(frozen=True)
class Conversion:
    """Converts one operator to code of a vendor.

    Args:
        operator: name of an overload (``aten.add.Tensor``) or of a packet, which stands for all its overloads
            (``aten.add``).
        function: takes the :class:`~npu_graph.operations.subgraph.Operation` and, by their names in the operator's
            schema, those of its arguments that it cares about; returns the value that the vendor's code generation
            uses.
        when: which operations it is for, ``None`` for all.
        infer: returns shape and dtype of the results of the operation, for comparison with torch's.
        provider: the module that declares it.
        parameters: names of the arguments it takes; ``None`` for whatever there is.
    """

    operator: str
    function: Callable[..., Any]
    when: Optional[Callable[[Operation], Answer]]
    infer: Optional[Callable[[Operation], Any]]
    provider: str
    parameters: Optional[frozenset[str]]


@dataclass(frozen=True)
class Rewrite:
    """A pattern of operators and its replacement, both as functions that call operators of torch.

    Args:
        when: takes the values of the pattern's parameters; ``None`` for any tensors.
    """

    pattern: Callable[..., Any]
    replacement: Callable[..., Any]
    when: Optional[Callable[..., Answer]]
    name: str
    provider: str


@dataclass
class Declarations:
    """The declarations for a vendor, by itself and by others."""

    conversions: dict[str, Conversion] = field(default_factory=dict)
    rewrites: list[Rewrite] = field(default_factory=list)
    decompositions: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def copy(self) -> Declarations:
        """Return the same declarations, to add others to."""
        return Declarations(dict(self.conversions), list(self.rewrites), dict(self.decompositions))


class Vendor:
    """Hardware, or a compiler, that subgraphs are sent to. Subclass it and fill in the methods of the hardware.

    A vendor has no state except its declarations: graphs are compiled in any number of threads.

    Attributes:
        name: unique; its name in settings.
        summary: one line for ``patchcore list``.
        version: part of the key of cached kernels: raise it when the same source compiles to something else.
        device_type: type of the devices whose tensors it takes (``"cpu"``, ``"npu"``).
        dtypes: names of the dtypes it takes (``"float32"``); an operation with a tensor of another one stays eager.
        keep_eager: names of operators that stay eager although they are converted.
        gives_views: torch can make views of the inputs and outputs of its kernels. Then kernels do not copy the views
            that a forward or backward graph gives, a transposed weight for the backward among them.
        source_name: file name of generated source in the cache.
        tolerances: by name of a dtype, the differences that the precision check allows: relative to each element, and
            relative to the largest magnitude of the tensor. Integers and booleans must be equal.
    """

    name: str = ""
    summary: str = ""
    version: str = "0"
    device_type: str = "cpu"
    dtypes: frozenset[str] = frozenset()
    keep_eager: frozenset[str] = frozenset()
    gives_views: bool = False
    source_name: str = "source.txt"
    tolerances: dict[str, tuple[float, float]] = {
        "float64": (1e-9, 1e-10),
        "float32": (1e-4, 1e-5),
        "float16": (1e-2, 1e-3),
        "bfloat16": (5e-2, 1e-2),
    }

    def __init__(self) -> None:
        self.declarations = Declarations()

    # --- filled in by a vendor ----------------------------------------------------------------------------------------

    def setup(self) -> None:
        """Declare conversions, rewrites and decompositions; called once, before the first graph. May import torch."""

    def available(self) -> Answer:
        """Return True if the vendor can be used here, else a ``patchcore.Skip`` with the reason and the remedy.

        Called before :meth:`setup`, for listings too: it imports no torch, and remembers answers that take long to
        find.
        """
        return True

    def supports(self, operation: Operation) -> Answer:
        """Return whether the vendor takes an operation that has a conversion; a ``patchcore.Skip`` says why not.

        By default whatever has all its tensors on :attr:`device_type` and of :attr:`dtypes`.
        """
        for tensor in operation.tensors:
            if tensor.device.type != self.device_type:
                return Skip(f"a tensor is on {tensor.device.type}, not on {self.device_type}")
            if str(tensor.dtype).partition(".")[2] not in self.dtypes:
                return Skip(f"a tensor is {tensor.dtype}")
        return True

    def generate(self, subgraph: Subgraph) -> str:
        """Return the source for one subgraph: the same for equal subgraphs, because it is the key of cached kernels."""
        raise NotImplementedError(
            f"{type(self).__name__} has no generate(subgraph), which returns the source of a kernel"
        )

    def compile(self, source: Path) -> None:
        """Compile ``source``; write the output into the same folder, and nothing elsewhere.

        Whatever is there afterwards is kept in the cache. By default nothing is done: the source is the kernel.

        Raises:
            Exception: whatever the compiler has to say; it reaches the user as a ``CompileError``.
        """

    def load(self, source: Path) -> Callable[..., Any]:
        """Return the kernel that :meth:`compile` made beside ``source``, in this process or another one."""
        raise NotImplementedError(f"{type(self).__name__} has no load(source), which returns the kernel to call")

    def launch(
        self,
        kernel: Callable[..., Any],
        inputs: Sequence[Union[torch.Tensor, int, float, bool]],
        outputs: Sequence[TensorSpec],
    ) -> list[torch.Tensor]:
        """Run a kernel: by default on arrays, made by :meth:`to_array`; :meth:`to_tensor` converts the results.

        A vendor whose kernels write into memory they are given overrides this and takes ``output.empty()`` for each.

        Args:
            kernel: the object that :meth:`load` returned.
            inputs: the subgraph's inputs in order, then the values of its symbols.
            outputs: shape, strides, dtype and device of each output in this call.
        """
        import torch

        arrays = [self.to_array(value) if isinstance(value, torch.Tensor) else value for value in inputs]
        results = kernel(*arrays)
        if not isinstance(results, (list, tuple)):  # rows of an array would pass for results
            raise TypeError(f"expected a list or tuple of {len(outputs)} from the kernel, got {type(results).__name__}")
        if len(results) != len(outputs):
            raise TypeError(f"expected {counted(len(outputs), 'output')}, got {len(results)}")
        return [self.to_tensor(array, spec) for array, spec in zip(results, outputs)]

    def to_array(self, tensor: torch.Tensor) -> Any:
        """Return the form in which kernels take a tensor."""
        raise NotImplementedError(
            f"{type(self).__name__} has no to_array(tensor), which returns what kernels take, and no launch of its own"
        )

    def to_tensor(self, array: Any, spec: TensorSpec) -> torch.Tensor:
        """Return the tensor for a result of a kernel; it must share no memory with inputs or other outputs."""
        raise NotImplementedError(
            f"{type(self).__name__} has no to_tensor(array, spec), which returns a tensor for what a kernel gave"
        )

    # --- declared by the vendor and others ----------------------------------------------------------------------------

    def conversion(
        self,
        *operators: Any,
        when: Optional[Callable[[Operation], Answer]] = None,
        infer: Optional[Callable[[Operation], Any]] = None,
        override: bool = False,
    ) -> Callable[[Function], Function]:
        """Declare the decorated function as the conversion of operators.

        The function takes the operation and, by their names in the schema, the arguments it cares about. An operation
        that gives another argument something else than its default is not for this conversion, and stays eager.

        Args:
            operators: overloads (``aten.add.Tensor``), packets (``aten.add``), or their names. An overload of its own
                comes before its packet.
            when: takes the operation; returns false, or ``patchcore.Skip("why")``, for those that stay eager.
            infer: takes the operation; returns a ``(shape, dtype)``, or a list of them, to compare with torch's.
            override: take the place of the conversion there is.

        Raises:
            DeclarationError: there is a conversion already, or none to override, or an operator is none.
        """

        names = list(map(name_of, operators))

        def declare(function: Function) -> Function:
            made = [self._conversion(name, function, when, infer, override) for name in names]
            self.declarations.conversions.update((conversion.operator, conversion) for conversion in made)
            return function

        return declare

    def rewrite(
        self, pattern: Callable[..., Any], *, when: Optional[Callable[..., Answer]] = None
    ) -> Callable[[Function], Function]:
        """Declare the decorated function to take the place of a pattern, in graphs that have been decomposed.

        Both call operators of torch (``aten.mul.Tensor(x, aten.sigmoid.default(x))``) on the same parameters. The
        replacement is an operator that the vendor converts: of torch's, or its own, made by ``torch.library``.

        Args:
            pattern: the operators to look for.
            when: takes the values of the parameters, fake tensors or numbers, by position; returns whether the pattern
                is replaced there. By default it is where all of them are tensors.
        """

        def declare(function: Function) -> Function:
            self.declarations.rewrites.append(
                Rewrite(pattern, function, when, getattr(function, "__name__", str(function)), function.__module__)
            )
            return function

        return declare

    def decomposition(self, *operators: Any) -> Callable[[Function], Function]:
        """Declare the decorated function to be traced in the place of operators, before anything else is done."""

        names = list(map(name_of, operators))

        def declare(function: Function) -> Function:
            self.declarations.decompositions.update((name, function) for name in names)
            return function

        return declare

    def find(self, operator: Any) -> Optional[Conversion]:
        """Return the conversion of an overload, its own or its packet's, ``None`` when there is none."""
        name = name_of(operator)
        conversions = self.declarations.conversions
        return conversions.get(name) or conversions.get(name.rpartition(".")[0])

    def _conversion(self, name: str, function: Any, when: Any, infer: Any, override: bool) -> Conversion:
        if "torch" in sys.modules:
            from npu_graph.schemas import check_conversion

            check_conversion(name, function, function.__module__)
        known = self.declarations.conversions.get(name)
        if known is not None and not override:
            raise DeclarationError(
                f"vendor {self.name!r} has a conversion of {name} already, from {known.provider}, and "
                f"{function.__module__} brings another; say which counts: @vendor.conversion({name}, override=True)"
            )
        if known is None and override:
            raise DeclarationError(
                f"{function.__module__} overrides the conversion of {name}, but vendor {self.name!r} has none; "
                f"leave out override=True"
            )
        return Conversion(name, function, when, infer, function.__module__, _parameters(function))


def name_of(operator: Any) -> str:
    """Return the name of an overload, ``aten.add.Tensor``, or of a packet, ``aten.add``; a name is returned as it is.

    Raises:
        DeclarationError: it is neither.
    """
    name = operator if isinstance(operator, str) else str(operator)
    parts = name.split(".")
    is_operator = isinstance(operator, str) or hasattr(operator, "_qualified_op_name") or hasattr(operator, "_schema")
    if not is_operator or not 2 <= len(parts) <= 3 or not all(map(str.isidentifier, parts)):
        raise DeclarationError(
            f"expected an operator of torch (torch.ops.aten.add.Tensor), a packet of them (torch.ops.aten.add) or the "
            f"name of one ('aten.add.Tensor'), got {operator!r}"
        )
    return name


def _parameters(function: Callable[..., Any]) -> Optional[frozenset[str]]:
    """The names of the arguments that a conversion takes, after the operation."""
    _, *parameters = signature_of(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def answer(given: Any, otherwise: str) -> Optional[str]:
    """Return the reason of an answer that is no; ``None`` for yes."""
    if isinstance(given, Skip):
        return given.reason
    return None if given else otherwise
