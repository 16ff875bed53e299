"""``patchcore roles``: norms, rotary embeddings, gated MLPs, attention and experts of the installed transformers.

Sources are read, nothing is imported.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

from patchcore.plugin import (
    EXIT_OK,
    add_format,
    counted,
    did_you_mean,
    module_file,
    print_json,
    print_message,
    print_table,
    print_text,
    version_of,
)
from transformers_npu.families.patching import families
from transformers_npu.families.reading import Item, read_items

__all__ = ["Role", "add_parser", "roles_of"]

EXIT_USAGE = 2
#: A class or function without any of these words has no role.
WORDS = re.compile(rb"rsqrt|rms_norm|\bcos\b|\.chunk\(|act_fn|\bact\b|activation_fn|silu|gate_proj|\bsinks\b")
PATCHED, DOOR, LEFT = "patched", "reached by the library's door", "left alone"
ATTENTION, EXPERTS = "attention", "experts"
#: A class of a module: its decorators, its name, its body.
CLASS = re.compile(r"^((?:@[^\n]*\n(?:[ \t)][^\n]*\n)*)*)class (\w+)[^\n]*\n((?:[ \t)#][^\n]*\n|\n)*)", re.MULTILINE)
#: Of a class that multiplies with the matrices of experts, one expert after the other.
LOOPS_OVER_EXPERTS = re.compile(r"for expert\w* in|for \w+, expert\w* in|expert_hit|\bindex_add_\(")
MULTIPLIES = re.compile(r"matmul\(|bmm\(|einsum\(| @ ")
GATED = re.compile(r"S\d\(\(S\d\(S\d\(P\d\)\) \* S\d\(P\d\)\)\)|S\d\(\(S\d\(P\d\) \* silu\(S\d\(P\d\)\)\)\)")


class Role(NamedTuple):
    """A class or function with a role.

    Args:
        model: ``llama``.
        name: ``LlamaRMSNorm.forward``.
        role: ``RMSNorm, plain``.
        state: ``patched``, ``reached by the library's door`` or ``left alone``.
        reason: the kernel, the door with the kernel behind it, or why it is left alone.
        hub: the name of the kernel of transformers' hub that its decorator asks for; empty for none.
    """

    model: str
    name: str
    role: str
    state: str
    reason: str
    hub: str


def add_parser(subparsers: Any) -> None:
    """Add ``patchcore roles``.

    Args:
        subparsers: of the command line.
    """
    parser = subparsers.add_parser(
        "roles",
        example="patchcore roles llama",
        group="find out",
        help="show which parts of transformers are patched, and why",
        description="The norms, rotary embeddings, gated MLPs, attentions and experts in the models of the installed "
        "transformers: which are patched or reached by an interface of transformers, and why others are left alone. "
        "Sources are read, nothing is imported.",
    )
    parser.add_argument("model", nargs="?", help="a model, such as llama; without it, the number of each role")
    add_format(parser)
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    version = version_of("transformers")
    folder = Path(module_file("transformers") or "").parent / "models"
    if version is None or not folder.is_dir():
        print_message("transformers is not installed")
        return EXIT_USAGE
    models = sorted(path.name for path in folder.iterdir() if any(path.glob("modeling_*.py")))
    if options.model and options.model not in models:
        near = did_you_mean(options.model, models)
        print_message(f"transformers {version} has no model {options.model!r}{near}")
        return EXIT_USAGE
    chosen = [options.model] if options.model else models
    found = [role for model in chosen for role in roles_of(folder / model)]
    if options.format == "json":
        print_json({"transformers": str(version), "roles": [role._asdict() for role in found]})
    elif options.model:
        rows = [(role.name, role.role, role.state, role.reason) for role in found]
        print_table(f"{options.model}, transformers {version}", ("NAME", "ROLE", "STATE", "WHY"), rows)
    else:
        _print_numbers(str(version), found)
    return EXIT_OK


def _print_numbers(version: str, found: list[Role]) -> None:
    """Print how many of each role are patched, and how many are left alone for which reason."""
    counts: defaultdict[tuple[str, str, str], list[Role]] = defaultdict(list)
    for role in found:
        counts[role.role, role.state, role.reason].append(role)
    rows = [
        (role, state, str(len(some)), str(len({each.model for each in some})), reason)
        for (role, state, reason), some in sorted(counts.items(), key=lambda each: (each[0][0], -len(each[1])))
    ]
    print_table(f"transformers {version}", ("ROLE", "STATE", "NUMBER", "MODELS", "WHY"), rows)
    small = [role for role in found if role.role not in (ATTENTION, EXPERTS)]
    models = {role.model for role in small}
    left = {role.model for role in small if role.state == LEFT and role.role != "gated MLP"}
    print_text(
        f"{counted(len(models), 'model')} with a norm, a rotary embedding or a gated MLP; {len(models - left)} "
        "have every norm and rotary patched"
    )
    for name in (ATTENTION, EXPERTS):
        own = {role.model for role in found if role.role == name}
        missed = {role.model for role in found if role.role == name and role.state == LEFT}
        print_text(
            f"{counted(len(own), 'model')} with {name}; in {len(own - missed)} the library's door reaches all of it"
        )


def roles_of(folder: Path) -> Iterator[Role]:
    """Yield the roles of a model.

    Args:
        folder: with the modeling files of the model.
    """
    for path in sorted(folder.glob("modeling_*.py")):
        if path.name.startswith(("modeling_tf_", "modeling_flax_")):
            continue
        source = path.read_bytes()
        items = list(read_items(source, WORDS)) if WORDS.search(source) else []
        yield from _behind_doors(folder.name, source.decode("utf-8"), any(_has_sinks(item) for item in items))
        for item in items:
            role = _role(folder.name, item)
            if role is not None:
                yield role


def _has_sinks(item: Item) -> bool:
    """Return whether a function is an attention with sinks that is patched."""
    family = families().get("" if item.formula is None else item.formula.text)
    return family is not None and family.kernel.startswith("sinks:")


def _behind_doors(model: str, source: str, has_sinks: bool) -> Iterator[Role]:
    """Yield the attentions and the experts in a source; those that transformers looks up by name, and others."""
    has_sdpa = re.search(r"_supports_sdpa\s*=\s*True", source) is not None
    for decorators, name, body in CLASS.findall(source):
        if "use_experts_implementation" in decorators:
            yield Role(model, name, EXPERTS, DOOR, "ExpertsInterface: npu_grouped_matmul", "")
        elif LOOPS_OVER_EXPERTS.search(body) and "def forward(" in body:
            yield Role(model, name, EXPERTS, LEFT, "a loop over experts of its own", "")
        if "ALL_ATTENTION_FUNCTIONS" in body:
            if has_sdpa:
                yield Role(model, name, ATTENTION, DOOR, "AttentionInterface: npu_fusion_attention", "")
            elif has_sinks:
                yield Role(model, name, ATTENTION, PATCHED, "its function has sinks: npu_fusion_attention", "")
            else:
                yield Role(model, name, ATTENTION, LEFT, "the model has no sdpa: a softmax of its own by default", "")
        elif "scaled_dot_product_attention(" in body:
            yield Role(model, name, ATTENTION, LEFT, "calls sdpa of torch itself: torch_npu chooses the kernel", "")
        elif "softmax(" in body and MULTIPLIES.search(body) and re.search("Att(entio)?n", name):
            yield Role(model, name, ATTENTION, LEFT, "a softmax of its own", "")


def _role(model: str, item: Item) -> Optional[Role]:
    text = "" if item.formula is None else item.formula.text
    family = families().get(text)
    if family is not None:
        return Role(model, item.name, family.role, PATCHED, family.kernel.partition(":")[2], item.hub)
    if GATED.fullmatch(text):
        reason = "two projections: a copy into one tensor moves more bytes than the kernel saves"
        return Role(model, item.name, "gated MLP", LEFT, reason, item.hub)
    role = _likely(item, text)
    if role is None:
        return None
    reason = "another formula than those that are proven" if text else "more than a formula: a loop, or writes in place"
    return Role(model, item.name, role, LEFT, reason, item.hub)


def _likely(item: Item, text: str) -> Optional[str]:
    """Return the role that a function seems to have, by its formula or, without one, by its name."""
    if item.name.endswith(".forward"):
        is_norm = "rsqrt(" in text and "mean(sq(" in text and "- mean(" not in text and len(text) < 900
        return "RMSNorm" if is_norm or "RMSNorm" in item.name else None
    turns = re.search(r"(cat|stack)\(.*-", text) is not None and len(item.node.args.args) >= 3
    return "rotary" if "rotary" in item.name and (turns or not text) else None
