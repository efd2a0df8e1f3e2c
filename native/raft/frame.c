/* frame.c: see frame.h. */
#include "raft/frame.h"

#include "base/check.h"
#include "base/crc.h"

#define MAGIC UINT32_C(0x4C524631)
#define FLAG_GRANTED 1u  /* of ENTRIES, of which an earlier version passes it over: far */
#define FLAG_HANDOVER 2u /* of TAKEN, of which an earlier version passes it over: tight */
#define FLAG_FULL 4u
#define FLAG_RESTS 8u
#define PATIENCE_SHIFT 4u /* two bits; an earlier version, which takes no frame with them, is sent none */
#define FLAGS (FLAG_GRANTED | FLAG_HANDOVER | FLAG_FULL | FLAG_RESTS | RAFT_PATIENCE_MAX << PATIENCE_SHIFT)
#define AT_COUNT 6u
#define AT_SIZE 48u
#define AT_CRC 52u
#define AT_ENTRIES 10u
#define AT_ENTRIES_SIZE 12u
#define MEMBER_SIZE 17u

static uint32_t frame_crc(bytes_t bytes) {
    uint32_t crc = crc32c(0, bytes.at, AT_CRC);
    return crc32c(crc, bytes.at + FRAME_HEAD, bytes.size - FRAME_HEAD);
}

uint32_t frame_write_members(uint8_t *to, const raft_config_t *config) {
    uint8_t *at = to;
    check(config->count <= RAFT_MEMBERS_MAX);
    *at++ = (uint8_t)config->count;
    for (uint32_t i = 0; i < config->count; i++) {
        store_be64(at, config->at[i].id.peer);
        store_be64(at + 8, config->at[i].id.disk);
        at[16] = config->at[i].voter ? 1 : 0;
        at += MEMBER_SIZE;
    }
    return (uint32_t)(at - to);
}

bool frame_read_members(bytes_t bytes, raft_config_t *config) {
    *config = (raft_config_t){0};
    if (bytes.size == 0 || bytes.at[0] > RAFT_MEMBERS_MAX) return false;
    if (bytes.size != 1u + bytes.at[0] * MEMBER_SIZE) return false;
    config->count = bytes.at[0];
    for (uint32_t i = 0; i < config->count; i++) {
        const uint8_t *at = bytes.at + 1 + (size_t)i * MEMBER_SIZE;
        config->at[i].id = (raft_disk_t){.peer = load_be64(at), .disk = load_be64(at + 8)};
        config->at[i].voter = at[16] == 1;
        if (at[16] > 1 || config->at[i].id.peer == 0) return false;
        for (uint32_t j = 0; j < i; j++) {
            if (same_disk(config->at[j].id, config->at[i].id)) return false;
        }
    }
    return true;
}

bool frame_take_entry(bytes_t *entries, frame_entry_t *entry) {
    if (entries->size < FRAME_ENTRY_HEAD) return false;
    uint32_t size = load_be32(entries->at);
    if (size > entries->size - FRAME_ENTRY_HEAD) return false;
    entry->kind = (raft_kind_t)entries->at[4];
    entry->bytes = bytes_of(entries->at + FRAME_ENTRY_HEAD, size);
    *entries = bytes_after(*entries, FRAME_ENTRY_HEAD + size);
    return true;
}

/* The entries of a message are as many as it says, and its changes of members are ones. */
static bool read_entries(frame_message_t *next) {
    raft_message_t *message = &next->message;
    bytes_t left = next->entries;
    frame_entry_t entry;
    uint32_t count = 0;
    raft_config_t *config = next->configs;
    message->config_count = 0;
    for (; count < message->count && frame_take_entry(&left, &entry); count++) {
        if ((uint32_t)entry.kind > RAFT_MEMBERS) return false;
        if (entry.kind == RAFT_EMPTY && entry.bytes.size != 0) return false;
        if (entry.kind != RAFT_MEMBERS) continue;
        if (message->config_count == 2) next->configs[0] = next->configs[1];
        if (message->config_count == 1) config = &next->configs[1];
        if (!frame_read_members(entry.bytes, config)) return false;
        config->index = message->index + 1 + count;
        message->config_count += message->config_count < 2 ? 1 : 0;
    }
    message->configs = next->configs;
    return count == message->count && left.size == 0;
}

void frame_shorten(frame_message_t *message, uint32_t count) {
    bytes_t left = message->entries;
    frame_entry_t entry;
    check(count <= message->message.count);
    for (uint32_t i = 0; i < count; i++) check(frame_take_entry(&left, &entry));
    message->entries.size -= left.size;
    message->message.count = count;
    check(read_entries(message));
}

/* false: the bytes are no message. */
static bool read_message(frame_t *frame, frame_message_t *next) {
    const uint8_t *at = frame->rest.at;
    if (frame->rest.size < FRAME_MESSAGE_HEAD) return false;
    uint32_t size = load_be32(at + AT_ENTRIES_SIZE);
    if (size > frame->rest.size - FRAME_MESSAGE_HEAD) return false;
    *next = (frame_message_t){.group = load_be64(at), .entries = bytes_of(at + FRAME_MESSAGE_HEAD, size)};
    next->message = (raft_message_t){.subject = (raft_subject_t)at[8],
                                     .from = frame->from,
                                     .to = frame->to,
                                     .count = load_be16(at + AT_ENTRIES),
                                     .granted = (at[9] & FLAG_GRANTED) != 0 && at[8] != RAFT_ENTRIES,
                                     .far = (at[9] & FLAG_GRANTED) != 0 && at[8] == RAFT_ENTRIES,
                                     .handover = (at[9] & FLAG_HANDOVER) != 0 && at[8] != RAFT_TAKEN,
                                     .tight = (at[9] & FLAG_HANDOVER) != 0 && at[8] == RAFT_TAKEN,
                                     .full = (at[9] & FLAG_FULL) != 0,
                                     .rests = (at[9] & FLAG_RESTS) != 0,
                                     .patience = (uint8_t)(at[9] >> PATIENCE_SHIFT & RAFT_PATIENCE_MAX),
                                     .term = load_be64(at + 16),
                                     .index = load_be64(at + 24),
                                     .log_term = load_be64(at + 32),
                                     .entry_term = load_be64(at + 40),
                                     .commit = load_be64(at + 48),
                                     .refused = load_be64(at + 56),
                                     .stamp_ns = (int64_t)load_be64(at + 64)};
    const raft_message_t *message = &next->message;
    frame->rest = bytes_after(frame->rest, FRAME_MESSAGE_HEAD + size);
    frame->left--;
    if (at[8] < RAFT_PREVOTE || at[8] > RAFT_PAIRED || at[9] > FLAGS) return false;
    bool carries = at[8] == RAFT_ENTRIES || at[8] == RAFT_STATE;
    if (message->count > RAFT_ENTRIES_MAX || (message->count != 0 && !carries)) return false;
    if (message->term > RAFT_TERM_MAX || message->index > RAFT_INDEX_MAX) return false;
    return read_entries(next);
}

bool frame_open(frame_t *frame, bytes_t bytes) {
    if (bytes.size < FRAME_HEAD || bytes.size > FRAME_SIZE_MAX) return false;
    if (load_be32(bytes.at) != MAGIC || load_be16(bytes.at + 4) != FRAME_VERSION) return false;
    if (load_be32(bytes.at + AT_SIZE) != bytes.size || load_be32(bytes.at + AT_CRC) != frame_crc(bytes)) return false;
    *frame = (frame_t){.from = {.peer = load_be64(bytes.at + 8), .disk = load_be64(bytes.at + 16)},
                       .to = {.peer = load_be64(bytes.at + 24), .disk = load_be64(bytes.at + 32)},
                       .sent_ns = (int64_t)load_be64(bytes.at + 40),
                       .left = load_be16(bytes.at + AT_COUNT),
                       .rest = bytes_after(bytes, FRAME_HEAD)};
    if (frame->left > FRAME_MESSAGES_MAX || frame->from.peer == 0) return false;
    frame_t looked = *frame;
    frame_message_t message;
    while (looked.left > 0) {
        if (!read_message(&looked, &message)) return false;
    }
    return looked.rest.size == 0;
}

bool frame_next(frame_t *frame, frame_message_t *next) {
    if (frame->left == 0) return false;
    bool well = read_message(frame, next);
    check(well); /* frame_open() has looked */
    return true;
}

void frame_begin(frame_writer_t *writer, uint8_t *at, uint32_t room, raft_disk_t from, raft_disk_t to,
                 int64_t sent_ns) {
    check(room >= FRAME_HEAD);
    check(room <= FRAME_SIZE_MAX);
    *writer = (frame_writer_t){.at = at, .room = room, .size = FRAME_HEAD};
    store_be32(at, MAGIC);
    store_be16(at + 4, FRAME_VERSION);
    store_be64(at + 8, from.peer);
    store_be64(at + 16, from.disk);
    store_be64(at + 24, to.peer);
    store_be64(at + 32, to.disk);
    store_be64(at + 40, (uint64_t)sent_ns);
}

bool frame_put(frame_writer_t *writer, uint64_t group, const raft_message_t *message) {
    if (writer->messages == FRAME_MESSAGES_MAX || writer->room - writer->size < FRAME_MESSAGE_HEAD) return false;
    uint8_t *at = writer->at + writer->size;
    store_be64(at, group);
    at[8] = (uint8_t)message->subject;
    at[9] = (uint8_t)((message->granted || message->far ? FLAG_GRANTED : 0)
                      | (message->handover || message->tight ? FLAG_HANDOVER : 0) | (message->full ? FLAG_FULL : 0)
                      | (message->rests ? FLAG_RESTS : 0) | (uint32_t)message->patience << PATIENCE_SHIFT);
    store_be16(at + AT_ENTRIES, 0);
    store_be32(at + AT_ENTRIES_SIZE, 0);
    store_be64(at + 16, message->term);
    store_be64(at + 24, message->index);
    store_be64(at + 32, message->log_term);
    store_be64(at + 40, message->entry_term);
    store_be64(at + 48, message->commit);
    store_be64(at + 56, message->refused);
    store_be64(at + 64, (uint64_t)message->stamp_ns);
    writer->message = writer->size;
    writer->size += FRAME_MESSAGE_HEAD;
    writer->messages++;
    return true;
}

bool frame_put_entry(frame_writer_t *writer, raft_kind_t kind, bytes_t bytes) {
    check(writer->messages > 0);
    uint8_t *message = writer->at + writer->message;
    uint16_t count = load_be16(message + AT_ENTRIES);
    uint32_t free = writer->room - writer->size;
    if (count == RAFT_ENTRIES_MAX || free < FRAME_ENTRY_HEAD || bytes.size > free - FRAME_ENTRY_HEAD) return false;
    uint8_t *at = writer->at + writer->size;
    store_be32(at, bytes.size);
    at[4] = (uint8_t)kind;
    (void)bytes_write(at + FRAME_ENTRY_HEAD, bytes);
    writer->size += FRAME_ENTRY_HEAD + bytes.size;
    store_be16(message + AT_ENTRIES, (uint16_t)(count + 1));
    store_be32(message + AT_ENTRIES_SIZE, writer->size - writer->message - FRAME_MESSAGE_HEAD);
    return true;
}

uint32_t frame_end(frame_writer_t *writer) {
    store_be16(writer->at + AT_COUNT, (uint16_t)writer->messages);
    store_be32(writer->at + AT_SIZE, writer->size);
    store_be32(writer->at + AT_CRC, frame_crc(bytes_of(writer->at, writer->size)));
    return writer->size;
}
