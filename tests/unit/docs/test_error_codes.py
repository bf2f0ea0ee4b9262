from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.unit.docs.documents import ROOT, document

PLACE = {"Reply": 2, "Denied": 2, "BadRequestError": 2, "_unknown": 1, "_refuse": 2}
"""Which argument is the code of an error, by what is called."""


def codes() -> Iterator[str]:
    """Yield the codes of errors that the gateway's sources write out."""
    for package in ("gateway", "access"):
        for path in (ROOT / "ds4watch" / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    yield from codes_of(node)


def codes_of(call: ast.Call) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    said = [it.value for it in call.keywords if it.arg == "code"]
    said += call.args[PLACE[name] : PLACE[name] + 1] if name in PLACE else []
    for value in said:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def test_each_code_of_an_error_is_in_the_table_of_errors() -> None:
    found = set(codes())
    assert len(found) > 20
    table = document("gateway.md").partition("## Errors")[2].partition("\n## ")[0]
    assert not [code for code in sorted(found) if f"`{code}`" not in table]
