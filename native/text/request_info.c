/* request_info.c: see request_info.h. Not here: who asks (plane/cross.c). */
#include "text/request_info.h"

#include "text/headers.h"
#include "text/json.h"
#include "text/text.h"

static const bytes_t request_info = {(const uint8_t *)"Nats-Request-Info", 17};

static void add_json_string(text_t *text, bytes_t string) {
    text_add_literal(text, "\"");
    for (uint32_t i = 0; i < string.size; i++) {
        uint8_t c = string.at[i];
        if (c == '"' || c == '\\') {
            text_add_literal(text, "\\");
        }
        text_add(text, c < 0x20 ? BYTES_LITERAL(" ") : bytes_of(&c, 1));
    }
    text_add_literal(text, "\"");
}

status_t request_info_json(buffer_t *out, const request_info_t *info) {
    text_t account, rest;
    account.size = rest.size = 0;
    text_add_literal(&account, "\"acc\":");
    add_json_string(&account, info->account);
    if (info->service.size != 0) {
        text_add_literal(&account, ",\"svc\":");
        add_json_string(&account, info->service);
    }
    if (info->rtt_ns > 0) {
        text_add_literal(&rest, ",\"rtt\":");
        text_add_number(&rest, (uint64_t)info->rtt_ns);
    }
    bytes_t rtt = text_bytes(&rest);
    const bytes_t *who = info->who.parts;
    const bytes_t parts[] = {
        BYTES_LITERAL("{"),     who[DESCRIPTION_BEFORE], text_bytes(&account), who[DESCRIPTION_BETWEEN], rtt,
        who[DESCRIPTION_PLACE], who[DESCRIPTION_BEHIND]};
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && status == STATUS_OK; i++) {
        status = buffer_append(out, parts[i].at, parts[i].size);
    }
    rest.size = 0;
    if (info->reply.size != 0) {
        text_add_literal(&rest, ",\"reply\":");
        add_json_string(&rest, info->reply);
    }
    text_add_literal(&rest, "}");
    bytes_t end = text_bytes(&rest);
    return status == STATUS_OK ? buffer_append(out, end.at, end.size) : status;
}

static bytes_t info_of(bytes_t header) {
    bytes_t value;
    json_error_t error;
    return headers_find(header, request_info, &value) && json_valid(value, &error) ? value : BYTES_NONE;
}

static bytes_t info_member(bytes_t info, const char *name) {
    uint32_t at = 0;
    for (json_field_t field; info.size != 0 && json_next(info, &at, &field);) {
        if (json_named(&field, name) && field.kind == JSON_STRING) {
            return field.value;
        }
    }
    return BYTES_NONE;
}

bytes_t request_info_reply(bytes_t header) {
    return info_member(info_of(header), "reply");
}

void request_info_read(bytes_t header, bytes_t *info, bytes_t *account) {
    *info = info_of(header);
    *account = info_member(*info, "acc");
}

static bool is_request_info(bytes_t name) {
    return bytes_equal(name, request_info);
}

status_t request_info_header(buffer_t *out, bytes_t header, const request_info_t *info) {
    /* Line by line, also where no such field is seen: another reader may see one behind an empty line, or in a block
     * that begins as none does. */
    bool empty;
    out->size = 0;
    status_t status = headers_copy_without(out, header, is_request_info, false, &empty);
    if (status != STATUS_OK) {
        return status;
    }
    status = headers_append(out, 0, request_info, BYTES_NONE);
    if (status != STATUS_OK) {
        return status;
    }
    const bytes_t end = BYTES_LITERAL("\r\n\r\n");
    out->size -= end.size;
    status = request_info_json(out, info);
    return status == STATUS_OK ? buffer_append(out, end.at, end.size) : status;
}
