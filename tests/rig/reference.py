"""Failed tests that say nothing of leafd, since nats-server alone took part in them up to there.

On a machine under load nats-server has no responders for a stream that it has just made, hands a lead over late, or
closes. Such a test may be tried once more than others (tests/run). Whether it may is found out here, strictly: no leafd
was called or ran in the test, and its file uses no code of leafd. A test of both says itself when it asks which.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from tests import servers

NOTE: Final = "nats-server alone was asked"
ROOMS: Final = ("tests/interop/", "tests/hostile/", "tests/wire/")
"""Folders of tests that are played to both servers; elsewhere nats-server is only what leafd's code is tried with."""
OURS: Final = ("leafd", "leafd_spark")


@contextlib.contextmanager
def asked(server: servers.Server) -> Iterator[None]:
    """A failure within is that server's, though servers of the other kind run as well."""
    try:
        yield
    except Exception as error:
        if server.kind == servers.REFERENCE:
            error.add_note(NOTE)
        raise


def alone(test: str, module: ModuleType, error: BaseException) -> bool:
    """Whether nats-server alone took part in that test of the module until the error."""
    if NOTE in getattr(error, "__notes__", ()):
        return True
    return test.startswith(ROOMS) and servers.called() == {servers.REFERENCE} and not uses_leafd(module)


def uses_leafd(module: ModuleType) -> bool:
    """Whether it has anything from leafd's code, itself or through what it has from other modules of the tests."""
    seen, left = set(), [module]
    while left:
        one = left.pop()
        for value in vars(one).values():
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if not isinstance(name, str) or name in seen:
                continue
            seen.add(name)
            if name.split(".")[0] in OURS:
                return True
            if name.startswith("tests.") and name in sys.modules:
                left.append(sys.modules[name])
    return False
