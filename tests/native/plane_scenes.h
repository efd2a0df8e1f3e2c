/* plane_scenes.h: plays a scene on a plane whose store was just opened, while a read of LMDB fails, at one place after
 * the other. Looks whether the stream is afterwards what it would have been without. Scenes: test_plane_scenes_reads.c,
 * test_plane_consumers_reads.c.
 */
#ifndef LEAFD_TESTS_PLANE_SCENES_H
#define LEAFD_TESTS_PLANE_SCENES_H

#include "plane_reads.h"

#define STAMPS 16
#define NEXT "$JS.API.CONSUMER.MSG.NEXT.S.C"

typedef struct scene {
    const char *name;
    uint32_t flags;
    int64_t per_subject;
    int64_t window_ns; /* of duplicates */
    void (*before)(void);
    void (*during)(void);
    const uint64_t *seqs; /* that are there in the end, 0 behind the last */
} scene_t;

static const scene_t *scene;
static int64_t stamps[STAMPS]; /* of messages, by sequence; a second apart */
static unsigned published;
static bool preparing; /* nothing fails, and nobody waits for an answer */

/* ---- how a scene is played --------------------------------------------------------------------------------------- */

static inline void see_alarms(void) {
    plane_event_t event;
    while (exchange_poll(&plane->exchange, &event, 1) != 0) {
        told |= event.kind == EVENT_ALARM;
        exchange_release(&plane->exchange, 1);
    }
}

static inline void put(const char *subject, const char *headers, const char *payload) {
    char line[500];
    int size = (int)strlen("NATS/1.0\r\n\r\n") + (int)strlen(headers);
    snprintf(line, sizeof line, "HPUB %s _I.p %d %d\r\nNATS/1.0\r\n%s\r\n%s\r\n", subject, size,
             size + (int)strlen(payload), headers, payload);
    if (preparing) {
        say(line);
    } else {
        insist(line, "\"seq\":");
    }
    pass(NS_PER_SECOND);
}

static inline void put_plain(const char *subject) {
    put(subject, "", "x");
    CHECK(++published < STAMPS);
    stamps[published] = plane->now.wall_ns - NS_PER_SECOND;
}

static inline void begin(bool loading) {
    start();
    put_stream(loading);
    join();
}

static inline void check_scene(const char *when) {
    uint64_t count = 0;
    stream_t *stream = stream_find(&plane->js, 1);
    for (; scene->seqs[count] != 0; count++) {
        stored_message_t message;
        if (store_read(stream->store, scene->seqs[count], &message) != ENTRY_FOUND) {
            FAIL("%s, read %u fails, %s: %llu is gone", scene->name, failing_at, when,
                 (unsigned long long)scene->seqs[count]);
        }
    }
    stream_state_t state;
    stream_state_of(stream, &state);
    if (state.messages != count) {
        FAIL("%s, read %u fails, %s: %llu messages", scene->name, failing_at, when, (unsigned long long)state.messages);
    }
}

/* true: the n-th read was reached. */
static inline bool run(unsigned n, unsigned times, int error) {
    failing_at = n;
    told = false;
    published = 0;
    config = rig_stream;
    config.flags = scene->flags;
    config.max_msgs_per_subject = scene->per_subject;
    config.duplicate_window_ns = scene->window_ns;
    (void)rig_new_directory();
    begin(false);
    preparing = true;
    scene->before();
    rig_settle(plane);
    preparing = false;
    pass(21 * NS_PER_SECOND); /* its checkpoint */
    rig_settle(plane);
    rig_close(plane);
    begin(true);
    see_alarms();
    told = false;
    failing_reads((failing_reads_t){.from = n, .times = times, .error = error});
    scene->during();
    bool reached = failing_reads_count() >= n;
    failing_reads((failing_reads_t){0});
    for (unsigned i = 0; i < 20; i++) pass(100 * NS_PER_MS); /* what a fault put off is done by then */
    rig_settle(plane);
    see_alarms();
    check_scene("afterwards");
    READS_CHECK(!reached || told);
    rig_close(plane);
    begin(true);
    check_scene("after a start");
    rig_close_and_remove(plane);
    return reached;
}

static inline void play(scene_t next) {
    scene = &next;
    unsigned most = 0;
    for (unsigned n = first_place(); run(n, 1, EIO); n += stride()) most = n;
    for (unsigned n = first_place(); n <= most; n += stride()) (void)run(n, 3, n % 2 == 0 ? ENOMEM : MDB_CORRUPTED);
    printf("%s: %u reads\n", scene->name, most);
}

/* ---- what many scenes do ----------------------------------------------------------------------------------------- */

static inline void put_nine(void) {
    static const char *const subjects[] = {"s.a", "s.b", "s.c"};
    for (unsigned i = 0; i < 9; i++) put_plain(subjects[i % 3]);
}

static unsigned delivered[STAMPS];

static inline void count_deliveries(const char *heard) {
    for (const char *at = heard; (at = strstr(at, "$JS.ACK.S.C.")) != NULL; at++) {
        unsigned long times, seq;
        READS_CHECK(sscanf(at, "$JS.ACK.S.C.%lu.%lu.", &times, &seq) == 2 && seq < STAMPS);
        delivered[seq]++;
    }
}

#endif
