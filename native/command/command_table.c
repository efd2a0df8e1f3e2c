/* command_table.c: the one table of the commands of abi.h (number, name, what they need, body, strings in order) and
 * the one of its events. Python packs commands and reads events by these rows, so no order is written twice.
 *
 * What does not live here: who runs a command (command.c), what it does, and whether its content makes sense.
 *
 * Needs: what has to exist, or the command is answered STATUS_NOT_FOUND.
 *
 * A row's body: BODY_NONE; BODY_BYTES (any number); BODY_OF(struct); ROWS_OF(struct), none or more of them.
 *
 * A row's strings, in order: `name` is one string; `name*` is a list that an empty string ends; `name...`, only as the
 * last one, is all that follow.
 *
 * An event's members, in Python's names: `member=place`, where a place is a field of plane_event_t. A slice is text, or
 * `place:bytes`, or `place:log` (text for the log), or `place:struct`, whose members take the place of this one.
 */
#include <stddef.h>

#include "base/abi_types.h"

/* clang-format off */
#define BODY_NONE "", 0, 0
#define BODY_BYTES "bytes", 0, 1
#define BODY_OF(type) #type, (uint32_t)sizeof(type), 0
#define ROWS_OF(type) #type "[]", 0, (uint32_t)sizeof(type)
#define BODY_OF_POSITION "consumer_config_t consumer_state_t pending_entry_t[]", \
    (uint32_t)(sizeof(consumer_config_t) + sizeof(consumer_state_t)), (uint32_t)sizeof(pending_entry_t)
#define ROW(name, needs, body, strings) {COMMAND_##name, NEEDS_##needs, #name, strings, body}

#define LISTS "publish_allow* publish_deny* subscribe_allow* subscribe_deny*"
#define CONSUMER_STRINGS "name definition deliver_subject deliver_group backoff filters..."

static const plane_command_row_t command_rows[] = {
    ROW(LISTEN,          NOTHING,    BODY_NONE,                  ""),
    ROW(UNLISTEN,        NOTHING,    BODY_NONE,                  ""),
    ROW(ADOPT,           NOTHING,    BODY_NONE,                  ""),
    ROW(SEND,            CONNECTION, BODY_BYTES,                 ""),
    ROW(RESUME,          CONNECTION, BODY_NONE,                  ""),
    ROW(CLOSE,           CONNECTION, BODY_BYTES,                 ""),
    ROW(ADMIT,           NOTHING,    BODY_OF(conn_verdict_t),    "after_pong " LISTS),
    ROW(ADMIT_LEAF,      NOTHING,    BODY_OF(conn_verdict_t),
        "cluster loop_subject remote_domain " LISTS " mapped_deny*"),
    ROW(RIGHTS,          NOTHING,    BODY_OF(conn_verdict_t),    "after_pong " LISTS),
    ROW(BROADCAST,       NOTHING,    BODY_BYTES,                 ""),
    ROW(CONNECTIONS,     NOTHING,    BODY_NONE,                  ""),
    ROW(SUBSCRIPTIONS,   NOTHING,    BODY_NONE,                  ""),
    ROW(ACCOUNT,         NOTHING,    BODY_NONE,                  "name domain"),
    ROW(SUBSCRIBE,       ACCOUNT,    BODY_NONE,                  "subject queue"),
    ROW(UNSUBSCRIBE,     NOTHING,    BODY_NONE,                  ""),
    ROW(PUBLISH,         ACCOUNT,    BODY_BYTES,                 "subject reply header"),
    ROW(MAPPING,         ACCOUNT,    BODY_NONE,                  "mappings..."),
    ROW(IMPORTS,         ACCOUNT,    ROWS_OF(import_row_t),      "rows..."),
    ROW(STREAM_PUT,      NOTHING,    BODY_OF(stream_config_t),
        "name definition domain source destination republish_source republish_destination subjects..."),
    ROW(STREAM_REMOVE,   STREAM,     BODY_NONE,                  ""),
    ROW(STREAM_STATE,    STREAM,     BODY_NONE,                  "filter"),
    ROW(STREAM_PURGE,    STREAM,     BODY_NONE,                  "filter"),
    ROW(MESSAGE_GET,     STREAM,     BODY_OF(message_query_t),   "subject"),
    ROW(MESSAGE_DELETE,  STREAM,     BODY_NONE,                  ""),
    ROW(CONSUMER_PUT,    STREAM,     BODY_OF(consumer_config_t), CONSUMER_STRINGS),
    ROW(CONSUMER_REMOVE, CONSUMER,   BODY_NONE,                  ""),
    ROW(CONSUMER_STATE,  CONSUMER,   BODY_NONE,                  ""),
    ROW(CONSUMER_PAUSE,  CONSUMER,   BODY_NONE,                  ""),
    ROW(CONSUMER_RESET,  CONSUMER,   BODY_NONE,                  ""),
    ROW(INGEST_START,    STREAM,     BODY_OF(ingest_config_t),
        "deliver_subject consumer name filters destinations identity key transforms..."),
    ROW(INGEST_STOP,     STREAM,     BODY_NONE,                  ""),
    ROW(INGEST_STATE,    STREAM,     BODY_NONE,                  ""),
    ROW(INGEST_FORGET,   STREAM,     BODY_NONE,                  "key"),
    ROW(RECORD_PUT,      NOTHING,    BODY_NONE,                  "key value"),
    ROW(RECORD_DELETE,   NOTHING,    BODY_NONE,                  "key"),
    ROW(LIMITS,          NOTHING,    BODY_OF(plane_limits_t),    ""),
    ROW(STREAM_EXPORT,   STREAM,     BODY_NONE,                  ""),
    ROW(STREAM_IMPORT,   STREAM,     BODY_BYTES,                 ""),
    ROW(CONSUMER_EXPORT, STREAM,     BODY_NONE,                  ""),
    ROW(CONSUMER_IMPORT, STREAM,     BODY_OF_POSITION,           CONSUMER_STRINGS),
    ROW(INTEREST,        ACCOUNT,    BODY_NONE,                  "subject"),
};

#define EVENT(name, members) {EVENT_##name, #name, members}

static const plane_event_row_t event_rows[] = {
    EVENT(OPENED,        "connection=target kind=code listener=arg peer=subject"),
    EVENT(LINE,          "connection=target kind=code payload=payload:bytes"),
    EVENT(CLOSED,        "connection=target reason=code text=payload:log"),
    EVENT(MESSAGE,       "subscription=target account=account connection=arg connection_kind=arg2 subject=subject"
                         " reply=reply header=header:bytes payload=payload:bytes payer=code credit=token"),
    EVENT(DONE,          "token=token status=status arg=arg arg2=arg2 subject=subject:bytes header=header:bytes"
                         " payload=payload:bytes"),
    EVENT(ADVISORY,      "code=code stream=target consumer=arg advisory=payload:advisory_t text=subject"),
    EVENT(INGEST,        "stream=target slot=arg code=code status=status last_sequence=arg2"),
    EVENT(ALARM,         "code=code stream=target sequence=arg text=payload:log"),
    EVENT(LEAF_ERR,      "connection=target text=payload:log untold=arg"),
    EVENT(LEAF_INFO,     "connection=target payload=payload:bytes"),
    EVENT(TRACE,         "connection=target text=payload:log"),
    EVENT(CONSUMER_GONE, "stream=target consumer=arg"),
    EVENT(REFUSED,       "connection=target code=code subject=subject queue=reply sid=payload:log size=arg"
                         " left_out=arg2"),
};
/* clang-format on */

#define COMMAND_ROWS (sizeof(command_rows) / sizeof(command_rows[0]))
#define EVENT_ROWS (sizeof(event_rows) / sizeof(event_rows[0]))

const plane_command_row_t *plane_command_row(uint32_t index) {
    return index < COMMAND_ROWS ? &command_rows[index] : NULL;
}

const plane_event_row_t *plane_event_row(uint32_t index) {
    return index < EVENT_ROWS ? &event_rows[index] : NULL;
}
