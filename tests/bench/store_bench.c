/* store_bench.c: what one message costs in the store alone, thread by thread. Not a test: it prints, it promises
 * nothing.
 *
 *   store_bench <directory> [messages 2000000] [in flight 4000] [payload 128] [subjects 1] [ids 0|1] [streams 1] [max
 *   msgs 0] [cipher: plain|aes|chacha]
 *
 * Appends as the plane does (a burst, a tick, sleep on the wake fd when everything is in flight), then reads all back
 * in order.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "recovery/open.h"
#include "store/append.h"
#include "store/store.h"

#define STREAMS_MAX 64

static double seconds(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static uint64_t number(int count, char **arguments, int which, uint64_t otherwise) {
    return count > which ? strtoull(arguments[which], NULL, 10) : otherwise;
}

typedef struct bench {
    uint64_t total;
    uint64_t window;
    uint64_t size;
    uint64_t subjects;
    uint64_t ids;
    uint64_t streams;
    int64_t max_msgs;
    store_t *store;
    store_stream_t *stream[STREAMS_MAX];
    uint8_t *payload;
    uint64_t sent;
    uint64_t done;
    uint64_t refused;
    double spent; /* CPU inside store_append */
} bench_t;

static bool open_streams(bench_t *bench) {
    stream_config_t config = {.max_msg_size = -1,
                              .max_msgs = bench->max_msgs > 0 ? bench->max_msgs : -1,
                              .max_bytes = -1,
                              .max_msgs_per_subject = -1,
                              .duplicate_window_ns = 120 * NS_PER_SECOND};
    for (uint32_t i = 0; i < bench->streams; i++) {
        if (store_stream_open(bench->store, i + 1, &config, clock_now(), &bench->stream[i]) != STATUS_OK) {
            return false;
        }
    }
    return true;
}

/* Appends until the window is full. */
static void burst(bench_t *bench) {
    char subject[64];
    char id[64];
    moment_t now = clock_now();
    double before = seconds(CLOCK_THREAD_CPUTIME_ID);
    while (bench->sent < bench->total && bench->sent - bench->done < bench->window && store_room(bench->store)) {
        unsigned long long n = bench->sent;
        int size = snprintf(subject, sizeof subject, "events.box.%llu", n % bench->subjects);
        append_t append = {.subject = bytes_of(subject, (uint32_t)size),
                           .payload = bytes_of(bench->payload, (uint32_t)bench->size)};
        if (bench->ids != 0) {
            append.msg_id = bytes_of(id, (uint32_t)snprintf(id, sizeof id, "id-%llu", n));
        }
        if (store_append(bench->stream[n % bench->streams], &append, now).verdict != APPEND_STORED) {
            bench->refused++;
            break;
        }
        bench->sent++;
    }
    bench->spent += seconds(CLOCK_THREAD_CPUTIME_ID) - before;
}

static void append_all(bench_t *bench) {
    uint64_t marks[4] = {0}; /* messages sent when batch n was open, by n % 4 */
    struct pollfd poller = {.fd = store_wake_fd(bench->store), .events = POLLIN};
    while (bench->done < bench->total) {
        burst(bench);
        marks[store_batch(bench->store) % 4] = bench->sent;
        store_tick(bench->store, clock_now());
        uint64_t durable = store_durable(bench->store);
        if (durable + 3 >= store_batch(bench->store) && marks[durable % 4] > bench->done) {
            bench->done = marks[durable % 4];
        } else if (bench->sent - bench->done >= bench->window || bench->sent == bench->total) {
            poll(&poller, 1, 100);
        }
        while (store_advanced_next(bench->store) != NULL) {
        }
    }
}

static void report_appends(bench_t *bench) {
    double wall = seconds(CLOCK_MONOTONIC);
    double thread = seconds(CLOCK_THREAD_CPUTIME_ID);
    double process = seconds(CLOCK_PROCESS_CPUTIME_ID);
    append_all(bench);
    wall = seconds(CLOCK_MONOTONIC) - wall;
    thread = seconds(CLOCK_THREAD_CPUTIME_ID) - thread;
    process = seconds(CLOCK_PROCESS_CPUTIME_ID) - process;
    plane_stats_t stats = {0};
    store_stats(bench->store, &stats);
    double n = (double)bench->total;
    double data = n * (double)bench->size;
    printf("append %.0f msgs/s; CPU us a message: append %.3f, plane %.3f, journal and keeper %.3f\n", n / wall,
           bench->spent / n * 1e6, thread / n * 1e6, (process - thread) / n * 1e6);
    printf("%llu batches, %llu checkpoints, refused %llu; disk %.2f x payload, journal %.2f x\n",
           (unsigned long long)stats.journal_batches, (unsigned long long)stats.checkpoints,
           (unsigned long long)bench->refused, (double)stats.disk_bytes / data, (double)stats.journal_bytes / data);
}

static void report_reads(bench_t *bench) {
    double wall = seconds(CLOCK_MONOTONIC);
    uint64_t read = 0;
    for (uint64_t i = 0; i < bench->streams; i++) {
        uint64_t from = 0;
        stored_message_t message;
        while (store_next(bench->stream[i], (filters_t){0}, &from, UINT64_MAX, 1000, &message) == SEEK_FOUND) {
            from++;
            if (++read % 1000 == 0) {
                store_tick(bench->store, clock_now());
            }
        }
    }
    wall = seconds(CLOCK_MONOTONIC) - wall;
    printf("read %llu: %.3f us a message\n", (unsigned long long)read, wall / (double)(read > 0 ? read : 1) * 1e6);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(
            stderr,
            "usage: store_bench <directory> [messages] [in flight] [payload] [subjects] [ids] [streams] [max msgs]\n");
        return 2;
    }
    bench_t bench = {.total = number(count, arguments, 2, 2000000),
                     .window = number(count, arguments, 3, 4000),
                     .size = number(count, arguments, 4, 128),
                     .subjects = number(count, arguments, 5, 1),
                     .ids = number(count, arguments, 6, 0),
                     .streams = number(count, arguments, 7, 1),
                     .max_msgs = (int64_t)number(count, arguments, 8, 0)};
    bench.streams = bench.streams < STREAMS_MAX ? bench.streams : STREAMS_MAX;
    bench.payload = calloc(1, bench.size + 1);
    plane_keys_t keys = {.key = (const uint8_t *)"a key of the benchmark", .key_size = 22};
    const char *cipher = count > 9 ? arguments[9] : "plain";
    keys.cipher = strcmp(cipher, "aes") == 0 ? CIPHER_AES : CIPHER_CHACHA;
    store_options_t options = {.directory = arguments[1],
                               .max_bytes = UINT64_C(16) << 30, /* a map that valgrind takes, too */
                               .keys = strcmp(cipher, "plain") != 0 ? &keys : NULL};
    char reason[512] = "the streams cannot be opened";
    double wall = seconds(CLOCK_MONOTONIC);
    if (bench.payload == NULL || store_open(&options, &bench.store, reason, sizeof reason) != STATUS_OK
        || !open_streams(&bench)) {
        fprintf(stderr, "%s\n", reason);
        return 1;
    }
    printf("open %.3f s\n", seconds(CLOCK_MONOTONIC) - wall);
    report_appends(&bench);
    report_reads(&bench);
    wall = seconds(CLOCK_MONOTONIC);
    store_close(bench.store);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("close %.3f s; peak memory %ld MB\n", seconds(CLOCK_MONOTONIC) - wall, usage.ru_maxrss / 1024);
    free(bench.payload);
    return 0;
}
