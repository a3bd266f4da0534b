"""Mutants of a source file: small changes of the code, each of which some test should notice.

DeMillo, Lipton and Sayward, "Hints on Test Data Selection" (1978). Neither mutmut nor cosmic-ray fit:
the former forks processes in which TensorFlow has run, the latter does not remove statements.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
BOOLEANS = {ast.And: ast.Or, ast.Or: ast.And}


@dataclass(frozen=True)
class Mutant:
    """A change of one expression or statement.

    Attributes:
      line: Where it starts, from 1.
      before: The code that is replaced.
      after: What replaces it.
      source: The whole file with the change.
    """

    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        before, after = (" ".join(code.split()) for code in (self.before, self.after))
        return f"{self.line}: {before}  ->  {after}"


def find_mutants(source: str) -> list[Mutant]:
    """Returns all mutants of a source file, in the order of its lines.

    Expressions in annotations, and statements outside of functions, are left alone: they define
    names, whose absence every import would notice. So is `strict=True` of a zip, which only finds
    mistakes of the library itself.
    """
    mutants = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            for statement in function.body:
                mutants += [
                    _replace(source, node, after)
                    for node, after in _changes(statement)
                    if not (isinstance(node, ast.Constant) and isinstance(node.value, str))
                ]
    unique = {mutant.source: mutant for mutant in mutants}  # Of functions in functions, twice.
    return sorted(unique.values(), key=lambda mutant: (mutant.line, mutant.after))


def _changes(statement: ast.stmt) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Yields what to replace in a statement, and by which code."""
    for node in _walk(statement):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node, "pass"
        if isinstance(node, ast.AugAssign):
            yield node, "pass"
        if isinstance(node, ast.If):
            yield node.test, f"not ({ast.unparse(node.test)})"
        changed = _changed_operation(node) or _changed_value(node)
        if changed and isinstance(node, ast.expr):
            yield node, ast.unparse(changed)


def _changed_operation(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(BOOLEANS[type(node.op)](), node.values)
    return None


def _changed_value(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        return node.operand
    if isinstance(node, ast.IfExp):
        return ast.IfExp(node.test, node.orelse, node.body)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return ast.Constant(node.value + 1)
    return None


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yields a node and those in it, without annotations, `strict`, and what formats texts."""
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns") or isinstance(node, ast.JoinedStr | ast.Raise):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _replace(source: str, node: ast.stmt | ast.expr, after: str) -> Mutant:
    lines = source.encode().splitlines(keepends=True)  # Columns of `ast` count bytes.
    offsets = [sum(map(len, lines[:index])) for index in range(len(lines))]
    start = offsets[node.lineno - 1] + node.col_offset
    assert node.end_lineno is not None and node.end_col_offset is not None
    end = offsets[node.end_lineno - 1] + node.end_col_offset
    whole = source.encode()
    code = after if isinstance(node, ast.stmt) else f"({after})"
    changed = whole[:start] + code.encode() + whole[end:]
    return Mutant(node.lineno, whole[start:end].decode(), code, changed.decode())
