/* request_info.c: see request_info.h. What does not live here: who asks (plane/cross.c). */
#include "text/request_info.h"

#include "text/headers.h"
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

static bool is_request_info(bytes_t name) {
    return bytes_equal(name, request_info);
}

status_t request_info_header(buffer_t *out, bytes_t header, const request_info_t *info) {
    bytes_t value;
    out->size = 0;
    status_t status = STATUS_OK;
    if (header.size != 0 && headers_find(header, request_info, &value)) {
        bool empty;
        status = headers_copy_without(out, header, is_request_info, false, &empty);
    } else if (header.size != 0) {
        status = buffer_append(out, header.at, header.size);
    }
    if (status != STATUS_OK) {
        return status;
    }
    text_t text = {0};
    text_add_literal(&text, "{\"acc\":");
    add_json_string(&text, info->account);
    if (info->service.size != 0) {
        text_add_literal(&text, ",\"svc\":");
        add_json_string(&text, info->service);
    }
    if (info->rtt_ns > 0) {
        text_add_literal(&text, ",\"rtt\":");
        text_add_number(&text, (uint64_t)info->rtt_ns);
    }
    text_add_literal(&text, "}");
    return headers_append(out, 0, request_info, text_bytes(&text));
}
