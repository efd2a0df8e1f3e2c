"""The enrol block: who enrols himself at this server, and as what. Enrolment itself is leafd/enrol."""

from __future__ import annotations

from typing import Final

from leafd.config.schema.base import File, Text
from leafd.config.schema.permissions import Permissions
from leafd.config.schema.section import Section, Takes, option

PLACE: Final = "{{name()}}"
"""In a subject of the template: the box's name, as in the templates of scoped signing keys."""


class Enrol(Section):
    """Boxes that bring a token and are known from then on."""

    account: Text = option(
        "",
        "The account of the boxes: one with jetstream, if their streams are to be collected. With an operator, its key"
        " (A...).",
        takes=Takes.LIVE,
        example="BOXES",
    )
    permissions: Permissions | None = option(
        None,
        'What a box may do; {{name()}} in a subject is its name: { publish: ["telemetry.{{name()}}.>", "$JS.>"] }.'
        " Absent: all that its account has. With an operator the signing key's template says it.",
        takes=Takes.LIVE,
    )
    signing_key: File = option(
        "",
        "With an operator: the file with the seed of a signing key of the account (SA...), best one with a template"
        " (nsc edit signing-key). It signs the users of boxes.",
        takes=Takes.LIVE,
    )
    ca_file: File = option(
        "",
        "The certificate that boxes are to check this server's TLS with; tokens bring it. Absent: leafnodes.tls has one"
        " that signed itself, or boxes trust what their system trusts.",
        takes=Takes.LIVE,
    )
    url: Text = option(
        "",
        "The address of the leaf listener as boxes reach it, for what `leafd enrol token` prints.",
        takes=Takes.LIVE,
        example='"nats-leaf://hub.example.org:7422"',
    )
    directory: Text = option(
        "",
        "Where it is kept who is enrolled. Absent: enrol, beside the streams of store_dir.",
        example='"/var/lib/leafd/enrol"',
    )
