"""Qualified names: ``torch.cuda.Stream``, under whatever name it was imported, and imports themselves."""

from __future__ import annotations

from typing import Any, Optional

import libcst as cst

from npu_migrate.migrate.names import Meaning, Names
from npu_migrate.migrate.recording import Record
from npu_migrate.migrate.rules import Rule, RuleTable
from npu_migrate.migrate.syntax import code, dotted, root

__all__ = ["convert_chains", "convert_imports", "report_calls"]

#: How the module that torch knows as ``torch.npu`` is imported: an import by that name would load it a second time.
_IMPORTED_AS = {"torch.npu": "torch_npu.npu"}


def convert_chains(record: Record, names: Names, table: RuleTable) -> None:
    """Rewrite and report every use of an imported name."""
    program = record.program
    for chain in program.chains:
        base = root(chain)
        if base is None or (base.value not in program.bound and not names.stars and not names.local(base)):
            continue
        meaning = names.meaning(chain)
        if meaning is not None:
            _convert(record, table, chain, meaning)
    for name in program.loads:
        if name.value in program.bound or names.stars:
            meaning = names.meaning(name)
            if meaning is not None:
                _report_rules(record, table, name, meaning, meaning.name)


def report_calls(record: Record, names: Names, table: RuleTable) -> None:
    """Report calls of qualified names; where a rule has keywords, those that have one of them.

    The argument that a rule is about stays as it is: its note has the replacement.
    """
    for call in record.program.calls:
        meaning = names.meaning(call.func)
        for rule in table.about("call", meaning.name) if meaning is not None else ():
            given = {argument.keyword.value for argument in call.args if argument.keyword is not None}
            if not rule.keywords or given & set(rule.keywords):
                record.report(call.func, rule)
                if rule.position is not None and rule.position < len(call.args):
                    record.keep(call.args[rule.position].value)


def _report_rules(record: Record, table: RuleTable, node: Any, meaning: Meaning, name: str) -> None:
    found = table.find("attr", name)
    if found is None:
        return
    rule = found[0]
    if rule.level == "auto":
        if node.value not in record.program.bound:  # of a star import: there is no import of it to rewrite
            record.report(node, rule, note="may come from a star import")
    elif meaning.sure or rule.level != "unknown":
        record.report(node, rule)


def _convert(record: Record, table: RuleTable, chain: cst.Attribute, meaning: Meaning) -> None:
    found = table.find("attr", meaning.name)
    if found is None:
        return
    rule, _ = found
    if rule.level != "auto":
        record.report(_reported_part(chain, meaning, table), rule)
        return
    new = table.translate(meaning.name)
    base = table.translate(meaning.base)
    if new == meaning.name:
        return
    first = root(chain)
    assert first is not None
    spelled = f"{first.value}{new[len(base) :]}" if new.startswith(f"{base}.") else new
    if spelled == dotted(chain):
        return  # the import does it
    if not meaning.sure:
        record.report(chain, rule, note=f"{first.value} may mean something else here", suggestion=spelled)
        return
    if not new.startswith(f"{base}."):
        record.names_torch_npu = record.names_torch_npu or new.startswith("torch_npu.")
    record.edit(chain, _respelled(chain, spelled), rule)


def _reported_part(chain: cst.Attribute, meaning: Meaning, table: RuleTable) -> Any:
    """The beginning of a chain that the rule is about: ``torch.nn.DataParallel``, without the attributes after it."""
    found = table.find("attr", meaning.name)
    node: Any = chain
    while isinstance(node.value, cst.Attribute):
        name = meaning.name[: len(meaning.name) - len(str(dotted(chain))) + len(str(dotted(node.value)))]
        shorter = table.find("attr", name)
        if shorter is None or found is None or shorter[0] is not found[0]:
            break
        node = node.value
    return node


def _respelled(chain: cst.Attribute, spelled: str) -> cst.BaseExpression:
    """The chain with other names; where there are as many, dots, spaces and comments between them stay."""
    words = spelled.split(".")
    if len(words) != str(dotted(chain)).count(".") + 1:
        new = cst.parse_expression(spelled)
        return new.with_changes(lpar=chain.lpar, rpar=chain.rpar)

    def rename(node: Any, index: int) -> Any:
        if isinstance(node, cst.Name):
            return node.with_changes(value=words[index])
        return node.with_changes(attr=node.attr.with_changes(value=words[index]), value=rename(node.value, index - 1))

    return rename(chain, len(words) - 1)


def convert_imports(record: Record, table: RuleTable) -> None:
    """Rewrite and report imports."""
    reported: set[tuple[str, str]] = set()
    for node in record.program.imports:
        _report_import(record, table, node, reported)
        if isinstance(node, cst.Import):
            _convert_import(record, table, node)
        elif not node.relative and node.module is not None:
            _convert_from(record, table, node)


def _report_import(record: Record, table: RuleTable, node: Any, reported: set[tuple[str, str]]) -> None:
    """Report an import; the first of a library that a rule is about stands for all of this library."""
    if isinstance(node, cst.Import):
        modules = [str(dotted(alias.name)) for alias in node.names]
    elif node.relative or node.module is None:
        return
    elif isinstance(node.names, cst.ImportStar):
        modules = [str(dotted(node.module))]
    else:
        modules = [f"{dotted(node.module)}.{dotted(alias.name)}" for alias in node.names]
    for module in modules:
        found = table.find("import", module)
        library = module.partition(".")[0]
        if found is not None and (found[0].id, library) not in reported:
            reported.add((found[0].id, library))
            record.report(node, found[0])


def _convert_import(record: Record, table: RuleTable, node: cst.Import) -> None:
    aliases: list[cst.ImportAlias] = []
    for alias in node.names:
        name = str(dotted(alias.name))
        new = _new_name(table, name)
        if new is None:
            made = alias
        elif alias.asname is not None:
            made = alias.with_changes(name=_expression(new))
        else:  # the name that it binds is the package
            made = alias.with_changes(name=cst.Name(name.partition(".")[0]))
        if not any(made.deep_equals(other.with_changes(comma=made.comma)) for other in aliases):
            aliases.append(made)
    if len(aliases) < len(node.names) or any(new is not old for new, old in zip(aliases, node.names)):
        aliases[-1] = aliases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        _edit_import(record, table, node, [node.with_changes(names=aliases)])


def _convert_from(record: Record, table: RuleTable, node: cst.ImportFrom) -> None:
    module = str(dotted(node.module))
    if isinstance(node.names, cst.ImportStar):
        new = _new_name(table, module)
        if new is not None:
            _edit_import(record, table, node, [node.with_changes(module=_expression(new))])
        return
    groups: dict[str, list[cst.ImportAlias]] = {}
    for alias in node.names:
        name = str(dotted(alias.name))
        new = _new_name(table, f"{module}.{name}")
        target, _, last = (new or f"{module}.{name}").rpartition(".")
        if last != name:
            bound = alias.asname or cst.AsName(cst.Name(name))
            alias = alias.with_changes(name=cst.Name(last), asname=bound)
        groups.setdefault(target, []).append(alias)
    if list(groups) == [module] and all(new is old for new, old in zip(groups[module], node.names)):
        return
    if len(groups) == 1:
        ((target, aliases),) = groups.items()
        _edit_import(record, table, node, [node.with_changes(module=_expression(target), names=aliases)])
        return
    made = [
        cst.ImportFrom(module=_expression(target), names=[_last(alias, alias is aliases[-1]) for alias in aliases])
        for target, aliases in groups.items()
    ]
    _edit_import(record, table, node, made)


def _last(alias: cst.ImportAlias, is_last: bool) -> cst.ImportAlias:
    comma = cst.MaybeSentinel.DEFAULT if is_last else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return alias.with_changes(comma=comma)


def _new_name(table: RuleTable, name: str) -> Optional[str]:
    """The new import of a module, or of a name in one; ``None`` where it stays."""
    new = table.translate(name)
    if new == name:
        return None
    for known, imported in _IMPORTED_AS.items():
        if new == known or new.startswith(f"{known}."):
            return imported + new[len(known) :]
    return new


def _edit_import(record: Record, table: RuleTable, node: Any, made: list[Any]) -> None:
    first, *others = made
    statement = record.program.statement(node)
    if not others:
        record.edits.replace(node, first)
    elif isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        record.edits.replace(node, first)
        record.edits.after(statement, [cst.SimpleStatementLine([other]) for other in others])
    else:  # beside others on one line
        separated = [
            part.with_changes(semicolon=cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" "))) for part in made[:-1]
        ]
        last = made[-1].with_changes(semicolon=node.semicolon)
        record.edits.change(node, lambda _: cst.FlattenSentinel([*separated, last]))
    record.note_change(node, code(node), "; ".join(map(code, made)), _rule_of(table, node))
    record.uses_npu.append(node)


def _rule_of(table: RuleTable, node: Any) -> str:
    """The rule that an import was rewritten by: that of the first name that changes."""
    names = [] if isinstance(node.names, cst.ImportStar) else [str(dotted(alias.name)) for alias in node.names]
    if isinstance(node, cst.ImportFrom):
        module = str(dotted(node.module))
        names = [f"{module}.{name}" for name in names] or [module]
    rules: list[Rule] = [
        found[0]
        for name in names
        for found in (table.find("attr", name),)
        if found is not None and found[0].level == "auto" and table.translate(name) != name
    ]
    return rules[0].id


def _expression(name: str) -> Any:
    return cst.parse_expression(name)
