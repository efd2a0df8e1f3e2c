"""What the daemon can write into its log above information, collected from the code: texts with … for what varies.

A call of a log with a text of its own is found by itself. Where a call hands on a text that was made elsewhere, MADE
says where: a call that is not in that table, and a maker that is gone, are errors, so neither can be forgotten.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "agent" / "leafd"
LEVELS: Final = {"warning", "error", "fatal", "exception"}
CONSTANT_MIN: Final = 8  # characters of a text that are the same each time; less is a part of another text

# A call that hands on a text (file, function): the functions that make such texts, as file:name.
MADE: Final[dict[str, tuple[str, ...]]] = {
    "daemon/account_book.py:_resolve_all": ("daemon/account_book.py:_resolved_all",),
    "logins/callouts.py:judged": (
        "logins/callouts.py:judged", "auth/callout.py:answered", "auth/callout.py:_response",
        "auth/callout.py:_check_signer", "auth/callout.py:configured_account", "auth/callout.py:trusted_verdict",
        "auth/callout.py:verdict_of",
    ),
    "logins/clients.py:_refuse": ("logins/refusals.py:login_line",),
    "logins/clients.py:_refused": ("logins/refusals.py:_what",),
    "daemon/expiry.py:look": ("config/tls_files.py:expiring",),
    "host/log.py:follow": ("host/log.py:reopen",),
    "daemon/placing.py:_warn_once": tuple(f"daemon/placing.py:{name}" for name in ("_settle", "_begin_anew", "_adopt")),
    "daemon/reload.py:_adopt": ("daemon/reload.py:merged",),
    "daemon/server.py:__init__": ("daemon/operator.py:compile_operator", "accounts/claims.py:_imports"),
    "daemon/opening.py:open_plane": ("host/memory.py:warning",),
    "jetstream/serving.py:_answered": (),  # a subject, and the plane's word for why
    "daemon/start.py:start": (
        "host/descriptors.py:warning", "config/bind.py:section", "config/bind.py:_support", "config/tree.py:_put",
        "config/load.py:_unsafe", "config/exposure.py:_found",
    ),
}  # fmt: skip
C_CALL: Final = re.compile(
    r"^ +(?:return )?(?:store_alarm|opening_warn|make_anew|event_alarm)\((?P<rest>.*?)\);$", re.S | re.M
)  # fmt: skip
C_TEXT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')


# Pieces of a text that is found as a whole.
PIECES: Final = {
    " using queue …", ", Queue: …", " - User …", "; what was there is kept as ", "asking an auth callout service",
    '"…" but got "…"', 'expected "…" got "…"', 'on account "…"', 'for auth callout for account "…"',
    "claim is expired", "claim is not yet valid", "Error or Jwt is required", "Only Error or Jwt can be set",
    "Subject must be a user public key", "Audience must be a server public key", "the issuer is no account",
}  # fmt: skip


def template(node: ast.expr) -> str | None:
    """A text with … for each part that varies; None: this is no text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            whole = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
            return re.sub("…+", "…", whole)
        case ast.Call(func=ast.Name(id="printable"), args=[text, *_]):
            return template(text)
    return None


@cache
def functions(path: Path) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    tree = ast.walk(ast.parse(path.read_text()))
    return tuple(node for node in tree if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def is_log_call(call: ast.Call) -> bool:
    """A call of warning, error, fatal or exception on something that is called log; also one of two such."""
    if isinstance(call.func, ast.IfExp):
        return isinstance(call.func.body, ast.Attribute) and call.func.body.attr in LEVELS
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in LEVELS:
        return False
    return ast.unparse(call.func.value).rpartition(".")[2] in ("log", "_log")


def texts_of(node: ast.AST) -> Iterator[str]:
    """The outermost texts in a piece of code, without its docstring."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        text = template(child) if isinstance(child, ast.expr) else None
        if text is None:
            yield from texts_of(child)
        elif len(text.replace("…", "")) >= CONSTANT_MIN and " " in text and text not in PIECES:
            yield text


def made(where: str) -> set[str]:
    """What the functions of that name in that file make; a file:name that is not there is an error."""
    file, _, name = where.partition(":")
    found = [function for function in functions(PACKAGE / file) if function.name == name]
    assert found, f"{where} is not there any more: MADE of tests/unit/logged.py has to follow"
    return {text for function in found for text in texts_of(function)}


def python_lines() -> tuple[dict[str, str], list[str]]:
    """Text to where it is written; and the calls whose text comes from elsewhere and which MADE does not know."""
    found: dict[str, str] = {}
    unknown: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if file.startswith("cli/") or "log." not in path.read_text():
            continue
        for function in functions(path):
            for call in ast.walk(function):
                if not (isinstance(call, ast.Call) and is_log_call(call)):
                    continue
                where = f"{file}:{function.name}"
                text = template(call.args[0])
                if text is not None and len(text.replace("…", "")) >= CONSTANT_MIN:
                    found[text] = where
                elif where in MADE:
                    found |= {one: maker for maker in MADE[where] for one in made(maker)}
                else:
                    unknown.append(f"{where} (line {call.lineno})")
    return found, unknown


def joined(text: str) -> Iterator[str]:
    """The texts of a piece of C: neighbouring pieces are one text."""
    pieces: list[str] = []
    end = 0
    for piece in C_TEXT.finditer(text):
        if pieces and text[end : piece.start()].strip():
            yield "".join(pieces)
            pieces = []
        pieces.append(piece[1])
        end = piece.end()
    if pieces:
        yield "".join(pieces)


def c_lines() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((ROOT / "native").rglob("*.c")):
        for call in C_CALL.finditer(path.read_text()):
            for text in joined(call["rest"]):
                shown = re.sub("…+", "…", re.sub(r"%(?:\.\*)?[a-z]+", "…", text.replace('\\"', '"')))
                if len(shown.replace("…", "")) >= CONSTANT_MIN and shown not in PIECES:
                    found[shown] = path.relative_to(ROOT).as_posix()
    return found


def refusals() -> set[str]:
    """Why a start is refused that would lose what was acknowledged."""
    found = set()
    for path in sorted((ROOT / "native" / "recovery").glob("*.c")):
        pattern = r'(?:case JOURNAL_\w+|default): return "((?:[^"\\]|\\.)+)"|recover_refuse\([^;]*?"([^"]+)"\)'
        found |= {"".join(one).replace('\\"', '"') for one in re.findall(pattern, path.read_text())}
    return found
