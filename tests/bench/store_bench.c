/* store_bench.c: what one message costs in the store alone, thread by thread. Not a test: it prints, it promises nothing.
 *
 *   store_bench <directory> [messages 2000000] [in flight 4000] [payload 128] [subjects 1] [ids 0|1] [streams 1] [max msgs 0]
 *
 * Appends as the plane does (a burst, a tick, sleep on the wake fd when everything is in flight), then reads all back in order.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

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

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: store_bench <directory> [messages] [in flight] [payload] [subjects] [ids] [streams] [max msgs]\n");
        return 2;
    }
    uint64_t total = number(count, arguments, 2, 2000000);
    uint64_t window = number(count, arguments, 3, 4000);
    uint64_t size = number(count, arguments, 4, 128);
    uint64_t subjects = number(count, arguments, 5, 1);
    uint64_t ids = number(count, arguments, 6, 0);
    uint64_t streams = number(count, arguments, 7, 1);
    int64_t max_msgs = (int64_t)number(count, arguments, 8, 0);
    store_options_t options = {.directory = arguments[1], .max_bytes = UINT64_C(100) << 30};
    store_t *store;
    store_stream_t *stream[STREAMS_MAX];
    char reason[512];
    double opened = seconds(CLOCK_MONOTONIC);
    if (store_open(&options, &store, reason, sizeof reason) != STATUS_OK) {
        fprintf(stderr, "%s\n", reason);
        return 1;
    }
    stream_config_t config = {.max_msg_size = -1, .max_msgs = max_msgs > 0 ? max_msgs : -1, .max_bytes = -1, .max_msgs_per_subject = -1,
                              .duplicate_window_ns = 120 * NS_PER_SECOND};
    for (uint32_t i = 0; i < streams && i < STREAMS_MAX; i++) {
        if (store_stream_open(store, i + 1, &config, clock_now(), &stream[i]) != STATUS_OK) {
            return 1;
        }
    }
    printf("open %.3f s\n", seconds(CLOCK_MONOTONIC) - opened);
    uint8_t *payload = calloc(1, size + 1);
    char subject[64];
    char id[64];
    double wall = seconds(CLOCK_MONOTONIC);
    double thread = seconds(CLOCK_THREAD_CPUTIME_ID);
    double process = seconds(CLOCK_PROCESS_CPUTIME_ID);
    double spent = 0; /* inside store_append */
    uint64_t sent = 0;
    uint64_t done = 0;
    uint64_t marks[4] = {0};   /* messages sent when batch n was open, by n % 4 */
    uint64_t refused = 0;
    struct pollfd poller = {.fd = store_wake_fd(store), .events = POLLIN};
    while (done < total) {
        moment_t now = clock_now();
        double before = seconds(CLOCK_THREAD_CPUTIME_ID);
        while (sent < total && sent - done < window && store_room(store)) {
            int subject_size = snprintf(subject, sizeof subject, "events.box.%llu", (unsigned long long)(sent % subjects));
            append_t append = {.subject = bytes_of(subject, (uint32_t)subject_size), .payload = bytes_of(payload, (uint32_t)size)};
            if (ids != 0) {
                append.msg_id = bytes_of(id, (uint32_t)snprintf(id, sizeof id, "id-%llu", (unsigned long long)sent));
            }
            if (store_append(stream[sent % streams], &append, now).verdict == APPEND_STORED) {
                sent++;
            } else {
                refused++;
                break;
            }
        }
        spent += seconds(CLOCK_THREAD_CPUTIME_ID) - before;
        marks[store_batch(store) % 4] = sent;
        store_tick(store, clock_now());
        uint64_t durable = store_durable(store);
        if (durable + 3 >= store_batch(store) && marks[durable % 4] > done) {
            done = marks[durable % 4];
        } else if (sent - done >= window || sent == total) {
            poll(&poller, 1, 100);
        }
        while (store_advanced_next(store) != NULL) {
        }
    }
    wall = seconds(CLOCK_MONOTONIC) - wall;
    thread = seconds(CLOCK_THREAD_CPUTIME_ID) - thread;
    process = seconds(CLOCK_PROCESS_CPUTIME_ID) - process;
    plane_stats_t stats = {0};
    store_stats(store, &stats);
    double n = (double)total;
    printf("append %.0f msgs/s; CPU us a message: append %.3f, plane %.3f, journal and keeper %.3f; %llu batches, %llu checkpoints, refused %llu\n",
           n / wall, spent / n * 1e6, thread / n * 1e6, (process - thread) / n * 1e6, (unsigned long long)stats.journal_batches,
           (unsigned long long)stats.checkpoints, (unsigned long long)refused);
    printf("disk %.2f x payload; journal %.2f x\n", (double)(stats.disk_bytes) / (n * (double)size), (double)stats.journal_bytes / (n * (double)size));
    wall = seconds(CLOCK_MONOTONIC);
    uint64_t read = 0;
    for (uint64_t i = 0; i < streams; i++) {
        uint64_t from = 0;
        stored_message_t message;
        for (;;) {
            status_t status = store_next(stream[i], (filters_t){0}, &from, UINT64_MAX, 1000, &message);
            if (status != STATUS_OK) {
                break;
            }
            from++;
            if (++read % 1000 == 0) {
                store_tick(store, clock_now());
            }
        }
    }
    wall = seconds(CLOCK_MONOTONIC) - wall;
    printf("read %llu: %.3f us a message\n", (unsigned long long)read, wall / (double)(read > 0 ? read : 1) * 1e6);
    wall = seconds(CLOCK_MONOTONIC);
    store_close(store);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("close %.3f s; peak memory %ld MB\n", seconds(CLOCK_MONOTONIC) - wall, usage.ru_maxrss / 1024);
    free(payload);
    return 0;
}
