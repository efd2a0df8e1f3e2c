/* test_raft_frame.c: frames between servers: what was written is read again, and nothing else is taken for a frame. */
#include "raft/frame.h"

#include "base/crc.h"
#include "test.h"

#define ROOM 8192u

static const raft_disk_t here = {.peer = 0x0102030405060708, .disk = 0x1112131415161718};
static const raft_disk_t there = {.peer = 0x2122232425262728, .disk = 0x3132333435363738};
static uint8_t bytes[ROOM];

static raft_message_t entries_message(void) {
    return (raft_message_t){.subject = RAFT_ENTRIES,
                            .from = here,
                            .to = there,
                            .term = 9,
                            .index = 1000,
                            .log_term = 7,
                            .patience = 3,
                            .far = true,
                            .entry_term = 8,
                            .commit = 990,
                            .stamp_ns = -5};
}

static raft_config_t three_members(void) {
    raft_config_t config = {.count = 3};
    for (uint32_t i = 0; i < 3; i++) {
        config.at[i] = (raft_member_t){.id = {.peer = i + 1, .disk = UINT64_MAX - i}, .voter = i != 2};
    }
    return config;
}

static void put_entry(frame_writer_t *writer, raft_kind_t kind, const void *at, uint32_t size) {
    CHECK(frame_put_entry(writer, kind, bytes_of(at, size)));
}

/* Two groups: entries of all kinds with two changes of members, and a vote. */
static uint32_t a_frame(void) {
    frame_writer_t writer;
    uint8_t members[FRAME_MEMBERS_SIZE_MAX];
    raft_message_t entries = entries_message();
    raft_message_t vote = {.subject = RAFT_VOTED, .term = 12, .granted = true};
    raft_config_t config = three_members();
    frame_begin(&writer, bytes, ROOM, here, there, INT64_MIN + 1);
    CHECK(frame_put(&writer, 77, &entries));
    put_entry(&writer, RAFT_EMPTY, NULL, 0);
    put_entry(&writer, RAFT_DATA, "some bytes", 10);
    put_entry(&writer, RAFT_MEMBERS, members, frame_write_members(members, &config));
    config.count = 2;
    put_entry(&writer, RAFT_MEMBERS, members, frame_write_members(members, &config));
    CHECK(frame_put(&writer, UINT64_MAX, &vote));
    return frame_end(&writer);
}

/* Two words of two subjects are the same bit. */
static void a_bit_is_of_its_subject(void) {
    frame_writer_t writer;
    frame_t frame;
    frame_message_t next;
    const raft_message_t taken = {.subject = RAFT_TAKEN, .granted = true, .tight = true};
    const raft_message_t vote = {.subject = RAFT_VOTE, .handover = true};
    frame_begin(&writer, bytes, ROOM, here, there, 0);
    CHECK(frame_put(&writer, 1, &taken));
    CHECK(frame_put(&writer, 1, &vote));
    CHECK(frame_open(&frame, bytes_of(bytes, frame_end(&writer))));
    CHECK(frame_next(&frame, &next) && next.message.tight && !next.message.handover);
    CHECK(frame_next(&frame, &next) && next.message.handover && !next.message.tight);
}

static void what_is_written_is_read_again(void) {
    frame_t frame;
    frame_message_t next;
    frame_entry_t entry;
    CHECK(frame_open(&frame, bytes_of(bytes, a_frame())));
    CHECK(frame.from.peer == here.peer && frame.from.disk == here.disk);
    CHECK(frame.to.peer == there.peer && frame.to.disk == there.disk);
    CHECK(frame.sent_ns == INT64_MIN + 1);
    CHECK(frame_next(&frame, &next));
    raft_message_t expected = entries_message(), *got = &next.message;
    CHECK_EQ_U64(77, next.group);
    CHECK(got->subject == RAFT_ENTRIES && got->from.peer == here.peer && got->to.disk == there.disk);
    CHECK(got->term == expected.term && got->index == expected.index && got->log_term == expected.log_term);
    CHECK(got->entry_term == expected.entry_term && got->commit == 990 && got->stamp_ns == -5);
    CHECK_EQ_U64(4, got->count);
    CHECK(got->far && !got->granted && !got->handover && !got->rests && got->patience == expected.patience);
    CHECK_EQ_U64(2, got->config_count);
    CHECK(got->configs[0].index == 1003 && got->configs[0].count == 3 && !got->configs[0].at[2].voter);
    CHECK(got->configs[1].index == 1004 && got->configs[1].count == 2
          && got->configs[1].at[1].id.disk == UINT64_MAX - 1);
    CHECK(frame_take_entry(&next.entries, &entry) && entry.kind == RAFT_EMPTY && entry.bytes.size == 0);
    CHECK(frame_take_entry(&next.entries, &entry) && entry.kind == RAFT_DATA);
    CHECK(bytes_equal(entry.bytes, BYTES_LITERAL("some bytes")));
    CHECK(frame_take_entry(&next.entries, &entry) && entry.kind == RAFT_MEMBERS);
    CHECK(frame_take_entry(&next.entries, &entry) && !frame_take_entry(&next.entries, &entry));
    CHECK(frame_next(&frame, &next) && next.group == UINT64_MAX && next.message.granted);
    CHECK(!next.message.far);
    CHECK(next.message.subject == RAFT_VOTED && next.message.term == 12);
    CHECK(!frame_next(&frame, &next));
}

/* The bytes are a contract with servers of other versions. */
static void bytes_are_as_drawn(void) {
    static const uint8_t drawn[] = {
        'L', 'R', 'F', '1', 0,   1,   0,   1, /* magic, version, messages */
        1,   2,   3,   4,   5,   6,   7,   8,   17, 18, 19, 20,
        21,  22,  23,  24, /* from */
        33,  34,  35,  36,  37,  38,  39,  40,  49, 50, 51, 52,
        53,  54,  55,  56,                                       /* to */
        0,   0,   0,   0,   0,   0,   0,   3,   0,  0,  0,  135, /* sent_ns, size */
        0,   0,   0,   0,                                        /* crc, checked below */
        0,   0,   0,   0,   0,   0,   0,   77,  5,  49, 0,  1,
        0,   0,   0,   7, /* group, subject, flags, entries, their size */
        0,   0,   0,   0,   0,   0,   0,   9,   0,  0,  0,  0,
        0,   0,   3,   232, /* term, index */
        0,   0,   0,   0,   0,   0,   0,   7,   0,  0,  0,  0,
        0,   0,   0,   8, /* log_term, entry_term */
        0,   0,   0,   0,   0,   0,   3,   222, 0,  0,  0,  0,
        0,   0,   0,   0,                       /* commit, refused */
        255, 255, 255, 255, 255, 255, 255, 251, /* stamp_ns */
        0,   0,   0,   2,   0,   'h', 'i',      /* an entry */
    };
    frame_writer_t writer;
    raft_message_t message = entries_message();
    frame_begin(&writer, bytes, ROOM, here, there, 3);
    CHECK(frame_put(&writer, 77, &message));
    put_entry(&writer, RAFT_DATA, "hi", 2);
    CHECK_EQ_U64(sizeof drawn, frame_end(&writer));
    uint32_t crc = crc32c(crc32c(0, bytes, 52), bytes + 56, sizeof drawn - 56);
    CHECK_EQ_U64(crc, load_be32(bytes + 52));
    memset(bytes + 52, 0, 4);
    CHECK(memcmp(drawn, bytes, sizeof drawn) == 0);
}

static void damaged_is_refused(void) {
    frame_t frame;
    uint32_t size = a_frame();
    for (uint32_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(!frame_open(&frame, bytes_of(bytes, size)));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (uint32_t cut = 0; cut < size; cut++) {
        uint8_t *part = malloc(cut + 1);
        memcpy(part, bytes, cut);
        bool taken = frame_open(&frame, bytes_of(part, cut));
        free(part);
        CHECK(!taken);
    }
    CHECK(!frame_open(&frame, bytes_of(bytes, size + 1)));
    CHECK(frame_open(&frame, bytes_of(bytes, size)));
}

static void seal(uint32_t size) {
    store_be32(bytes + 52, crc32c(crc32c(0, bytes, 52), bytes + 56, size - 56));
}

/* A peer that lies has right checksums. */
static void lies_are_refused(void) {
    static const struct {
        uint32_t at;
        uint8_t value;
        const char *what;
    } lies[] = {
        {5, 2, "a version that is not known"},
        {7, 1, "fewer messages than there are"},
        {7, 3, "more messages"},
        {6, 17, "more than a frame may have"},
        {56 + 8, 0, "a subject that is none"},
        {56 + 8, RAFT_PAIRED + 1, "another"},
        {56 + 9, 64, "a flag that is none"},
        {56 + 11, 3, "fewer entries than there are"},
        {56 + 11, 5, "more entries"},
        {56 + 10, 2, "more than a message may have"},
        {56 + 8, 1, "entries of a request"},
        {56 + 12, 127, "entries beyond the end"},
        {56 + 16, 255, "a term beyond all"},
        {56 + 24, 255, "an index beyond all"},
        {56 + 72 + 4, 3, "a kind that is none"},
        {56 + 72 + 4, 2, "members without bytes"},
        {56 + 72 + 5 + 4, 1, "an empty with bytes"},
        {56 + 72 + 20 + 5, 10, "more members than there may be"},
        {56 + 72 + 20 + 5 + 17, 2, "a voter that is neither"},
    };
    frame_t frame;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        uint32_t size = a_frame();
        bytes[lies[i].at] = lies[i].value;
        seal(size);
        if (frame_open(&frame, bytes_of(bytes, size))) FAIL("taken: %s", lies[i].what);
    }
    uint32_t size = a_frame();
    memset(bytes + 8, 0, 8);
    seal(size);
    CHECK(!frame_open(&frame, bytes_of(bytes, size)));
    a_frame();
    memcpy(bytes + 56 + 72 + 20 + 5 + 18, bytes + 56 + 72 + 20 + 5 + 1, 16); /* one member twice */
    seal(size);
    CHECK(!frame_open(&frame, bytes_of(bytes, size)));
}

static void what_has_no_room_is_left_out(void) {
    raft_message_t message = entries_message();
    frame_writer_t writer;
    frame_t frame;
    frame_message_t next;
    for (uint32_t room = FRAME_HEAD; room < FRAME_HEAD + 2 * FRAME_MESSAGE_HEAD + 40; room++) {
        uint8_t *narrow = malloc(room);
        uint32_t messages = 0, entries = 0;
        frame_begin(&writer, narrow, room, here, there, 0);
        while (frame_put(&writer, messages, &message)) {
            messages++;
            while (entries < 3 * messages && frame_put_entry(&writer, RAFT_DATA, BYTES_LITERAL("abc"))) entries++;
        }
        bool opened = frame_open(&frame, bytes_of(narrow, frame_end(&writer)));
        uint32_t read = 0;
        while (opened && frame_next(&frame, &next)) read += next.message.count;
        free(narrow);
        CHECK(opened);
        CHECK_EQ_U64(entries, read);
        CHECK_EQ_U64((room - FRAME_HEAD) / FRAME_MESSAGE_HEAD > 0 ? 1 : 0, messages > 0 ? 1 : 0);
    }
}

static void messages_and_entries_have_a_bound(void) {
    static uint8_t wide[FRAME_HEAD + (FRAME_MESSAGES_MAX + 1) * FRAME_MESSAGE_HEAD];
    raft_message_t message = entries_message();
    frame_writer_t writer;
    frame_t frame;
    frame_begin(&writer, wide, sizeof wide, here, there, 0);
    for (uint32_t i = 0; i < FRAME_MESSAGES_MAX; i++) CHECK(frame_put(&writer, i, &message));
    CHECK(!frame_put(&writer, 0, &message));
    CHECK(frame_open(&frame, bytes_of(wide, frame_end(&writer))));
    frame_begin(&writer, wide, sizeof wide, here, there, 0);
    CHECK(frame_put(&writer, 1, &message));
    for (uint32_t i = 0; i < RAFT_ENTRIES_MAX; i++) put_entry(&writer, RAFT_DATA, "x", 1);
    CHECK(!frame_put_entry(&writer, RAFT_DATA, BYTES_NONE));
    CHECK(frame_open(&frame, bytes_of(wide, frame_end(&writer))));
}

int main(void) {
    RUN("what is written is read again", what_is_written_is_read_again);
    RUN("its bytes are as they are drawn", bytes_are_as_drawn);
    RUN("a bit of the flags is what its subject makes of it", a_bit_is_of_its_subject);
    RUN("a frame with any bit turned, or cut anywhere, is none", damaged_is_refused);
    RUN("what lies with a right checksum is refused whole", lies_are_refused);
    RUN("what has no room is left out, and the frame stays whole", what_has_no_room_is_left_out);
    RUN("messages of a frame and entries of a message have a bound", messages_and_entries_have_a_bound);
    return TEST_RESULT();
}
