"""Stream templates: a stream for each subject that a message comes for and that no stream takes.

    STREAM.TEMPLATE.CREATE.T   a record; from now on the plane hands over what is published to the template's subjects
                               and no stream takes (SUBSCRIBE_TEMPLATE), and its publisher waits
    take()                     the stream is made, the message goes into it and is acknowledged by it, its publisher
                               goes on (Plane.repay)
    STREAM.TEMPLATE.DELETE.T   the template goes with all streams that it has made

nats-server had them until 2.10, with these requests, replies and error codes; no client of today asks for them. So the
requests are answered only in an account that has had a template, but for CREATE, and this module is imported when the
first of them is made or found on disk. A stream's definition says which template made it; a template's streams are
those, so the two cannot disagree after a crash. Not here: what a stream may be (stream_rules.py).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final

import trio

from leafd import native_types as t
from leafd.fair import FairQueue
from leafd.gojson import TEXT, Integer, Nested, Struct, decode, dump, loose, wire, written
from leafd.jetstream import errors
from leafd.jetstream.catalogue import TEMPLATE_RECORD, JetStreamAccount, Stream, Template, author_of
from leafd.jetstream.context import Context
from leafd.jetstream.endpoints.pages import page_of
from leafd.jetstream.endpoints.streams import NAMES_LIMIT, made, overlaps, refused, remove
from leafd.jetstream.errors import ApiError, Row
from leafd.jetstream.models.requests import StreamNamesRequest
from leafd.jetstream.models.stream import StreamConfig
from leafd.jetstream.publishing import author_for
from leafd.jetstream.registry import Among, Body, Call, Lock, endpoint
from leafd.jetstream.rules.stream_rules import NAME_SIZE_MAX, checked, refuse_unsupported
from leafd.jetstream.rules.versioning import static_stream
from leafd.jetstream.subjects import SubjectSet, storable, subset, valid_name
from leafd.quoting import quoted
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.guard import Guard
    from leafd.operator_log import Log

TEMPLATES_MAX: Final = 1024
AT_WORK_MAX: Final = 16
AT_WORK_EACH: Final = 4
_CREATE: Final = Row(10066, 500, "{err}")
_DELETE: Final = Row(10067, 500, "{err}")
_NOT_FOUND: Final = Row(10068, 404, "template not found")
_MISMATCH: Final = Row(10073, 400, "template name in subject does not match request")
_SUBJECT: Final = Row(10003, 400, "bad request: message subject is not valid")
_NO_PAGE: Final = {"total": 0, "offset": 0, "limit": 0}


@dataclass(frozen=True, slots=True)
class TemplateConfig(Struct):
    """Body of STREAM.TEMPLATE.CREATE, and what a record keeps. config: of the streams, without a name."""

    go_name: ClassVar[str] = "StreamTemplateConfig"

    name: str = wire(TEXT, "name")
    config: StreamConfig | None = wire(Nested(StreamConfig), "config")
    max_streams: int = wire(Integer("uint32", 0, (1 << 32) - 1), "max_streams")


# ---- requests --------------------------------------------------------------------------------------------------------


@endpoint(
    "STREAM.TEMPLATE.CREATE.*",
    "stream_template_create_response",
    TemplateConfig,
    body=Body.REQUIRED,
    lock=Lock.ACCOUNT,
    among=Among.NONE,
)
async def create(call: Call, request: TemplateConfig) -> dict[str, Any]:
    """Makes a template; its streams come with messages."""
    templates = call.account.templates or {}
    if request.name != call.name(3):
        raise _MISMATCH.error()
    if not valid_name(request.name) or len(request.name.encode()) > NAME_SIZE_MAX:
        raise _CREATE.error(err=f"template name can not contain '.', '*', '>', or be longer than {NAME_SIZE_MAX}")
    if request.name in templates:
        raise _CREATE.error(err=f'template with name "{request.name}" already exists')
    if len(templates) >= TEMPLATES_MAX:
        raise _CREATE.error(err=f"an account has at most {TEMPLATES_MAX} templates")
    if not request.max_streams:
        raise _CREATE.error(err="max_streams must be at least 1")
    config = _judged(call, request.config or StreamConfig())
    author = await author_for(call.asker, config)
    if overlaps(SubjectSet(config.subjects), (one.config.subjects for one in templates.values())):
        raise _CREATE.error(err="subjects overlap with an existing template")
    template = Template(request.name, config, request.max_streams, author=author)
    try:
        await call.context.plane.record_put(_key(call.account.name, template.name), _record(call.account, template))
    except t.PlaneError as error:
        raise refused(error, _CREATE) from None
    call.context.templates.serve(call.account, template)
    return _info(call.account, template)


def _judged(call: Call, config: StreamConfig) -> StreamConfig:
    """The configuration with its defaults, by the rules of streams. A template's streams acknowledge to publishers, and
    would catch these acknowledgements: so its subjects may be no server's own even without them."""
    if config.name:
        raise _CREATE.error(err="template config name should be empty")
    if not config.subjects:
        raise _CREATE.error(err="template config needs subjects")
    if config.mirror is not None or config.sources or config.sealed:
        raise _CREATE.error(err="template config can not have a mirror, sources, or be sealed")
    context = call.context.for_streams(call.account)
    checked(replace(config, name="_", no_ack=False), context, pedantic=False)
    judged = checked(replace(config, name="_"), context, pedantic=False)
    if judged.num_replicas > 1:
        raise errors.STREAM_REPLICAS_NOT_SUPPORTED.error()
    refuse_unsupported(judged)
    return replace(judged, name="")


@endpoint(
    "STREAM.TEMPLATE.NAMES",
    "stream_template_names_response",
    StreamNamesRequest,
    body=Body.IF_JSON,
    failed=_NO_PAGE | {"streams": []},
    among=Among.NONE,
)
async def names(call: Call, request: StreamNamesRequest) -> dict[str, Any]:
    """Names of templates, a page at a time."""
    page, place = page_of(sorted(call.account.templates or ()), request.offset, NAMES_LIMIT)
    return place | {"streams": page}


@endpoint("STREAM.TEMPLATE.INFO.*", "stream_template_info_response", among=Among.NONE)
async def info(call: Call, _request: None) -> dict[str, Any]:
    """A template and the names of the streams that it has made."""
    return _info(call.account, _known(call))


@endpoint(
    "STREAM.TEMPLATE.DELETE.*",
    "stream_template_delete_response",
    body=Body.EMPTY,
    lock=Lock.ACCOUNT,
    among=Among.NONE,
)
async def delete(call: Call, _request: None) -> dict[str, Any]:
    """Removes a template and its streams. Its record goes last: what a crash leaves behind can be deleted again."""
    template, serving = _known(call), call.context.templates
    serving.withdraw(call.account, template)
    try:
        for stream in _streams_of(call.account, template):
            await remove(call.context, stream)
        await call.context.plane.record_put(_key(call.account.name, template.name), b"")
    except (ApiError, t.PlaneError) as error:
        serving.serve(call.account, template)
        raise _DELETE.error(err=error) from None
    return {"success": True}


def _known(call: Call) -> Template:
    found = (call.account.templates or {}).get(call.name(3))
    if found is None:
        raise _NOT_FOUND.error()
    return found


def _streams_of(account: JetStreamAccount, template: Template) -> list[Stream]:
    return [stream for stream in account.sorted_streams() if stream.template == template.name]


def _info(account: JetStreamAccount, template: Template) -> dict[str, Any]:
    streams = [stream.name for stream in _streams_of(account, template)]
    return {"config": _written(template), "streams": streams}


def _written(template: Template) -> dict[str, Any]:
    members: dict[str, Any] = written(TemplateConfig(template.name, template.config, template.max_streams))
    return members


# ---- records ---------------------------------------------------------------------------------------------------------


def _key(account: str, name: str) -> bytes:
    return TEMPLATE_RECORD + sha256(f"{account}\0{name}".encode()).hexdigest()[:32].encode()


def _record(account: JetStreamAccount, template: Template) -> bytes:
    members = {"account": account.name, "template": _written(template)}
    return dump(members | {"author": template.author} if template.author else members)


def read_template(record: bytes) -> Template:
    """The template of a record."""
    found = decode(TemplateConfig, dump(loose(record)["template"]), strict=False)
    if found.config is None:
        raise ValueError("it has no configuration")
    return Template(found.name, found.config, found.max_streams, author=author_of(record))


# ---- messages --------------------------------------------------------------------------------------------------------


class Templates:
    """The templates of all accounts at work: makes the streams that messages come for."""

    def __init__(self, context: Context, log: Log, guard: Guard) -> None:
        self._context = context
        self._log = log
        self._guard = guard
        self._waiting: FairQueue[tuple[JetStreamAccount, Template, t.Message]] = FairQueue(
            at_work=AT_WORK_MAX, at_work_each=AT_WORK_EACH
        )
        self._full: set[tuple[str, str]] = set()

    def serve(self, account: JetStreamAccount, template: Template) -> None:
        """Messages that no stream of the account takes come here from now on."""
        handler = partial(self.take, account, template.name)
        subscriptions = tuple(
            self._context.plane.subscribe(account.id, subject, handler, flags=int(t.SubscribeFlag.TEMPLATE))
            for subject in template.config.subjects
        )
        if account.templates is None:
            account.templates = {}
        account.templates[template.name] = replace(template, subscriptions=subscriptions)

    def load(self, account: JetStreamAccount, record: bytes) -> None:
        """Serves a stored template of that account. Raises when it cannot be read."""
        self.serve(account, read_template(record))

    def withdraw(self, account: JetStreamAccount, template: Template) -> None:
        """Makes no stream any more."""
        for subscription in template.subscriptions:
            self._context.plane.unsubscribe(account.id, subscription)
        if account.templates is not None:
            account.templates.pop(template.name, None)
        self._full.discard((account.name, template.name))

    async def run(self) -> None:
        """Makes streams until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(self._serve, *await self._waiting.take())

    def take(self, account: JetStreamAccount, name: str, message: t.Message) -> bool:
        """A message for which the template of that name is to make a stream; its publisher waits until it is there."""
        template = (account.templates or {}).get(name)
        if template is not None:
            self._waiting.put(message.payer or message.account, message.connection, (account, template, message))
        return template is not None

    async def _serve(self, account: JetStreamAccount, template: Template, message: t.Message) -> None:
        try:
            with self._guard.around("making the stream of a template"):
                await self.found(account, template, message)
        finally:
            self._waiting.done(message.payer or message.account, message.connection)
            self._context.plane.repay(message)

    async def found(self, account: JetStreamAccount, template: Template, message: t.Message) -> None:
        """Makes the stream, unless another message has had it made, and stores the message; or says why not."""
        refusal = errors.STREAM_NOT_FOUND.error()
        async with account.lock:
            if account.enabled and template.name in (account.templates or {}):
                try:
                    await self._make(account, template, message.subject)
                except ApiError as error:
                    refusal = error
        stored = await self._context.plane.publish_counted(
            account.id,
            message.subject,
            message.payload,
            reply=message.reply,
            header=message.header,
            flags=int(t.PublishFlag.STREAMS),
        )
        if not stored and message.reply and not template.config.no_ack:
            body = dump({"error": refusal.fields(), "stream": "", "seq": 0})
            self._context.plane.publish(account.id, message.reply, body)

    async def _make(self, account: JetStreamAccount, template: Template, subject: str) -> None:
        if not storable(subject):
            # A stream of foo.* would take what is everybody's.
            raise _SUBJECT.error()
        name = _free_name(account, template, subject)
        if not name:
            return
        place = (account.name, template.name)
        try:
            # They are counted only where there may be as many.
            if len(account.streams) >= template.max_streams <= len(_streams_of(account, template)):
                raise errors.MAXIMUM_STREAMS_LIMIT.error()
            config = static_stream(replace(template.config, name=name, subjects=(subject,)))
            config = checked(config, self._context.for_streams(account), pedantic=False)
            await made(self._context, account, config, template.name, author=template.author)
        except ApiError as error:
            if place not in self._full:
                self._full.add(place)
                self._log.warning(
                    f"stream template {quoted(template.name)} of account {quoted(account.name)} makes no stream for "
                    f"subject {quoted(subject)}: {error.description}",
                    event="template_refused",
                    account=account.name,
                )
            raise
        self._full.discard(place)


def _free_name(account: JetStreamAccount, template: Template, subject: str) -> str:
    """The name of the stream to be made: the template's, and what the subject has in place of the wildcards; where
    another stream has that name, a number behind it. Empty: the stream is there."""
    filled = _filled(template, subject)
    plain = "_".join((template.name, *filled)).translate(_UNFIT)
    for number in count(1):
        name = plain if number == 1 else f"{plain}_{number}"
        known = account.streams.get(name)
        if known is not None and any(subset(subject, one) for one in known.config.subjects):
            return ""
        if known is None and name not in account.aside and name not in account.restoring:
            return name
    raise AssertionError


_UNFIT: Final = str.maketrans(dict.fromkeys(" \t\f/\\*>", "_"))
"""Characters that a subject's token may have and a stream's name may not."""


def _filled(template: Template, subject: str) -> list[str]:
    tokens = subject.split(".")
    source = next(one for one in template.config.subjects if subset(subject, one)).split(".")
    found = [token for token, wanted in zip(tokens, source, strict=False) if wanted in ("*", ">")]
    return found + (tokens[len(source) :] if source[-1] == ">" else [])
