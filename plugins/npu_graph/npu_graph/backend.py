"""The argument of ``torch.compile(backend=...)``: the name of a vendor, resolved at the first graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional

from patchcore import SettingsError

if TYPE_CHECKING:
    import torch

__all__ = ["Backend"]


class Backend:
    """A backend of ``torch.compile`` that compiles supported operators with one vendor; the others stay eager.

    An entry point of the group ``torch_dynamo_backends`` names it, so that making one costs nothing: plugins
    are loaded when the first graph comes.

    Args:
        vendor: name of a vendor that some plugin contributes.
        options: as ``torch.compile(options=...)`` has them, which overrule these: ``keep_eager``, ``check``,
            ``cache_dir`` and others, see :class:`npu_graph.options.Options`; ``fallback`` names the vendor that stands
            in where this one cannot be used.
    """

    def __init__(self, vendor: str, **options: Any) -> None:
        self.vendor = vendor
        self.options = options
        self.__name__ = f"patchcore_{vendor}"

    def __repr__(self) -> str:
        return f"npu_graph.Backend({self.vendor!r})"

    def __call__(
        self,
        graph: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        options: Optional[Mapping[str, Any]] = None,
        mode: Optional[str] = None,
    ) -> Callable[..., Any]:
        """Compile a graph of dynamo.

        Raises:
            UnknownVendor: no plugin contributes the vendor, or the fallback.
            VendorUnavailable: the vendor cannot be used on this machine, nor a fallback.
            SettingsError: an option or an environment variable has no meaning.
        """
        from npu_graph.options import fallback_from
        from npu_graph.pipeline import compile_graph
        from npu_graph.registry import vendors

        if mode not in (None, "default"):
            raise SettingsError(f"backend {self.__name__} has no modes, got mode={mode!r}; it takes options={{...}}")
        given = {**self.options, **(options or {})}
        vendor, stands_in_for = vendors().choose(self.vendor, fallback_from(given))
        return compile_graph(vendor, graph, example_inputs, given, stands_in_for=stands_in_for)
