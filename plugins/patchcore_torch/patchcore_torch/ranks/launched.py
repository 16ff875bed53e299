"""What a launcher of torch has put into the environment of a rank, for its report."""

from __future__ import annotations

import os
from typing import Union

from patchcore.plugin import ProcessReport, parse_decimal, run_role

__all__ = ["describe_rank"]

_MOST = 2**31 - 1


def describe_rank(report: ProcessReport) -> None:
    """Add the facts about this rank to ``report``: where its group meets, its number here, and how often it restarted.

    The variables are those of ``torch.distributed`` (MASTER_ADDR, MASTER_PORT, LOCAL_RANK) and of torchrun
    (TORCHELASTIC_RESTART_COUNT). Workers have the variables of the rank that started them.
    """
    facts: dict[str, Union[str, int]] = {}
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if address and port:
        facts["meeting"] = f"{address}:{port}"
    for name, variable in (("restart", "TORCHELASTIC_RESTART_COUNT"), ("local_rank", "LOCAL_RANK")):
        number = parse_decimal(os.environ.get(variable, ""), _MOST)
        if number is not None:
            facts[name] = number
    if facts:
        report.describe(**facts)
        if run_role() == "rank":  # a rank may be killed before it has another reason to write
            report.write()
