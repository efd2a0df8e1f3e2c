"""The part of the plane that leaf links need. Not here: the plane itself (native.py), what is asked of
it when (leafs.py)."""

from __future__ import annotations

from typing import Protocol

from leafd import native_types as t


class LeafPlane(Protocol):
    """The part of native.Plane that this room needs."""

    async def adopt(self, fd: int, kind: t.ConnKind, *, secure: bool, web: bool) -> int: ...
    def upgrade(self, connection: int, kind: t.ConnKind, flags: t.WebFlag, answer: bytes = ...) -> None: ...
    def secure(
        self, connection: int, how: t.Secure, *, before: bytes = b"", behind: bytes = b"", name: str = ""
    ) -> None: ...
    def send(self, connection: int, frame: bytes) -> None: ...
    def precede(self, connection: int, rules: tuple[str, ...]) -> None: ...
    def budget(self, connection: int, budget: t.Budget) -> None: ...
    def compress(self, connection: int, how: t.Compress, *, before: bytes = ..., behind: bytes = ...) -> None: ...
    def resume(self, connection: int) -> None: ...
    def close_connection(self, connection: int, text: str = "", reason: int = ...) -> None: ...
    def admit_leaf(
        self,
        connection: int,
        account: int,
        verdict: t.ConnVerdict,
        permissions: t.Permissions,
        *,
        cluster: str,
        loop_subject: str,
        remote_domain: str,
    ) -> None: ...
