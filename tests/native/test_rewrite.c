/* test_rewrite.c: subjects carried between two patterns, there and back; what two patterns have in common, against
 * enumeration. */
#include "text/rewrite.h"
#include "text/subject.h"

#include "test.h"

static bytes_t text(const char *c) {
    return bytes_of(c, (uint32_t)strlen(c));
}

static rewrite_t made(const char *from, const char *to, const char *order) {
    rewrite_t rewrite;
    uint8_t numbers[8];
    for (size_t i = 0; order[i] != 0; i++) numbers[i] = (uint8_t)(order[i] - '0');
    CHECK_EQ_I64(STATUS_OK, rewrite_make(&rewrite, text(from), text(to), bytes_of(numbers, (uint32_t)strlen(order))));
    return rewrite;
}

static void carries(const char *from, const char *to, const char *order, const char *subject, const char *expected) {
    rewrite_t rewrite = made(from, to, order), back = rewrite_inverse(&rewrite);
    uint8_t out[64], again[64];
    uint32_t size, again_size;
    CHECK_EQ_I64(STATUS_OK, rewrite_subject(&rewrite, text(subject), out, sizeof(out), &size));
    CHECK_TEXT(expected, (const char *)out, size);
    CHECK_EQ_I64(STATUS_OK, rewrite_subject(&back, bytes_of(out, size), again, sizeof(again), &again_size));
    CHECK_TEXT(subject, (const char *)again, again_size);
}

static void there_and_back(void) {
    carries("a", "b", "", "a", "b");
    carries("a.b", "x", "", "a.b", "x");
    carries("s.>", "from.s.>", "0", "s.1.2.3", "from.s.1.2.3");
    carries("s.*", "*", "0", "s.x", "x");
    carries("wild.*.x.*", "w.*.*", "10", "wild.a.x.b", "w.b.a");
    carries("a.*.*.>", "b.*.c.*.>", "102", "a.1.2.3.4", "b.2.c.1.3.4");
    carries(">", "p.>", "0", "a.b", "p.a.b");
    carries("same.*.>", "same.*.>", "01", "same.a.b.c", "same.a.b.c");
    /* Patterns inside the pattern go the same way: that is how shadows find their subject. */
    carries("s.*.*", "t.*.*", "10", "s.*.b", "t.b.*");
    carries("s.>", "t.>", "0", "s.*.>", "t.*.>");
}

static void refused(void) {
    rewrite_t rewrite;
    uint8_t none[1] = {0}, swapped[2] = {1, 0}, twice[2] = {0, 0}, beyond[2] = {0, 2};
    CHECK_EQ_I64(STATUS_INVALID, rewrite_make(&rewrite, text("a.*"), text("b"), bytes_of(none, 1)));
    CHECK_EQ_I64(STATUS_INVALID, rewrite_make(&rewrite, text("a"), text("b.*"), bytes_of(none, 1)));
    CHECK_EQ_I64(STATUS_INVALID, rewrite_make(&rewrite, text("a.>"), text("b.*"), bytes_of(none, 1)));
    CHECK_EQ_I64(STATUS_INVALID, rewrite_make(&rewrite, text("a.*.>"), text("b.*.>"), bytes_of(swapped, 2)));
    CHECK_EQ_I64(STATUS_INVALID, rewrite_make(&rewrite, text("a.*.*"), text("b.*.*"), bytes_of(twice, 2)));
    CHECK_EQ_I64(STATUS_INVALID, rewrite_make(&rewrite, text("a.*.*"), text("b.*.*"), bytes_of(beyond, 2)));
    CHECK_EQ_I64(STATUS_INVALID, rewrite_make(&rewrite, text("a.>.b"), text("c.>.b"), bytes_of(none, 1)));
    CHECK_EQ_I64(STATUS_INVALID, rewrite_make(&rewrite, BYTES_NONE, text("b"), BYTES_NONE));
}

static void does_not_match(void) {
    rewrite_t rewrite = made("a.*.c", "x.*", "0");
    uint8_t out[64];
    uint32_t size;
    const char *subjects[] = {"a.b", "a.b.c.d", "b.b.c", "a.b.d", "a"};
    for (size_t i = 0; i < sizeof(subjects) / sizeof(*subjects); i++) {
        CHECK_EQ_I64(STATUS_INVALID, rewrite_subject(&rewrite, text(subjects[i]), out, sizeof(out), &size));
    }
}

static void too_long(void) {
    rewrite_t rewrite = made("s.>", "longer.s.>", "0");
    uint8_t out[16];
    uint32_t size;
    CHECK_EQ_I64(STATUS_OK, rewrite_subject(&rewrite, text("s.1234567"), out, sizeof(out), &size));
    CHECK_EQ_U64(16, size);
    CHECK_EQ_I64(STATUS_FULL, rewrite_subject(&rewrite, text("s.12345678"), out, sizeof(out), &size));
}

/* Every pattern of up to three tokens of {a, b, *, >}, and every literal of {a, b}. */
static uint32_t all_subjects(char subjects[128][8], const char *alphabet) {
    uint32_t count = 0, letters = (uint32_t)strlen(alphabet);
    for (uint32_t tokens = 1; tokens <= 3; tokens++) {
        uint32_t combinations = 1;
        for (uint32_t i = 0; i < tokens; i++) combinations *= letters;
        for (uint32_t n = 0; n < combinations; n++) {
            uint32_t left = n, at = 0;
            for (uint32_t i = 0; i < tokens; i++) {
                if (i != 0) subjects[count][at++] = '.';
                subjects[count][at++] = alphabet[left % letters];
                left /= letters;
            }
            subjects[count][at] = 0;
            count += subject_valid_pattern(text(subjects[count]));
        }
    }
    return count;
}

static void common_is_what_both_match(void) {
    static char patterns[128][8], literals[128][8];
    uint32_t pattern_count = all_subjects(patterns, "ab*>"), literal_count = all_subjects(literals, "ab");
    CHECK(pattern_count > 40 && literal_count == 14);
    for (uint32_t i = 0; i < pattern_count; i++) {
        for (uint32_t j = 0; j < pattern_count; j++) {
            uint8_t out[32];
            uint32_t size;
            status_t status = rewrite_common(text(patterns[i]), text(patterns[j]), out, sizeof(out), &size);
            CHECK(status == STATUS_OK || status == STATUS_NOT_FOUND);
            for (uint32_t k = 0; k < literal_count; k++) {
                bytes_t literal = text(literals[k]);
                bool both = subject_matches(literal, text(patterns[i])) && subject_matches(literal, text(patterns[j]));
                if (both != (status == STATUS_OK && subject_matches(literal, bytes_of(out, size)))) {
                    FAIL("\"%s\" and \"%s\" on \"%s\"", patterns[i], patterns[j], literals[k]);
                }
            }
        }
    }
}

int main(void) {
    RUN("a subject goes into the other pattern, and the way back gives it again", there_and_back);
    RUN("patterns whose wildcards do not fit are refused", refused);
    RUN("a subject that does not match is refused", does_not_match);
    RUN("what does not fit is refused, what just fits is not", too_long);
    RUN("the common pattern matches exactly what both match", common_is_what_both_match);
    return TEST_RESULT();
}
