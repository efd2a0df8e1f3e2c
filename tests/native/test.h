/* test.h: the few macros of the C tests, so that a test file reads as a list of promises.
 *
 *     static void a_promise(void) { CHECK_EQ_U64(3, thing_count(&thing)); }
 *
 *     int main(void) {
 *         RUN("a thing that was added three times counts three", a_promise);
 *         return TEST_RESULT();
 *     }
 *
 * The first failed check of a promise is printed with its file and line and ends that promise; the next one still runs.
 * (By longjmp: what the failed promise had allocated stays allocated.) Expected value left, real value right.
 */
#ifndef LEAFD_TESTS_TEST_H
#define LEAFD_TESTS_TEST_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf test_escape;
static unsigned test_failed_count;
static unsigned test_passed_count;

/* Ends the running promise as failed. */
#define FAIL(...)                                                                                                      \
    do {                                                                                                               \
        fprintf(stderr, "  %s:%d: ", __FILE__, __LINE__);                                                              \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fputc('\n', stderr);                                                                                           \
        longjmp(test_escape, 1);                                                                                       \
    } while (0)

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) FAIL("not so: %s", #condition);                                                              \
    } while (0)

#define CHECK_EQ_U64(expected, real)                                                                                   \
    do {                                                                                                               \
        uint64_t test_expected = (uint64_t)(expected), test_real = (uint64_t)(real);                                   \
        if (test_expected != test_real)                                                                                \
            FAIL("%s: expected %" PRIu64 ", is %" PRIu64, #real, test_expected, test_real);                            \
    } while (0)

#define CHECK_EQ_I64(expected, real)                                                                                   \
    do {                                                                                                               \
        int64_t test_expected = (int64_t)(expected), test_real = (int64_t)(real);                                      \
        if (test_expected != test_real)                                                                                \
            FAIL("%s: expected %" PRId64 ", is %" PRId64, #real, test_expected, test_real);                            \
    } while (0)

/* Two runs of bytes, told apart by their first difference. */
#define CHECK_BYTES(expected, expected_size, real, real_size)                                                          \
    do {                                                                                                               \
        const uint8_t *test_left = (const uint8_t *)(expected), *test_right = (const uint8_t *)(real);                 \
        size_t test_left_size = (size_t)(expected_size), test_right_size = (size_t)(real_size);                        \
        size_t test_same = 0;                                                                                          \
        while (test_same < test_left_size && test_same < test_right_size                                               \
               && test_left[test_same] == test_right[test_same])                                                       \
            test_same++;                                                                                               \
        if (test_left_size != test_right_size || test_same != test_left_size)                                          \
            FAIL("%s: differs at byte %zu (expected %zu bytes \"%.*s\", is %zu bytes \"%.*s\")", #real, test_same,     \
                 test_left_size, (int)(test_left_size < 200 ? test_left_size : 200), (const char *)test_left,          \
                 test_right_size, (int)(test_right_size < 200 ? test_right_size : 200), (const char *)test_right);     \
    } while (0)

/* A C string on the left, bytes on the right. */
#define CHECK_TEXT(expected, real, real_size) CHECK_BYTES(expected, strlen(expected), real, real_size)

#define RUN(promise, function)                                                                                         \
    do {                                                                                                               \
        if (setjmp(test_escape) == 0) {                                                                                \
            function();                                                                                                \
            test_passed_count++;                                                                                       \
            printf("ok      %s\n", promise);                                                                           \
        } else {                                                                                                       \
            test_failed_count++;                                                                                       \
            printf("FAILED  %s\n", promise);                                                                           \
        }                                                                                                              \
        fflush(stdout);                                                                                                \
    } while (0)

/* Of many like cases (each bit of a file), every how many are run: 1 = all. LEAFD_TEST_STRIDE says otherwise: the
 * thread sanitizer makes each slow and sees in a few what it would see in all. */
static inline unsigned test_stride(void) {
    const char *text = getenv("LEAFD_TEST_STRIDE");
    unsigned stride = text == NULL ? 1 : (unsigned)strtoul(text, NULL, 10);
    return stride == 0 ? 1 : stride;
}

/* What main returns; prints the closing line that tests/run adds up. */
#define TEST_RESULT()                                                                                                  \
    (printf("%u passed, %u failed\n", test_passed_count, test_failed_count), test_failed_count == 0 ? 0 : 1)

#endif
