"""Converts one module from CUDA to NPU: its new source, and the findings in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import libcst as cst

from npu_migrate.migrate.chains import convert_chains, convert_imports, report_calls
from npu_migrate.migrate.distributed import make_distributed
from npu_migrate.migrate.facts import Owners, merge, owners
from npu_migrate.migrate.findings import Finding
from npu_migrate.migrate.flow import Flow
from npu_migrate.migrate.kernels import NO_KERNELS, Kernels, ProjectKernels, report_operators
from npu_migrate.migrate.members import convert_members
from npu_migrate.migrate.npu_import import import_torch_npu
from npu_migrate.migrate.places import expect_values
from npu_migrate.migrate.program import read
from npu_migrate.migrate.recording import Record
from npu_migrate.migrate.rules import RuleTable
from npu_migrate.migrate.syntax import literal, with_text
from npu_migrate.migrate.texts import convert_environment, report_kernels, report_leftovers

__all__ = ["Conversion", "NotReproduced", "convert"]


class NotReproduced(ValueError):
    """libcst does not give back a source as it was: line ends of a kind that it does not know, say."""


class Conversion(NamedTuple):
    """The outcome of one module.

    Args:
        source: the new source; the old one where nothing changed.
        findings: in the order of the source.
    """

    source: str
    findings: tuple[Finding, ...]


def convert(
    source: str,
    table: RuleTable,
    file: str = "<source>",
    owned: Owners = {},  # noqa: B006 - never changed
    *,
    distributed: bool = False,
    kernels: ProjectKernels = NO_KERNELS,
) -> Conversion:
    """Convert the source of a module.

    Args:
        source: the module, without a byte order mark; line ends of any kind stay.
        table: the rules.
        file: its path, for findings.
        owned: the names that classes of other modules of the project define, see :mod:`.facts`.
        distributed: make a training script for one card one for several.
        kernels: facts about compiled operators from other modules of the project.

    Raises:
        libcst.ParserSyntaxError: it is not Python.
        NotReproduced: the rest of the source would change, too.
    """
    if not (table.may_be_about(source) or distributed or kernels.may_be_in(source)):
        return Conversion(source, ())
    program, names = read(source)
    record = Record(program, file)
    members = table.names_of("method") | table.names_of("member")
    known: Mapping[str, frozenset[str]] = merge([owned, owners(source, members)])
    report_operators(record, Kernels(program, names, table, kernels))
    convert_imports(record, table)
    report_calls(record, names, table)  # first, because the calls that it keeps are not converted
    convert_chains(record, names, table)
    convert_members(record, names, table, known)
    flow = Flow(program, names)
    expect_values(program, names, table, flow)
    several_cards = distributed and make_distributed(record, names, flow.arrivals)
    for node, arrival in flow.arrivals.items():
        new = arrival.new
        if several_cards and isinstance(new, cst.SimpleString) and literal(new) == "npu:0":
            new = with_text(new, "npu")  # the card of this process, not the first
        record.edit(node, new, arrival.rule, npu=arrival.rule.kind not in ("argparse_default", "config"))
    convert_environment(record, names, table)
    report_leftovers(record, table)
    report_kernels(record, table)
    import_torch_npu(record)
    findings = tuple(sorted(record.findings, key=lambda finding: (finding.line, finding.column, finding.rule)))
    if not record.edits:
        return Conversion(source, findings)
    if program.module.code != source:
        raise NotReproduced(
            "converting it would also change lines that have nothing to do with CUDA (are there carriage returns?)"
        )
    return Conversion(record.edits.apply(program.module, program.parents).code, findings)
