"""The rules of ``patchcore migrate``: what a rule may say, which one wins, and what the built-in ones cover."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import patchcore as pc
from npu_migrate.migrate.rules import KINDS, Rule, RuleTable, built_in_rules, read_rules

BUILT_IN = built_in_rules()
GOOD = {"id": "x", "kind": "attr", "match": "torch.cuda.x", "replace": "torch.npu.x"}


def table(*rows: dict[str, Any]) -> RuleTable:
    return RuleTable(
        read_rules({"rule": [{"id": str(number), "kind": "attr", **row} for number, row in enumerate(rows)]})
    )


class TestReading:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"levle": "auto"}, "a rule has no 'levle'; did you mean 'level'?"),
            ({"level": "automatic"}, "level is 'automatic', expected one of auto, review"),
            ({"kind": "attribute"}, "kind is 'attribute', expected one of attr"),
            ({"match": []}, "match is missing"),
            ({"match": [1]}, r"match is \[1\], expected a text or a list of texts"),
            ({"position": "0"}, "position is '0', expected a number from 0"),
            ({"replace": ""}, "needs replace"),
            ({"kind": "device_arg"}, "needs position, keywords or both"),
            ({"kind": "device_arg", "position": 0, "value": "devise"}, "value is 'devise'.*did you mean 'device'"),
            ({"kind": "text"}, "a rule about text needs files"),
            ({"kind": "text", "files": "*.sh", "match": "("}, "'\\(' is not a regular expression"),
        ],
    )
    def test_a_rule_that_is_none_is_refused_with_its_id_and_key(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(pc.SettingsError, match=f"mine, rule x: .*{message}"):
            read_rules({"rule": [{**GOOD, **change}]}, "mine")

    def test_a_file_that_is_no_toml_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "rules.toml"
        path.write_text("[[rule]\n")
        with pytest.raises(pc.SettingsError, match=r"rules\.toml cannot be read"):
            read_rules(path)

    def test_tables_of_another_name_are_refused(self) -> None:
        with pytest.raises(pc.SettingsError, match=r"found 'rules'; did you mean 'rule'\?"):
            read_rules({"rules": []})

    def test_a_rule_knows_its_file(self, tmp_path: Path) -> None:
        path = tmp_path / "rules.toml"
        path.write_text('[[rule]]\nid = "x"\nkind = "import"\nmatch = "fast_ops"\nlevel = "unsupported"\n')
        (rule,) = read_rules(path)
        assert rule == Rule("x", "import", ("fast_ops",), "unsupported", source=str(path))


class TestFinding:
    def test_the_longest_name_wins(self) -> None:
        found = table(
            {"match": "a.*", "replace": "z.*"}, {"match": "a.b", "replace": "y"}, {"match": "a.b.*", "replace": "x.*"}
        )
        assert [found.translate(name) for name in ("a", "a.c", "a.c.d", "a.b", "a.b.c")] == [
            "a", "z.c", "z.c.d", "y", "x.c",
        ]  # fmt: skip

    def test_a_rule_for_a_name_is_for_what_is_asked_of_it(self) -> None:
        assert table({"match": "a.Stream", "replace": "b.*"}).translate("a.Stream.wait") == "b.Stream.wait"

    def test_names_that_only_begin_alike_are_others(self) -> None:
        assert table({"match": ["a.b", "a.b.*"], "replace": "z"}).translate("a.bc") == "a.bc"

    def test_an_exception_is_left_to_the_next_rule(self) -> None:
        found = table(
            {"match": "a.b.*", "replace": "z.*", "except": ["a.b.c", "a.b.d.*"]}, {"match": "a.*", "replace": "y.*"}
        )
        assert [found.translate(name) for name in ("a.b.x", "a.b.c", "a.b.d.e")] == ["z.x", "y.b.c", "y.b.d.e"]

    def test_a_later_rule_with_the_same_id_takes_the_place_of_an_earlier_one(self) -> None:
        first = read_rules({"rule": [GOOD]})
        later = read_rules({"rule": [{**GOOD, "replace": "torch.npu.y"}]})
        assert RuleTable((*first, *later)).translate("torch.cuda.x") == "torch.npu.y"

    def test_rules_are_left_out_by_id_and_by_family(self) -> None:
        every = RuleTable(BUILT_IN)
        fewer = RuleTable(BUILT_IN, ["tensor.cuda", "library.*"])
        gone = {rule.id for rule in every} - {rule.id for rule in fewer}
        assert gone == {"tensor.cuda", *(rule.id for rule in BUILT_IN if rule.id.startswith("library."))}
        with pytest.raises(pc.SettingsError, match=r"no rule has the id 'tensor\.cdua'; did you mean 'tensor\.cuda'"):
            RuleTable(BUILT_IN, ["tensor.cdua"])

    def test_a_table_survives_the_way_to_another_process(self) -> None:
        there = pickle.loads(pickle.dumps(RuleTable(BUILT_IN)))
        assert there.rules == RuleTable(BUILT_IN).rules

    @pytest.mark.parametrize("source", ["import numpy as np\n", "x = 'the barracuda'\n", "import torch\n"])
    def test_files_in_which_no_rule_has_a_say_are_told_apart(self, source: str) -> None:
        assert not RuleTable(BUILT_IN).may_be_about(source)
        assert RuleTable(BUILT_IN).may_be_about(f"{source}x.cuda()\n")


class TestBuiltIn:
    def test_ids_are_unique(self) -> None:
        ids = [rule.id for rule in BUILT_IN]
        assert len(ids) == len(set(ids))

    def test_every_kind_of_rule_is_used(self) -> None:
        assert {rule.kind for rule in BUILT_IN} == set(KINDS)

    def test_every_rule_that_only_reports_says_what_to_do(self) -> None:
        assert [rule.id for rule in BUILT_IN if rule.level != "auto" and not rule.note] == []

    def test_no_result_of_a_rule_is_the_matter_of_a_rule_that_rewrites(self) -> None:
        found = RuleTable(BUILT_IN)
        for rule in BUILT_IN:
            if rule.kind == "attr" and rule.level == "auto":
                for name in rule.match:
                    new = found.translate(name.replace("*", "anything"))
                    assert found.translate(new) == new, (rule.id, name)

    def test_names_that_the_run_time_layer_redirects_are_rewritten_or_called_unsupported(self) -> None:
        from torch_npu_patches.transfer_to_npu import tables

        found = RuleTable(BUILT_IN)
        missing = []
        for name in (*tables.CUDA, *tables.CUDA_RENAMED):
            rule = found.find("attr", f"torch.cuda.{name}")
            if rule is None or rule[0].level == "unknown":
                missing.append(name)
        assert missing == []
        for cuda, npu in tables.CUDA_RENAMED.items():
            assert found.translate(f"torch.cuda.{cuda}") == f"torch.npu.{npu}"
