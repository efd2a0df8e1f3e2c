/* command_table.c: see command_table.h.
 *
 * A row begins with what its function takes: the plane, or what the command's numbers name. If there is no such thing,
 * the command is answered STATUS_NOT_FOUND and its function is not called. A command without the shape of its row is
 * answered STATUS_INVALID, and nothing else happens, with two exceptions: LOGIN closes the connection that the command
 * names, which must not be left waiting, or admitted with rights that control took away; DESCRIPTOR closes the file.
 *
 * A row's body: BODY_NONE; BODY_BYTES (any number); BODY_OF(struct); ROWS_OF(struct), none or more of them.
 *
 * A row's strings, in order: `name` is one string; `name*` is a list that an empty string ends; `name...`, only as the
 * last one, is all that follow.
 *
 * An event's members, in Python's names: `member=place`, where a place is a field of plane_event_t. A slice is text, or
 * `place:bytes`, or `place:log` (text for the log), or `place:struct`, whose members take the place of this one.
 */
#include "command/command_table.h"

#include <stddef.h>

#include "jetstream/commands.h"
#include "command/command.h"

/* clang-format off */
#define BODY_NONE "", 0, 0
#define BODY_BYTES "bytes", 0, 1
#define BODY_OF(type) #type, (uint32_t)sizeof(type), 0
#define ROWS_OF(type) #type "[]", 0, (uint32_t)sizeof(type)
#define BODY_OF_POSITION "consumer_config_t consumer_state_t pending_entry_t[]", \
    (uint32_t)(sizeof(consumer_config_t) + sizeof(consumer_state_t)), (uint32_t)sizeof(pending_entry_t)

#define ROW(name, takes, needs, member, function, strings, ...) \
    [COMMAND_##name] = {{COMMAND_##name, needs, #name, strings, __VA_ARGS__}, takes, {.member = function}}
#define PLANE(name, function, body, strings) ROW(name, TAKES_PLANE, NEEDS_NOTHING, plane, function, strings, body)
#define DESCRIPTOR(name, function, body, strings) \
    ROW(name, TAKES_DESCRIPTOR, NEEDS_NOTHING, plane, function, strings, body)
#define ACCOUNT(name, function, body, strings) ROW(name, TAKES_ACCOUNT, NEEDS_ACCOUNT, account, function, strings, body)
#define PEER(name, function, body, strings) ROW(name, TAKES_PEER, NEEDS_CONNECTION, peer, function, strings, body)
#define LOGIN(name, function, body, strings) ROW(name, TAKES_LOGIN, NEEDS_CONNECTION, peer, function, strings, body)
#define JETSTREAM(name, function, body, strings) \
    ROW(name, TAKES_JETSTREAM, NEEDS_NOTHING, jetstream, function, strings, body)
#define STREAM(name, function, body, strings) ROW(name, TAKES_STREAM, NEEDS_STREAM, stream, function, strings, body)
#define CONSUMER(name, function, body, strings) \
    ROW(name, TAKES_BINDING, NEEDS_CONSUMER, binding, function, strings, body)

#define LISTS "publish_allow* publish_deny* subscribe_allow* subscribe_deny*"
#define WHO " author..." /* none or one */
#define CONSUMER_STRINGS "name definition deliver_subject deliver_group backoff priority_groups filters..."

static const command_row_t command_rows[] = {
    DESCRIPTOR(LISTEN,      command_listen,         BODY_NONE,                    ""),
    PLANE(UNLISTEN,         command_unlisten,       BODY_NONE,                    ""),
    DESCRIPTOR(ADOPT,       command_adopt,          BODY_NONE,                    ""),
    PEER(SEND,              command_send,           BODY_BYTES,                   ""),
    PEER(RESUME,            command_resume,         BODY_NONE,                    ""),
    PEER(CLOSE,             command_close,          BODY_BYTES,                   ""),
    LOGIN(ADMIT,            command_admit,          BODY_OF(conn_verdict_t),      "after_pong " LISTS WHO),
    LOGIN(ADMIT_LEAF,       command_admit,          BODY_OF(conn_verdict_t),
        "cluster loop_subject " LISTS " mapped_deny*" WHO),
    LOGIN(ADMIT_ROUTE,      command_admit_route,    BODY_OF(route_terms_t),       LISTS " server..."),
    LOGIN(ROUTE_RIGHTS,     command_route_rights,   BODY_NONE,                    LISTS),
    LOGIN(ADMIT_GATEWAY,    command_admit_gateway,  BODY_OF(gateway_terms_t),     "name"),
    PLANE(GATEWAY,          command_gateway,        BODY_NONE,                    "name server"),
    LOGIN(RIGHTS,           command_rights,         BODY_OF(conn_verdict_t),      "after_pong " LISTS WHO),
    PLANE(MQTT,             command_mqtt,           BODY_OF(mqtt_limits_t),       "domain"),
    PLANE(PLACED,           command_placed,         BODY_NONE,                    "account stream subjects..."),
    PLANE(BROADCAST,        command_broadcast,      BODY_BYTES,                   ""),
    PLANE(CONNECTIONS,      command_connections,    BODY_NONE,                    ""),
    PEER(SUBSCRIPTIONS,     command_subscriptions,  BODY_NONE,                    ""),
    PLANE(LIMITS,           command_limits,         BODY_OF(plane_limits_t),      ""),
    PLANE(TLS,              command_tls,            BODY_NONE,                    ""),
    PEER(SECURE,            command_secure,         BODY_OF(secure_t),            "before behind name"),
    PEER(COMPRESS,          command_compress,       BODY_OF(compression_t),       "before behind"),
    PEER(PRECEDENCE,        command_precedence,     BODY_NONE,                    "rules..."),
    PEER(BUDGET,            command_budget,         BODY_OF(budget_t),            ""),
    PEER(UPGRADE,           command_upgrade,        BODY_BYTES,                   ""),
    PEER(DESCRIBE,          command_describe,       BODY_NONE,                    "before between place behind"),
    PLANE(ACCOUNT,          command_account,        BODY_NONE,                    "name domain"),
    PLANE(GREET,            command_greet,          BODY_OF(secure_t),            "before behind"),
    ACCOUNT(REMEMBER,       command_remember,       BODY_OF(conn_verdict_t),      "connect after_pong " LISTS WHO),
    PLANE(FORGET,           command_forget,         BODY_NONE,                    "connect"),
    PLANE(AUTHOR,           command_author,         BODY_OF(conn_verdict_t),      LISTS " mapped_deny*"),
    PLANE(AUTHORS_FORGET,   command_authors_forget, BODY_NONE,                    ""),
    ACCOUNT(TRACES,         command_traces,         BODY_NONE,                    "destination"),
    ACCOUNT(ALLOW,          command_allow,          BODY_OF(allowed_t),           ""),
    ACCOUNT(SUBSCRIBE,      command_subscribe,      BODY_NONE,                    "subject queue"),
    PLANE(UNSUBSCRIBE,      command_unsubscribe,    BODY_NONE,                    ""),
    ACCOUNT(PUBLISH,        command_publish,        BODY_BYTES,                   "subject reply header"),
    ACCOUNT(MAPPING,        command_mapping,        BODY_NONE,                    "mappings..."),
    ACCOUNT(IMPORTS,        command_imports,        ROWS_OF(import_row_t),        "rows..."),
    ACCOUNT(INTEREST,       command_interest,       BODY_NONE,                    "subject"),
    JETSTREAM(STREAM_PUT,   stream_put,             BODY_OF(stream_config_t),
        "name definition domain source destination republish_source republish_destination subjects..."),
    STREAM(STREAM_REMOVE,   stream_remove,          BODY_NONE,                    ""),
    STREAM(STREAM_STATE,    stream_state,           BODY_NONE,                    "filter"),
    JETSTREAM(STREAM_BYTES, stream_bytes,           ROWS_OF(uint32_t),            ""),
    STREAM(STREAM_PURGE,    stream_purge,           BODY_NONE,                    "filter"),
    STREAM(MESSAGE_GET,     message_get,            BODY_OF(message_query_t),     "subject"),
    STREAM(MESSAGE_DELETE,  message_delete,         BODY_NONE,                    ""),
    STREAM(STREAM_FILL,     stream_fill,            BODY_BYTES,                   "subject header upto origin"),
    STREAM(CONSUMER_PUT,    binding_put,            BODY_OF(consumer_config_t),   CONSUMER_STRINGS),
    CONSUMER(CONSUMER_REMOVE, binding_remove,       BODY_NONE,                    ""),
    CONSUMER(CONSUMER_STATE, binding_state,         BODY_NONE,                    ""),
    JETSTREAM(CONSUMERS_STATE, bindings_state,      ROWS_OF(consumer_place_t),    ""),
    CONSUMER(CONSUMER_PAUSE, binding_pause,         BODY_NONE,                    ""),
    CONSUMER(CONSUMER_RESET, binding_reset,         BODY_NONE,                    ""),
    CONSUMER(CONSUMER_UNPIN, binding_unpin,         BODY_NONE,                    ""),
    CONSUMER(CONSUMER_BEGIN, binding_begin,         BODY_NONE,                    ""),
    CONSUMER(CONSUMER_SPARE, binding_spare,         BODY_NONE,                    ""),
    STREAM(INGEST_START,    ingest_start,           BODY_OF(ingest_config_t),
        "deliver_subject consumer name filters destinations identity key origin transforms..."),
    STREAM(INGEST_STOP,     ingest_stop,            BODY_NONE,                    ""),
    JETSTREAM(INGESTS_STATE, ingests_state,         ROWS_OF(uint64_t),       ""),
    STREAM(INGEST_FORGET,   ingest_forget,          BODY_NONE,                    "key"),
    ACCOUNT(META_OPEN,      command_meta_open,      BODY_NONE,                    ""),
    PLANE(META_FOUND,       command_meta_found,     ROWS_OF(meta_disk_t),         ""),
    PLANE(META_SEND,        command_meta_send,      BODY_BYTES,                   ""),
    PLANE(META_LOOK,        command_meta_look,      BODY_NONE,                    ""),
    PLANE(META_PUT,         command_meta_put,       BODY_NONE,                    "key value"),
    PLANE(META_ROWS,        command_meta_rows,      BODY_NONE,                    ""),
    PLANE(META_TRANSFER,    command_meta_transfer,  BODY_NONE,                    ""),
    PLANE(META_ALTER,       command_meta_alter,     BODY_OF(meta_disk_t),         ""),
    PLANE(META_WAYS,        command_meta_ways,      ROWS_OF(meta_way_t),          ""),
    STREAM(STREAM_GROUP,    stream_group,           ROWS_OF(meta_disk_t),         ""),
    STREAM(STREAM_GROUP_LOOK, stream_group_look,    BODY_NONE,                    ""),
    STREAM(STREAM_GROUP_TRANSFER, stream_group_transfer, BODY_NONE,               ""),
    STREAM(STREAM_GROUP_ALTER, stream_group_alter,  BODY_OF(meta_disk_t),         ""),
    STREAM(STREAM_CONSUMERS_MADE, stream_consumers_made, BODY_NONE,               ""),
    JETSTREAM(CONSUMERS_COUNT, consumers_count,     ROWS_OF(uint32_t),            ""),
    STREAM(CONSUMERS_STORED, consumers_stored,      BODY_NONE,                    ""),
    STREAM(STREAM_DEFINE,   stream_define,          BODY_NONE,                    "definition"),
    JETSTREAM(RECORD_PUT,   record_put,             BODY_NONE,                    "key value"),
    STREAM(STREAM_EXPORT,   stream_export,          BODY_NONE,                    ""),
    STREAM(STREAM_IMPORT,   stream_import,          BODY_BYTES,                   ""),
    CONSUMER(CONSUMER_EXPORT, binding_export,       BODY_NONE,                    ""),
    STREAM(CONSUMER_IMPORT, binding_import,         BODY_OF_POSITION,             CONSUMER_STRINGS),
};

#define EVENT(name, members) {EVENT_##name, #name, members}

static const plane_event_row_t event_rows[] = {
    EVENT(OPENED,        "connection=target kind=code listener=arg peer=subject greeted=arg2 round_trip_ns=token"),
    EVENT(LINE,          "connection=target kind=code payload=payload:bytes known=arg named=header:bytes"),
    EVENT(CAME,          "connection=target kind=code peer=subject payload=payload:bytes named=header:bytes"),
    EVENT(SECURED,       "connection=target flags=code version=arg size=arg2 cipher=subject certificate=payload:bytes"
                         " chain=header:bytes"),
    EVENT(PROXIED,       "connection=target peer=subject fault=payload:log"),
    EVENT(CLOSED,        "connection=target reason=code text=payload:log carried=header:carried_t rows=reply:bytes"),
    EVENT(MESSAGE,       "subscription=target account=account connection=arg connection_kind=arg2 subject=subject"
                         " reply=reply header=header:bytes payload=payload:bytes payer=code credit=token"),
    EVENT(DONE,          "token=token status=status arg=arg arg2=arg2 subject=subject:bytes header=header:bytes"
                         " payload=payload:bytes"),
    EVENT(ADVISORY,      "code=code stream=target consumer=arg advisory=payload:advisory_t text=subject"),
    EVENT(INGEST,        "stream=target slot=arg code=code status=status last_sequence=arg2"),
    EVENT(ALARM,         "code=code stream=target sequence=arg text=payload:log upto=arg2 certain=token"),
    EVENT(LEAF_ERR,      "connection=target text=payload:log untold=arg"),
    EVENT(LEAF_INFO,     "connection=target payload=payload:bytes"),
    EVENT(TRACE,         "connection=target text=payload:log header=header:bytes body=reply:bytes header_size=arg"
                         " body_size=arg2"),
    EVENT(MESSAGE_TRACE, "connection=target account=account kind=code size=arg hops=arg2 destination=subject"
                         " subject=reply header=header:bytes records=payload:bytes"),
    EVENT(LATENCY,       "account=account status=code responder=arg subject=subject reply=reply header=header:bytes"
                         " measured=payload:bytes"),
    EVENT(LATENCY_FAR,   "connection=target account=account reply=subject took_ns=arg round_trip_ns=arg2"),
    EVENT(CONSUMER_GONE, "stream=target consumer=arg taken=arg2"),
    EVENT(ALLOWANCE,     "account=account storage=target level=code bytes=arg limit=arg2 tier=token"),
    EVENT(AUTHOR,        "code=code account=account ticket=arg stream=target author=header denied=subject"
                         " schedule=reply left_out=arg2"),
    EVENT(REACHED,       "account=account subject=subject"),
    EVENT(CARRIED,       "connection=target wire=arg"),
    EVENT(DOUBTED,       "connection=target doubted=arg"),
    EVENT(LED,           "stream=target code=code consumer=arg definition=payload:bytes"),
    EVENT(LETTER,        "connection=target peer=arg payload=payload:bytes"),
    EVENT(REFUSED,       "connection=target code=code subject=subject queue=reply sid=payload:log size=arg"
                         " left_out=arg2"),
};
/* clang-format on */

#define COMMAND_NUMBERS (sizeof(command_rows) / sizeof(command_rows[0]))
#define EVENT_ROWS (sizeof(event_rows) / sizeof(event_rows[0]))

const command_row_t *command_row(uint32_t op) {
    return op < COMMAND_NUMBERS && command_rows[op].shape.name != NULL ? &command_rows[op] : NULL;
}

const plane_command_row_t *plane_command_row(uint32_t index) {
    for (uint32_t op = 0; op < COMMAND_NUMBERS; op++) {
        if (command_row(op) != NULL && index-- == 0) {
            return &command_rows[op].shape;
        }
    }
    return NULL;
}

const plane_event_row_t *plane_event_row(uint32_t index) {
    return index < EVENT_ROWS ? &event_rows[index] : NULL;
}
