/* load.c: the load generator of the benchmarks. One run, one scenario, one line of JSON on stdout.
 *
 *     load core --port 4222 --messages 1000000 --size 128
 *
 * Besides the scenario's result the line has the processor time that the generator itself used, so that whoever reads
 * it can see that the generator was not the bottleneck.
 */
#include "load.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "client.h"

typedef struct scenario {
    const char *name;
    result_t (*run)(const options_t *options);
} scenario_t;

static const scenario_t scenarios[] = {
    {"core", run_core},   {"blind", run_blind}, {"request", run_request},     {"publish", run_publish},
    {"push", run_push},   {"pull", run_pull},   {"handshake", run_handshake}, {"resumed", run_resumed},
    {"idle", run_idle},   {"fan", run_fan},     {"queue", run_queue},         {"ask", run_ask},
    {"fetch", run_fetch}, {"batch", run_batch},
};

static const struct option names[] = {
    {"port", required_argument, NULL, 'p'},
    {"messages", required_argument, NULL, 'm'},
    {"read-port", required_argument, NULL, 'r'},
    {"size", required_argument, NULL, 's'},
    {"connections", required_argument, NULL, 'c'},
    {"in-flight", required_argument, NULL, 'f'},
    {"batch", required_argument, NULL, 'b'},
    {"subjects", required_argument, NULL, 'u'},
    {"subject", required_argument, NULL, 'j'},
    {"stream", required_argument, NULL, 't'},
    {"consumer", required_argument, NULL, 'n'},
    {"api-subject", required_argument, NULL, 'a'},
    {"api-body", required_argument, NULL, 'y'},
    {"tls", required_argument, NULL, 'l'},
    {"web-port", required_argument, NULL, 'w'},
    {"deflate", required_argument, NULL, 'd'},
    {NULL, 0, NULL, 0},
};

static uint32_t small(const char *text) {
    return (uint32_t)strtoul(text, NULL, 10);
}

static void take(options_t *options, int name, const char *value) {
    switch (name) {
    case 'p': options->port = (int)strtol(value, NULL, 10); break;
    case 'r': options->read_port = (int)strtol(value, NULL, 10); break;
    case 'm': options->messages = strtoull(value, NULL, 10); break;
    case 's': options->size = small(value); break;
    case 'c': options->connections = small(value); break;
    case 'f': options->in_flight = small(value); break;
    case 'b': options->batch = small(value); break;
    case 'u': options->subjects = small(value); break;
    case 'j': options->subject = value; break;
    case 't': options->stream = value; break;
    case 'n': options->consumer = value; break;
    case 'a': options->api_subject = value; break;
    case 'y': options->api_body = value; break;
    case 'l': client_authority = value; break;
    case 'w': options->web_port = (int)strtol(value, NULL, 10); break;
    case 'd': options->deflate = *value == '1'; break;
    default: die("unknown option");
    }
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

void latencies_tell(result_t *result, double *latencies, uint64_t count) {
    qsort(latencies, count, sizeof *latencies, by_size);
    result->latency_p50_us = latencies[count / 2];
    result->latency_p99_us = latencies[count * 99 / 100];
    result->latency_p999_us = latencies[count * 999 / 1000];
}

static double seconds_used(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
           + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

int main(int count, char **values) {
    options_t options = {.messages = 100000,
                         .size = 128,
                         .connections = 1,
                         .in_flight = 1,
                         .batch = 500,
                         .subject = "bench",
                         .stream = "",
                         .consumer = "",
                         .api_subject = "",
                         .api_body = ""};
    int name;
    while ((name = getopt_long(count, values, "", names, NULL)) != -1) {
        take(&options, name, optarg);
    }
    if (options.size > OUTPUT_SIZE / 4) {
        die("payloads of more than %u bytes are not for this tool", OUTPUT_SIZE / 4);
    }
    if (optind + 1 != count || options.port == 0 || options.connections == 0 || options.in_flight == 0) {
        die("usage: load SCENARIO --port N [--messages N] [--size N] ...");
    }
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (strcmp(values[optind], scenarios[i].name) == 0) {
            result_t result = scenarios[i].run(&options);
            printf("{\"messages\": %llu, \"seconds\": %.6f, \"p50_us\": %.2f, \"p99_us\": %.2f, \"p999_us\": %.2f, "
                   "\"load_cpu_seconds\": %.3f}\n",
                   (unsigned long long)result.messages, result.seconds, result.latency_p50_us, result.latency_p99_us,
                   result.latency_p999_us, seconds_used());
            if (strcmp(values[optind], "idle") == 0) {
                fflush(stdout);
                while (getchar() != EOF) {
                }
            }
            return 0;
        }
    }
    die("no scenario \"%s\"", values[optind]);
}
