/* test_transform.c: transforms against tables taken from nats-server 2.15.1: what a stream with that subject_transform
 * stored, and which it refused. */
#include "text/transform.h"

#include <stdlib.h>

#include "test.h"

typedef struct row {
    const char *source;
    const char *destination;
    const char *subject;
    const char *result; /* NULL: the subject is not the transform's */
} row_t;

static const row_t stored[] = {
    {"t.*", "d.$1", "t.x", "d.x"},
    {"t.*", "d.{{wildcard(1)}}", "t.x", "d.x"},
    {"t.*.*", "d.{{Wildcard(2)}}.{{ wildcard ( 1 ) }}", "t.x.y", "d.y.x"},
    {"t.*.*", "d.$2.$1.$2", "t.x.y", "d.y.x.y"},
    {"t.>", "d.>", "t.x.y", "d.x.y"},
    {"t.>", "d.e.>", "t.x", "d.e.x"},
    {"t.*.>", "d.$1.>", "t.x.y.z", "d.x.y.z"},
    {"t.*.>", "d.>", "t.x.y.z", "d.y.z"},
    {"t.x", "d", "t.x", "d"},
    {"t.x", "d.e.f", "t.x", "d.e.f"},
    {"t.x", "d", "t.y", NULL},
    {"t.*", "d.$0", "t.x", "d.t"},
    {"t.*", "d.$-1", "t.x", "d.t"},
    {"t.*", "d.$+1", "t.x", "d.x"},
    {"t.*", "d.$1a", "t.x", "d.$1a"},
    {"t.*", "d.$", "t.x", "d.$"},
    {"t.*", "d.$99999999999999999999", "t.x", "d.$99999999999999999999"},
    {"t.>", "d.$0.>", "t.x", "d.t.x"},
    {"t.*", "d.{{wildcard(0)}}", "t.x", "d.t"},
    {"t.*", "d.{{wildcard(-3)}}", "t.x", "d.t"},
    {"t.*", "d.{{}}", "t.x", "d.{{}}"},
    {"t.*", "d.{{a}", "t.x", "d.{{a}"},
    {"", "d.>", "t.x.y", "d.t.x.y"},
    {"", ">", "t.x", "t.x"},
    {">", ">", "t.x", "t.x"},
    {"t.*", "d", "t.x", "d"},
    {"t.*", "{{partition(10,1)}}", "t.x", "5"},
    {"t.*.*", "p.{{partition(10,1,2)}}", "t.x.yy", "p.5"},
    {"t.*.*", "p.{{partition(10,2,1)}}", "t.x.yy", "p.7"},
    {"t.*.*", "p.{{partition(10,2)}}", "t.x.yy", "p.3"},
    {"t.*", "p.{{partition(10)}}", "t.x", "p.9"},
    {"t.x", "p.{{partition(10)}}", "t.x", "p.9"},
    {"t.x", "p.{{partition(1000,1)}}", "t.x", "p.29"},
    {"t.x", "p.{{partition(1000)}}", "t.x", "p.29"},
    {"t.*", "p.{{partition(1000,0)}}", "t.x", "p.267"},
    {"t.*", "p.{{partition(1000,-7)}}", "t.x", "p.267"},
    {"t.*", "p.{{partition(0,1)}}", "t.x", "p.0"},
    {"t.*", "p.{{partition(-5,1)}}", "t.x", "p.4245442695"},
    {"t.*", "p.{{partition(2147483647,1)}}", "t.x", "p.2097959048"},
    {"t.*", "p.{{partition(-2147483649,1)}}", "t.x", "p.2097959048"},
    {"t.*.*", "p.{{ Partition( 7 ,  1 , 2 ) }}", "t.x.y", "p.4"},
    {"t.>", "p.{{partition(100)}}.>", "t.x.y.z", "p.44.x.y.z"},
    {"t.*", "d.{{random(0)}}", "t.x", "d.0"},
    {"t.*", "d.{{random(1)}}", "t.x", "d.0"},
    {"t.x", "d.{{random(1)}}", "t.x", "d.0"},
    {"t.*", "d.{{random(-1)}}", "t.x", "d.0"},
    {"t.*", "d.{{Random( 1 )}}", "t.x", "d.0"},
    {"t.*", "d.{{splitfromleft(1,3)}}", "t.12345", "d.123.45"},
    {"t.*", "d.{{SplitFromLeft(1,3)}}", "t.12345", "d.123.45"},
    {"t.*", "d.{{splitFromLeft(1,5)}}", "t.12345", "d.12345"},
    {"t.*", "d.{{splitFromLeft(1,0)}}", "t.12345", "d.12345"},
    {"t.*", "d.{{splitFromLeft(1,-1)}}", "t.12345", "d.12345"},
    {"t.*", "d.{{splitFromLeft(1,9)}}", "t.12345", "d.12345"},
    {"t.*", "d.{{splitFromLeft(1,4)}}.e", "t.12345", "d.1234.5.e"},
    {"t.*", "d.{{splitFromLeft(0,1)}}", "t.12345", "d.t"},
    {"t.*", "d.{{splitfromright(1,3)}}", "t.12345", "d.12.345"},
    {"t.*", "d.{{SplitFromRight(1,5)}}", "t.12345", "d.12345"},
    {"t.*", "d.{{SplitFromRight(1,0)}}", "t.12345", "d.12345"},
    {"t.*", "d.{{SplitFromRight(1,4)}}", "t.12345", "d.1.2345"},
    {"t.*", "d.{{slicefromleft(1,3)}}", "t.1234567890", "d.123.456.789.0"},
    {"t.*", "d.{{SliceFromLeft(1,5)}}", "t.1234567890", "d.12345.67890"},
    {"t.*", "d.{{SliceFromLeft(1,1)}}", "t.1234", "d.1.2.3.4"},
    {"t.*", "d.{{SliceFromLeft(1,10)}}", "t.1234567890", "d.1234567890"},
    {"t.*", "d.{{SliceFromLeft(1,9)}}", "t.1234567890", "d.123456789.0"},
    {"t.*", "d.{{SliceFromLeft(1,6)}}", "t.1234567890", "d.123456.7890"},
    {"t.*", "d.{{SliceFromLeft(1,0)}}", "t.1234567890", "d.1234567890"},
    {"t.*", "d.{{SliceFromLeft(1,-2)}}", "t.1234567890", "d.1234567890"},
    {"t.*", "d.{{SliceFromLeft(1,2147483647)}}", "t.1234567890", "d.1234567890"},
    {"t.*", "d.{{slicefromright(1,3)}}", "t.1234567890", "d.1.234.567.890"},
    {"t.*", "d.{{SliceFromRight(1,5)}}", "t.1234567890", "d.12345.67890"},
    {"t.*", "d.{{SliceFromRight(1,1)}}", "t.1234", "d.1.2.3.4"},
    {"t.*", "d.{{SliceFromRight(1,10)}}", "t.1234567890", "d.1234567890"},
    {"t.*", "d.{{SliceFromRight(1,9)}}", "t.1234567890", "d.1.234567890"},
    {"t.*", "d.{{SliceFromRight(1,6)}}", "t.1234567890", "d.1234.567890"},
    {"t.*", "d.{{split(1,-)}}", "t.a-b-c", "d.a.b.c"},
    {"t.*", "d.{{Split(1,-)}}", "t.-a--b-", "d.a.b"},
    {"t.*", "d.{{split(1,--)}}", "t.a--b---c", "d.a.b.-c"},
    {"t.*", "d.{{split(1,-)}}", "t.-", "d."},
    {"t.*", "d.{{split(1,-)}}", "t.--", "d."},
    {"t.*", "d.{{split(1,-)}}", "t.---a", "d..a"},
    {"t.*", "d.{{split(1,-)}}", "t.abc", "d.abc"},
    {"t.*", "d.{{split(1,)}}", "t.abc", "d.a.b.c"},
    {"t.*", "d.{{split(1,)}}", "t.a\303\251b", "d.a.\303\251.b"},
    {"t.*", "d.{{split(1, -)}}", "t.a-b", "d.a.b"},
    {"t.*", "d.{{split(1,.)}}", "t.a-b", "d.{{split(1,.)}}"},
    {"t.*", "d.{{split(1,))}}", "t.a)b", "d.a.b"},
    {"t.*.*", "d.{{split(2,-)}}.{{split(1,_)}}.$1", "t.a_b.c-d", "d.c.d.a.b.a_b"},
    {"t.*", "d.{{left(1,2)}}", "t.abcdef", "d.ab"},
    {"t.*", "d.{{Left(1,9)}}", "t.abcdef", "d.abcdef"},
    {"t.*", "d.{{right(1,2)}}", "t.abcdef", "d.ef"},
    {"t.*", "d.{{right(1,0)}}", "t.abcdef", "d.abcdef"},
    {"t.*", "d.{{left(1,6)}}", "t.abcdef", "d.abcdef"},
    {"t.*", "d.x{{wildcard(1)}}", "t.x", "d.x{{wildcard(1)}}"},
    {"t.*", "d.{{foo{{wildcard(1)}}", "t.x", "d.x"},
    {"t.*", "d.{{wildcard(+1)}}", "t.x", "d.x"},
    {"t.*", "d.{{wildcard( 1)}}", "t.x", "d.x"},
    {"t.*.*.*", "d.$3", "t.x.y.z", "d.z"},
    {"t.*.x.*", "d.$1.$2", "t.a.x.b", "d.a.b"},
    {"t.*.x.*", "d.$1.$2", "t.a.y.b", NULL},
    {"t.*", "d.$1", "t.x.y", NULL},
    {"t.*.>", "d.$1.>", "t.x", NULL},
    {"t.>", "d.>", "t.a*b.c>", "d.a*b.c>"},
};

static const char *const refused[][2] = {
    {"t.*", "d.{{WILDCARD(1)}}"},
    {"t.*", "d.$2"},
    {"t.>", "d.$1.>"},
    {"t.*", "d.{{wildcard()}}"},
    {"t.*", "d.{{wildcard(1,2)}}"},
    {"t.*", "d.{{wildcard(a)}}"},
    {"t.*", "d.{{wildcard}}"},
    {"t.*", "d.{{a}}"},
    {"t.*", "d.*"},
    {"t.*", "d.>"},
    {"t.>", "d"},
    {"t.>", "d.>.e"},
    {"t.*", "d..e"},
    {"t..x", "d"},
    {"t.>.x", "d.>"},
    {"t.*", "p.{{partition(2147483648,1)}}"},
    {"t.*", "p.{{partition(4,2)}}"},
    {"t.*", "p.{{partition()}}"},
    {"t.*", "p.{{partition(a)}}"},
    {"t.*", "p.{{partition(4,a)}}"},
    {"t.*", "p.{{partition(4,)}}"},
    {"t.x", "d.$1"},
    {"t.x", "d.{{wildcard(1)}}"},
    {"t.x", "d.{{split(1,-)}}"},
    {"t.*", "d.{{random(a)}}"},
    {"t.*", "d.{{random()}}"},
    {"t.*", "d.{{random(1,2)}}"},
    {"t.*", "d.{{random(2147483648)}}"},
    {"t.*", "d.{{splitFromLeft(1)}}"},
    {"t.*", "d.{{splitFromLeft(1,2,3)}}"},
    {"t.*", "d.{{splitFromLeft()}}"},
    {"t.*", "d.{{splitFromLeft(1,a)}}"},
    {"t.*", "d.{{splitFromLeft(a,1)}}"},
    {"t.*", "d.{{splitFromLeft(2,1)}}"},
    {"t.*", "d.{{splitFromLeft(1,2147483648)}}"},
    {"t.*", "d.{{splitFromLeft(1,-2147483649)}}"},
    {"t.*", "d.{{SPLITFROMLEFT(1,3)}}"},
    {"t.*", "d.{{split(1,- )}}"},
    {"t.*", "d.{{split(1,-,-)}}"},
    {"t.*", "d.{{split(1)}}"},
    {"t.*", "d.{{split(a,-)}}"},
    {"t.*", "d.{{split(2,-)}}"},
    {"t.*", "d.{{split()}}"},
    {"t.*", "d.{{left(1)}}"},
    {"t.*", "d.{{right(2,1)}}"},
    {"t.*", "d.{{wildcard(1)}}{{left(1,2)}}"},
    {"t.*", "d.{{wildcard(1))}}"},
    {"t.*", "d.{{wildcard(1_0)}}"},
    {"t.*", "d.{{toolong(1,2)}}.x"},
};

static bytes_t text(const char *c) {
    return bytes_of(c, (uint32_t)strlen(c));
}

static transform_t *made(const char *source, const char *destination) {
    transform_t *transform;
    if (transform_new(text(source), text(destination), &transform) != STATUS_OK) {
        FAIL("refused: \"%s\" to \"%s\"", source, destination);
    }
    return transform;
}

static void renames_as_the_reference_does(void) {
    for (uint32_t i = 0; i < sizeof(stored) / sizeof(stored[0]); i++) {
        const row_t *row = &stored[i];
        transform_t *transform = made(row->source, row->destination);
        uint8_t out[256];
        uint32_t size = 0;
        status_t status = transform_apply(transform, text(row->subject), 7, out, sizeof(out), &size);
        transform_free(transform);
        if (row->result == NULL) {
            CHECK_EQ_I64(STATUS_NOT_FOUND, status);
        } else {
            CHECK_EQ_I64(STATUS_OK, status);
            CHECK_TEXT(row->result, out, size);
        }
    }
}

static void refuses_what_the_reference_refuses(void) {
    for (uint32_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        transform_t *transform;
        if (transform_new(text(refused[i][0]), text(refused[i][1]), &transform) != STATUS_INVALID) {
            FAIL("taken: \"%s\" to \"%s\"", refused[i][0], refused[i][1]);
        }
        CHECK(transform == NULL);
    }
}

static void a_random_token_is_below_its_bound_and_reaches_all(void) {
    transform_t *transform = made("t", "{{random(4)}}.{{random(4)}}");
    uint32_t seen = 0;
    for (uint64_t random = 0; random < 400; random++) {
        uint8_t out[16];
        uint32_t size = 0;
        CHECK_EQ_I64(STATUS_OK, transform_apply(transform, text("t"), random, out, sizeof(out), &size));
        CHECK_EQ_U64(3, size);
        CHECK(out[0] >= '0' && out[0] <= '3' && out[1] == '.' && out[2] >= '0' && out[2] <= '3');
        seen |= 1u << ((out[0] - '0') * 4 + (out[2] - '0'));
    }
    transform_free(transform);
    CHECK_EQ_U64(0xffff, seen);
}

static void what_is_no_literal_subject_is_not_renamed(void) {
    static const char *const subjects[] = {"", ".", "t.", ".t", "t..x", "t.*", "t.>", "t.a b"};
    transform_t *some = made("t.>", "d.>"), *all = made("", "d.>");
    for (uint32_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
        uint8_t out[64];
        uint32_t size;
        CHECK_EQ_I64(STATUS_NOT_FOUND, transform_apply(some, text(subjects[i]), 0, out, sizeof(out), &size));
        CHECK_EQ_I64(STATUS_NOT_FOUND, transform_apply(all, text(subjects[i]), 0, out, sizeof(out), &size));
    }
    transform_free(some);
    transform_free(all);
}

static void a_name_that_is_too_long_is_told_and_not_written_past_the_end(void) {
    transform_t *transform = made("t.*", "d.$1.{{sliceFromLeft(1,1)}}");
    for (uint32_t max = 0; max < 18; max++) {
        uint8_t *out = malloc(max + 1); /* the sanitizer watches the byte behind it */
        uint32_t size;
        CHECK_EQ_I64(max < 17 ? STATUS_FULL : STATUS_OK,
                     transform_apply(transform, text("t.abcde"), 0, out, max, &size));
        free(out);
        CHECK(size <= max);
    }
    transform_free(transform);
}

static void a_source_of_too_many_tokens_is_refused(void) {
    char source[1024];
    uint32_t size = 0;
    for (uint32_t i = 0; i < 257; i++) {
        source[size++] = '*';
        source[size++] = '.';
    }
    transform_t *transform;
    CHECK_EQ_I64(STATUS_INVALID, transform_new(bytes_of(source, size - 1), text("d.$1"), &transform));
    CHECK_EQ_I64(STATUS_OK, transform_new(bytes_of(source, size - 3), text("d.$256"), &transform));
    uint8_t out[16];
    uint32_t out_size;
    for (uint32_t i = 0; i < size; i += 2) {
        source[i] = i == 510 ? 'z' : 'a';
    }
    CHECK_EQ_I64(STATUS_OK, transform_apply(transform, bytes_of(source, size - 3), 0, out, sizeof(out), &out_size));
    CHECK_TEXT("d.z", out, out_size);
    transform_free(transform);
}

int main(void) {
    RUN("subjects are renamed as the reference renames them", renames_as_the_reference_does);
    RUN("what the reference refuses is refused", refuses_what_the_reference_refuses);
    RUN("random tokens are below their bound, reach all, and are drawn one by one",
        a_random_token_is_below_its_bound_and_reaches_all);
    RUN("what is no literal subject is not renamed", what_is_no_literal_subject_is_not_renamed);
    RUN("a name that is too long is told and not written past the end",
        a_name_that_is_too_long_is_told_and_not_written_past_the_end);
    RUN("a source of more tokens than subscriptions may have is refused", a_source_of_too_many_tokens_is_refused);
    return TEST_RESULT();
}
