/* test_plane_threads.c: the whole plane with its threads, real sockets and a small control side (worth most under
 * ThreadSanitizer). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/tick.h" /* the functions of abi.h are the driver's */
#include "directory.h"
#include "test.h"

#define MESSAGES 2000

static const char info[] =
    "INFO {\"server_id\":\"N\",\"version\":\"2.15.1\",\"headers\":true,\"max_payload\":65536} \r\n";

typedef struct control {
    plane_t *plane;
    _Atomic bool stop;
    _Atomic uint32_t opened;
    _Atomic uint32_t closed;
    _Atomic uint32_t done;
} control_t;

static void submit(plane_t *plane, plane_command_t command) {
    while (plane_submit(plane, &command, 1) != 1) usleep(100);
}

static void on_event(control_t *control, const plane_event_t *event) {
    plane_t *plane = control->plane;
    if (event->kind == EVENT_OPENED) {
        atomic_fetch_add(&control->opened, 1);
        submit(plane, (plane_command_t){.op = COMMAND_SEND,
                                        .target = event->target,
                                        .body = (const uint8_t *)info,
                                        .body_size = sizeof(info) - 1});
    } else if (event->kind == EVENT_LINE) {
        conn_verdict_t verdict = {.flags = VERDICT_ECHO | VERDICT_HEADERS | VERDICT_NO_RESPONDERS};
        static const uint8_t strings[5 * 4] = {0};
        submit(plane, (plane_command_t){.op = COMMAND_ADMIT,
                                        .account = 1,
                                        .target = event->target,
                                        .body = (const uint8_t *)&verdict,
                                        .body_size = sizeof(verdict),
                                        .extra = strings,
                                        .extra_size = sizeof(strings)});
    } else if (event->kind == EVENT_CLOSED) {
        atomic_fetch_add(&control->closed, 1);
    } else if (event->kind == EVENT_DONE && event->status == 0) {
        atomic_fetch_add(&control->done, 1);
    }
}

static void *control_main(void *argument) {
    control_t *control = argument;
    plane_event_t events[32];
    while (!atomic_load(&control->stop)) {
        struct pollfd wake = {.fd = plane_wake_fd(control->plane), .events = POLLIN};
        (void)poll(&wake, 1, 10);
        uint32_t count;
        while ((count = plane_poll(control->plane, events, 32)) != 0) {
            for (uint32_t i = 0; i < count; i++) on_event(control, &events[i]);
            plane_release(control->plane, count);
        }
        plane_stats_t stats;
        plane_stats(control->plane, &stats);
    }
    return NULL;
}

static void wait_until(_Atomic uint32_t *counter, uint32_t value) {
    for (int i = 0; i < 20000 && atomic_load(counter) < value; i++) usleep(500);
    CHECK_EQ_U64(value, atomic_load(counter));
}

static void pack(uint8_t *to, uint32_t *size, const char *text) {
    uint32_t length = (uint32_t)strlen(text);
    for (uint32_t i = 0; i < 4; i++) to[(*size)++] = (uint8_t)(length >> (8 * i));
    memcpy(to + *size, text, length);
    *size += length;
}

static int connect_to(uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    struct timeval limit = {.tv_sec = 20};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    return fd;
}

static void say(int fd, const char *text) {
    size_t left = strlen(text);
    while (left != 0) {
        ssize_t sent = send(fd, text, left, MSG_NOSIGNAL);
        CHECK(sent > 0);
        text += sent;
        left -= (size_t)sent;
    }
}

/* Reads until `text` has come `times` times. */
static void hear(int fd, const char *text, uint32_t times) {
    static char heard[1 << 16];
    size_t size = 0, length = strlen(text);
    uint32_t found = 0;
    while (found < times) {
        ssize_t got = recv(fd, heard + size, sizeof(heard) - 1 - size, 0);
        CHECK(got > 0);
        size += (size_t)got;
        heard[size] = 0;
        char *at = heard, *next;
        while ((next = strstr(at, text)) != NULL) {
            found++;
            at = next + length;
        }
        size_t rest = (size_t)(heard + size - at);
        size_t keep = rest < length ? rest : length - 1;
        memmove(heard, heard + size - keep, keep);
        size = keep;
    }
}

/* An account with JetStream, tokens 1 and 2: stream S on s.>. */
static void make_stream(plane_t *plane) {
    uint8_t strings[200];
    uint32_t used = 0;
    pack(strings, &used, "A");
    pack(strings, &used, "");
    submit(plane, (plane_command_t){.op = COMMAND_ACCOUNT,
                                    .account = 1,
                                    .arg = ACCOUNT_JETSTREAM,
                                    .token = 1,
                                    .extra = strings,
                                    .extra_size = used});
    stream_config_t config = {
        .account = 1, .max_msg_size = -1, .max_msgs = -1, .max_bytes = -1, .max_msgs_per_subject = -1};
    used = 0;
    const char *parts[] = {"S", "{}", "", "", "", "", "", "s.>"};
    for (int i = 0; i < 8; i++) pack(strings, &used, parts[i]);
    submit(plane, (plane_command_t){.op = COMMAND_STREAM_PUT,
                                    .account = 1,
                                    .target = 1,
                                    .token = 2,
                                    .body = (const uint8_t *)&config,
                                    .body_size = sizeof(config),
                                    .extra = strings,
                                    .extra_size = used});
}

static void whole(void) {
    char directory[] = "/tmp/leafd-test-XXXXXX", reason[PLANE_REASON_SIZE];
    CHECK(mkdtemp(directory) != NULL);
    plane_limits_t limits = {.max_file_store = 64 << 20,
                             .max_pending = 8 << 20,
                             .write_deadline_ns = 10 * NS_PER_SECOND,
                             .ping_interval_ns = 120 * NS_PER_SECOND,
                             .ping_max = 2,
                             .max_control_line = 4096,
                             .max_payload = 65536,
                             .jetstream = 1};
    int32_t status = 0;
    control_t control = {.plane = plane_open(&limits, NULL, directory, NULL, reason, &status)};
    plane_t *plane = control.plane;
    CHECK(plane != NULL);
    CHECK_EQ_I64(0, plane_start(plane));
    pthread_t thread;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 16) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    make_stream(plane);
    submit(plane, (plane_command_t){
                      .op = COMMAND_LISTEN, .target = 1, .token = 3, .arg = (uint64_t)listener, .arg2 = CONN_CLIENT});
    CHECK(pthread_create(&thread, NULL, control_main, &control) == 0);
    wait_until(&control.done, 3);

    int a = connect_to(ntohs(address.sin_port)), b = connect_to(ntohs(address.sin_port));
    say(a, "CONNECT {}\r\nSUB core 1\r\nSUB _I.> 2\r\nPING\r\n");
    say(b, "CONNECT {}\r\nPING\r\n");
    hear(a, "PONG\r\n", 1);
    hear(b, "PONG\r\n", 1);
    for (int i = 0; i < MESSAGES; i++) say(b, "PUB core 5\r\nhello\r\n");
    hear(a, "hello\r\n", MESSAGES);
    for (int i = 0; i < MESSAGES; i++) say(a, "PUB s.a _I.1 5\r\nhello\r\n");
    hear(a, "\"seq\":", MESSAGES);
    close(a);
    wait_until(&control.closed, 1);
    CHECK_EQ_U64(2, atomic_load(&control.opened));
    plane_stop(plane);
    close(b);
    atomic_store(&control.stop, true);
    CHECK(pthread_join(thread, NULL) == 0);
    plane_stats_t stats;
    plane_stats(plane, &stats);
    CHECK_EQ_U64(MESSAGES, stats.store_messages);
    CHECK_EQ_U64(2, stats.total_connections);
    plane_close(plane);
    directory_remove(directory);
}

int main(void) {
    RUN("clients over sockets, a stream on disk and a control side, with all threads running, start to stop", whole);
    return TEST_RESULT();
}
