/* test_store_crash.c: kill -9 at random moments, many times on the same store. A child writes and tells through a pipe
 * what was durable; the parent kills it and looks: everything told is there, exactly once, in order, and each batch is
 * there whole or not at all.
 *
 * What the child writes follows from the sequence alone, so the parent can check it: message n has payload and subject
 * of n; for each tenth it deletes n - 5 and notes n as the origin's progress, in the same batch. LEAFD_CRASH_ROUNDS
 * makes it longer.
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "store_rig.h"

static char root[64];
static char directory[96];

static store_t *open_store(void) {
    store_t *store;
    char reason[512];
    store_options_t options = {.directory = directory, .journal_size = 1 << 20, .max_bytes = 1 << 30};
    if (store_open(&options, &store, reason, sizeof reason) != STATUS_OK) {
        FAIL("%s", reason);
    }
    return store;
}

static store_stream_t *open_stream(store_t *store) {
    stream_config_t config = rig_config();
    store_stream_t *stream;
    CHECK_EQ_I64(STATUS_OK, store_stream_open(store, 1, &config, clock_now(), &stream));
    return stream;
}

static uint32_t payload_of(uint64_t n, char *payload) {
    uint32_t size = (uint32_t)(n * 7919 % 900);
    for (uint32_t i = 0; i < size; i++) {
        payload[i] = (char)('a' + (n + i) % 26);
    }
    return size;
}

static void subject_of(uint64_t n, char subject[32]) {
    snprintf(subject, 32, "s.%llu", (unsigned long long)(n % 13));
}

static bool write_one(store_t *store, store_stream_t *stream, uint64_t n) {
    static char payload[1000];
    char subject[32];
    char id[32];
    subject_of(n, subject);
    snprintf(id, sizeof id, "id-%llu", (unsigned long long)n);
    append_t append = {
        .subject = text(subject), .payload = bytes_of(payload, payload_of(n, payload)), .msg_id = text(id)};
    if (n % 10 == 0) {
        append.source_key = text("origin");
        append.source_seq = n;
    }
    appended_t done = store_append(stream, &append, clock_now());
    if (done.verdict != APPEND_STORED) {
        return false;
    }
    if (done.seq != n) {
        _exit(3);
    }
    if (n % 10 == 0 && store_delete(stream, n - 5) != STATUS_OK) {
        _exit(4);
    }
    (void)store;
    return true;
}

/* Never returns; the parent kills it. */
static void child(int told) {
    store_t *store = open_store();
    store_stream_t *stream = open_stream(store);
    stream_state_t state;
    store_stream_state(stream, &state);
    uint64_t n = state.last_seq;
    unsigned seed = (unsigned)getpid();
    uint64_t visible = n;
    for (;;) {
        for (int burst = rand_r(&seed) % 40; burst >= 0 && store_room(store); burst--) {
            n += write_one(store, stream, n + 1);
        }
        store_tick(store, clock_now());
        if (store_stream_visible(stream) > visible) {
            visible = store_stream_visible(stream);
            if (write(told, &visible, sizeof visible) != sizeof visible) {
                _exit(5);
            }
        }
        struct pollfd poller = {.fd = store_wake_fd(store), .events = POLLIN};
        poll(&poller, 1, 1);
    }
}

static uint64_t drain(int told, uint64_t last) {
    uint64_t seq;
    while (read(told, &seq, sizeof seq) == sizeof seq) {
        last = seq;
    }
    return last;
}

static void check_message(store_stream_t *stream, uint64_t n, uint64_t last) {
    stored_message_t message;
    char payload[1000];
    char subject[32];
    bool deleted = n % 10 == 5 && n + 5 <= last;
    CHECK_EQ_I64(deleted ? ENTRY_NONE : ENTRY_FOUND, store_read(stream, n, &message));
    if (!deleted) {
        subject_of(n, subject);
        CHECK_TEXT(subject, message.subject.at, message.subject.size);
        CHECK_BYTES(payload, payload_of(n, payload), message.payload.at, message.payload.size);
    }
}

static uint64_t check_store(uint64_t told, uint64_t checked) {
    store_t *store = open_store();
    store_stream_t *stream = open_stream(store);
    stream_state_t state;
    store_stream_state(stream, &state);
    uint64_t last = state.last_seq;
    CHECK(last >= told);
    CHECK_EQ_U64(last - last / 10, state.messages);
    for (uint64_t n = checked > 100 ? checked - 100 : 1; n <= last; n++) {
        check_message(stream, n, last);
    }
    bytes_t value;
    if (last >= 10) {
        CHECK_EQ_I64(ENTRY_FOUND, store_record_get(store, RECORD_SOURCE, bytes_of("\0\0\0\1origin", 10), &value));
        CHECK_EQ_U64(last / 10 * 10, load_be64(value.at));
        char id[32];
        snprintf(id, sizeof id, "id-%llu", (unsigned long long)last);
        append_t again = {.subject = text("s.1"), .msg_id = text(id)};
        CHECK_EQ_U64(APPEND_DUPLICATE, store_append(stream, &again, clock_now()).verdict);
    }
    store_close(store);
    return last;
}

static void pause_ns(long ns) {
    struct timespec time = {.tv_sec = 0, .tv_nsec = ns};
    nanosleep(&time, NULL);
}

static void killed_at_random(void) {
    const char *rounds_text = getenv("LEAFD_CRASH_ROUNDS");
    int rounds = rounds_text != NULL ? atoi(rounds_text) : 60;
    unsigned seed = 42;
    uint64_t last = 0;
    snprintf(root, sizeof root, "/tmp/leafd-crash-test.XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    snprintf(directory, sizeof directory, "%s/store", root);
    /* A slow machine has stored little before it is killed: it is given more rounds. */
    for (int round = 0; round < rounds || (last <= 1000 && round < 20 * rounds); round++) {
        int told[2];
        CHECK_EQ_I64(0, pipe(told));
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            close(told[0]);
            child(told[1]);
        }
        close(told[1]);
        pause_ns((long)(rand_r(&seed) % 90) * 1000000);
        kill(pid, SIGKILL);
        int status;
        CHECK_EQ_I64(pid, waitpid(pid, &status, 0));
        CHECK(WIFSIGNALED(status));
        uint64_t acked = drain(told[0], last);
        close(told[0]);
        last = check_store(acked, last);
    }
    CHECK(last > 1000);
    check_store(last, 0);
    rig_remove_directory(directory);
    rmdir(root);
}

/* max_payload was raised: the next start makes a journal in which such a message fits, over one that still held
 * messages. */
static void journal_grows(void) {
    static char large[3 << 20];
    memset(large, 'g', sizeof large - 1);
    rig_t rig = {0}; /* a journal of 1 MiB */
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(APPEND_TOO_LARGE, rig_put(&rig, stream, "grow", large).verdict);
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "grow", "small").verdict);
    rig_sync(&rig);
    rig.options.journal_size = 0;
    rig.options.message_max = sizeof large;
    for (uint64_t seq = 2; seq < 5; seq++) {
        stored_message_t message;
        rig_crash(&rig);
        stream = rig_stream(&rig, 1, rig_config());
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, seq - 1, &message));
        CHECK_EQ_U64(seq == 2 ? strlen("small") : strlen(large), message.payload.size);
        appended_t done = rig_put(&rig, stream, "grow", large);
        CHECK_EQ_U64(APPEND_STORED, done.verdict);
        CHECK_EQ_U64(seq, done.seq);
        rig_sync(&rig);
    }
    CHECK(!rig_alarmed(&rig, ""));
    rig_close(&rig);
}

/* The ring has little memory at first. Each message has bytes of its own. */
static void floods_after_a_rest(void) {
    enum { SIZE = 20000, COUNT = 900 };
    static char payload[SIZE + 1];
    static char large[(4 << 20) + 1];
    stored_message_t message;
    memset(large, 'l', sizeof large - 1);
    rig_t rig = {.options = {.journal_size = 16 << 20, .message_max = 1 << 20}};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (uint64_t seq = 1; seq <= COUNT; seq++) {
        memset(payload, (int)('a' + seq % 23), SIZE);
        snprintf(payload, 9, "%08u", (unsigned)seq);
        for (int64_t until = 0; !store_room(rig.store) && patient(&until);) {
            store_tick(rig.store, rig.now);
            CHECK_EQ_I64(ENTRY_FOUND, seq == 1 ? ENTRY_FOUND : store_read(stream, seq - 1, &message));
        }
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "flood", payload).verdict);
    }
    rig_sync(&rig);
    rig_checkpoint(&rig);
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "large", large).verdict); /* beyond what is expected at most */
    rig_sync(&rig);
    for (uint32_t life = 0; life < 2; life++) {
        for (uint64_t seq = 1; seq <= COUNT; seq++) {
            memset(payload, (int)('a' + seq % 23), SIZE);
            snprintf(payload, 9, "%08u", (unsigned)seq);
            CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, seq, &message));
            CHECK(bytes_equal(text(payload), message.payload));
        }
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, COUNT + 1, &message));
        CHECK_EQ_U64(sizeof large - 1, message.payload.size);
        rig_crash(&rig);
        stream = rig_stream(&rig, 1, rig_config());
    }
    rig_close(&rig);
}

int main(void) {
    RUN("kill -9 at any moment loses nothing that was durable, doubles nothing, halves no batch", killed_at_random);
    RUN("a journal grows at a start for larger messages than it was made for, and loses nothing", journal_grows);
    RUN("a flood and a large message after a rest, when the ring has little memory, are whole and survive kill -9",
        floods_after_a_rest);
    return TEST_RESULT();
}
