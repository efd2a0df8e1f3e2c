/* test_jetstream_fill.c: COMMAND_STREAM_FILL changes nothing where it is not what abi.h says, or where its source's
 * slot does not take in. What must hold: the sender hears why, and the stream has not changed. What a hole takes:
 * test_store_fill.c, crash/test_source_holes.py.
 */
#include "ingest_rig.h"

static js_rig_t *rig;

static status_t fill(const char *subject, bytes_t upto, bytes_t origin, uint64_t seq) {
    const bytes_t parts[] = {js_rig_text(subject), BYTES_NONE, upto, origin};
    uint8_t strings[64];
    plane_command_t command = {.op = COMMAND_STREAM_FILL,
                               .token = 78,
                               .target = 1,
                               .arg = seq,
                               .arg2 = 1,
                               .body = (const uint8_t *)"x",
                               .body_size = 1,
                               .extra = strings};
    for (int i = 0; i < 4; i++) {
        memcpy(strings + command.extra_size, (uint8_t[4]){(uint8_t)parts[i].size}, 4);
        if (parts[i].size > 0) memcpy(strings + command.extra_size + 4, parts[i].at, parts[i].size);
        command.extra_size += 4 + parts[i].size;
    }
    stream_fill(&rig->js, &command, stream_find(&rig->js, 1));
    plane_event_t event;
    CHECK_EQ_U64(1, exchange_poll(&rig->exchange, &event, 1));
    status_t status = (status_t)event.status;
    exchange_release(&rig->exchange, 1);
    CHECK_EQ_U64(0, stored(rig));
    return status;
}

static const bytes_t upto = {(const uint8_t *)"\0\0\0\0\0\0\0\3", 8};
static const bytes_t of_slot[] = {{(const uint8_t *)"\0\0\0\1\0\0\0\0\0\0\0\7", 12},
                                  {(const uint8_t *)"\0\0\0\2\0\0\0\0\0\0\0\7", 12}};

static void begin(void) {
    rig = js_rig_open();
    put_default(rig);
    start_as(rig, (ingest_config_t){.silence_ns = NS_PER_SECOND});
}

static void of_another_shape(void) {
    begin();
    CHECK_EQ_I64(STATUS_INVALID, fill("s.a", bytes_of(upto.at, 7), of_slot[0], 2));
    CHECK_EQ_I64(STATUS_INVALID, fill("s.a", upto, bytes_of(of_slot[0].at, 11), 2));
    CHECK_EQ_I64(STATUS_INVALID, fill("s.a", upto, BYTES_NONE, 2)); /* it is no mirror */
    CHECK_EQ_I64(STATUS_INVALID, fill("s.a", upto, of_slot[0], 0));
    js_rig_close(rig);
}

static void without_a_hole(void) {
    begin();
    CHECK_EQ_I64(STATUS_NOT_FOUND, fill("s.a", upto, of_slot[0], 2));
    CHECK_EQ_I64(STATUS_NOT_FOUND, fill("", upto, BYTES_NONE, 2));
    js_rig_close(rig);
}

static void of_a_slot_that_is_not_there(void) {
    begin();
    CHECK_EQ_I64(STATUS_FULL, fill("s.a", upto, of_slot[1], 2));
    js_rig_close(rig);
}

int main(void) {
    RUN("a command of another shape is refused", of_another_shape);
    RUN("where there is no hole nothing is put", without_a_hole);
    RUN("a slot that takes nothing in now puts nothing back", of_a_slot_that_is_not_there);
    return TEST_RESULT();
}
