"""Looks operators up in torch by name, to find conversions that could never be used."""

from __future__ import annotations

from typing import Any, Callable

from patchcore import DeclarationError
from patchcore.plugin import did_you_mean, signature_of

__all__ = ["check_conversion"]

#: Namespaces that are there as soon as torch is; operators of others come with their libraries.
_NAMESPACES = ("aten", "prims")


def check_conversion(name: str, function: Callable[..., Any], provider: str) -> None:
    """Check that an operator exists, and has the arguments that its conversion takes.

    Args:
        name: of an overload or a packet.
        function: that converts it. A parameter that has a default is for operators that have the argument.
        provider: the module that declares it, for messages.

    Raises:
        DeclarationError: torch has no such operator, or it has no such argument; with the nearest names.
    """
    import torch

    namespace, packet, *overload = name.split(".")
    if namespace not in _NAMESPACES:
        return
    module = getattr(torch.ops, namespace)
    found = getattr(module, packet, None)
    if found is None:
        nearest = did_you_mean(f"{namespace}.{packet}", [f"{namespace}.{each}" for each in dir(module)])
        raise DeclarationError(f"{provider} declares a conversion of {name}: torch has no operator {name!r}{nearest}")
    if overload and overload[0] not in found.overloads():
        known = [f"{namespace}.{packet}.{each}" for each in found.overloads()]
        raise DeclarationError(
            f"{provider} declares a conversion of {name}: torch has no such overload{did_you_mean(name, known)} "
            f"(there are: {', '.join(known)})"
        )
    schemas = [getattr(found, each)._schema for each in overload or found.overloads()]
    known = list(dict.fromkeys(argument.name for schema in schemas for argument in schema.arguments))
    _, *parameters = signature_of(function).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    unknown = [each for each in needed if each not in known]
    if unknown:
        raise DeclarationError(
            f"the conversion of {name} from {provider} takes {', '.join(unknown)}, which the operator has not; "
            f"it has {', '.join(known)}, of which a conversion takes those it cares about, by these names"
        )
