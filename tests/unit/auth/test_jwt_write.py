"""Tokens that this server writes, against one that nsc wrote, whose key is known here."""

from __future__ import annotations

from leafd.auth import jwt_write

SEED = "SAADQKZRTXGUWVZUZABFUWXS2244QCY43IOXX5ZCDP5NTKIZAOG3WPYRYA"
TOKEN = (
    "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJIQTdPWFg2UVZEVVk3Q0lQSTIyM1E1VFo2WU1ITUJFN"
    "jdaVkZaVFdZSVpMVUZFR1hTUTZBIiwiaWF0IjoxNzk1MzM0MzgyLCJpc3MiOiJBQktVV05GNkMySEc0NktSV01DWUxJNTJTSlpCT"
    "VBCRk5UWUFFM0dBRTdDTFJZSjNNWldTVUtOMiIsIm5hbWUiOiJVIiwic3ViIjoiVURGVFdRNVQyQUpaVTNSSklTSERZWUZYRVRLS"
    "1dWQlVKM0xVV1JYTkozVUxaVldWTE9EWDdYSFYiLCJuYXRzIjp7InB1YiI6eyJhbGxvdyI6WyJhLlx1MDAzZSJdfSwic3ViIjp7f"
    "Swic3VicyI6LTEsImRhdGEiOi0xLCJwYXlsb2FkIjotMSwidGFncyI6WyJ0OjEiXSwidHlwZSI6InVzZXIiLCJ2ZXJzaW9uIjoyf"
    "X0.HdVwGe_D2rrU1dZbEMyBF2vN9SK5zz88TS6wa4CNvIu-DrJIx6uSOqZgrUNgg9r8KNNuA_w3qaFKZoA-9DBFCQ"
)


def test_writing() -> None:
    """The same claims, signed at the same time by the same key, are the very token that nsc wrote."""
    body = {"pub": {"allow": ["a.>"]}, "sub": {}, "subs": -1, "data": -1, "payload": -1, "tags": ["t:1"]}
    subject = "UDFTWQ5T2AJZU3RJISHDYYFXETKKWVBUJ3LUWRXNJ3ULZVWVLODX7XHV"
    assert TOKEN == jwt_write.write("user", subject, body, SEED, 1795334382, name="U")
