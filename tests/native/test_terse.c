/* test_terse.c: lines of messages in the terse form, byte by byte as terse.h draws it; what is refused. Pieces of any
 * size and the checksum are in test_compress.c. */
#include "text/terse.h"

#include <stdlib.h>

#include "base/random.h"
#include "test.h"

/* Into memory of the exact size, from memory of the exact size. */
static status_t read_exact(terse_t *terse, const void *form, uint32_t size, uint8_t **made, uint32_t made_size) {
    uint8_t *exact = malloc(size == 0 ? 1 : size);
    memcpy(exact, form, size);
    *made = malloc(made_size == 0 ? 1 : made_size);
    status_t status = terse_read(terse, bytes_of(exact, size), *made, made_size);
    free(exact);
    return status;
}

/* The text has this form, and the form becomes the text. */
static void forms(terse_t *said, terse_t *heard, const char *text, const char *form, size_t size) {
    uint32_t length = (uint32_t)strlen(text);
    uint8_t *room = malloc(TERSE_ROOM(length)), *made;
    uint32_t took = terse_write(said, bytes_of(text, length), room);
    CHECK_BYTES(form, size, room, took);
    CHECK_EQ_I64(STATUS_OK, read_exact(heard, form, (uint32_t)size, &made, length));
    CHECK_TEXT(text, made, length);
    free(made);
    free(room);
}

#define FORMS(text, form) forms(said, heard, text, form, sizeof(form) - 1)

static void a_line_is_said_by_what_is_new_in_it(void) {
    terse_t *said = terse_new(), *heard = terse_new();
    FORMS("PING\r\n", "\x06PING\r\n");
    FORMS("LMSG d.x $JS.ACK.T.c.1.17.17.1000.983@t.x 3\r\nabc\r\n", "\x40\x2b"
                                                                    "LMSG d.x $JS.ACK.T.c.1.17.17.1000.983@t.x 3abc");
    /* 1 and 3 stay, 17 and 17 and 1000 and 983 have moved by 1, 1, 5, -1: numbers 1 to 4 of the mask. */
    FORMS("LMSG d.x $JS.ACK.T.c.1.18.18.1005.982@t.x 3\r\ndef\r\n", "\x80\x1e\x02\x02\x0a\x01"
                                                                    "def");
    /* And now as the time before, but 1005 by 7, 2 more than the 5 before. */
    FORMS("LMSG d.x $JS.ACK.T.c.1.19.19.1012.981@t.x 3\r\nghi\r\n", "\x80\x08\x04"
                                                                    "ghi");
    FORMS("LMSG d.x $JS.ACK.T.c.1.20.20.1019.980@t.x 3\r\njkl\r\n", "\x80\x00jkl");
    /* Another subject: five numbers as expected, then the rest. */
    FORMS("LMSG d.x $JS.ACK.T.c.1.21.21.1026.979@u.yy 2\r\nmn\r\nPONG\r\n", "\xc0\x05\x00\x07@u.yy 2mn\x06PONG\r\n");
    FORMS("LMSG d.x $JS.ACK.T.c.1.22.22.1033.978@u.yy 2\r\nop\r\n", "\x80\x00op");
    /* Another consumer has a place of its own, and the first one's stays. */
    FORMS("LMSG d.z $JS.ACK.T.c.1.1.1.1033.978@u.yy 2\r\nop\r\n", "\x41\x2a"
                                                                  "LMSG d.z $JS.ACK.T.c.1.1.1.1033.978@u.yy 2op");
    FORMS("LMSG d.x $JS.ACK.T.c.1.23.23.1040.977@u.yy 2\r\nqr\r\n", "\x80\x00qr");
    terse_free(said);
    terse_free(heard);
}

static void numbers_grow_and_shrink(void) {
    terse_t *said = terse_new(), *heard = terse_new();
    FORMS("LMSG d.x $JS.ACK.T.c.9.99.9.0.100@t.007.5x 1\r\na\r\n", "\x40\x2c"
                                                                   "LMSG d.x $JS.ACK.T.c.9.99.9.0.100@t.007.5x 1a");
    FORMS("LMSG d.x $JS.ACK.T.c.10.100.10.18.99@t.007.5x 0\r\n\r\n", "\x80\x3f\x02\x02\x02\x24\x01\x01");
    /* 9999999999999999981 more, where 18 more were expected: less than half of 2^64 less. */
    FORMS("LMSG d.x $JS.ACK.T.c.11.101.11.9999999999999999999.98@t.007.5x 0\r\n\r\n",
          "\x80\x28\xc9\x80\xc0\xe1\xee\xbe\xee\xb8\xea\x01\x02");
    terse_free(said);
    terse_free(heard);
}

static void a_message_is_cut_anywhere(void) {
    static const char text[] = "LS+ a.b\r\nLMSG d.x $JS.ACK.T.c.1.17.17.1000.983@t.x 5\r\nabcde\r\n"
                               "HMSG d.x $JS.ACK.T.c.1.18.18.1000.983@t.x 12 14\r\nNATS/1.0\r\n\r\nxy\r\nPING\r\n";
    for (uint32_t cut = 1; cut < sizeof text - 1; cut++) {
        terse_t *said = terse_new(), *heard = terse_new();
        uint8_t room[2 * TERSE_ROOM(sizeof text)], *made;
        uint32_t sizes[2] = {cut, (uint32_t)(sizeof text - 1 - cut)}, from = 0;
        for (uint32_t i = 0; i < 2; from += sizes[i++]) {
            uint32_t took = terse_write(said, bytes_of(text + from, sizes[i]), room);
            CHECK(took != 0);
            CHECK_EQ_I64(STATUS_OK, read_exact(heard, room, took, &made, sizes[i]));
            CHECK_BYTES(text + from, sizes[i], made, sizes[i]);
            free(made);
        }
        /* It knows where a line begins: behind what it only passed, too. */
        terse_t *passed = terse_new();
        terse_pass(passed, bytes_of(text, cut));
        terse_pass(passed, bytes_of(text + cut, sizes[1]));
        CHECK_EQ_U64(44,
                     terse_write(passed, BYTES_LITERAL("LMSG d.x $JS.ACK.T.c.1.17.17.1000.983@t 1\r\na\r\n"), room));
        terse_free(passed);
        terse_free(said);
        terse_free(heard);
    }
}

/* Lines of which no two have anything in common, as short as they are looked at, and none of them in vain. */
static void the_form_is_never_longer_than_its_room(void) {
    uint64_t random = 11;
    for (uint32_t round = 0; round < 300; round++) {
        static char text[TERSE_TEXT_MAX];
        static uint8_t room[TERSE_ROOM(TERSE_TEXT_MAX)];
        uint32_t size = 0, lines = 1 + (uint32_t)random_below(&random, 1000);
        for (uint32_t i = 0; i < lines; i++) {
            uint32_t kind = (uint32_t)random_below(&random, 4);
            size +=
                (uint32_t)snprintf(text + size, 64, kind == 0 ? "\r\n" : "LMSG %c.%c %016" PRIx64 ".%u.%u.%u 0\r\n\r\n",
                                   'a' + (int)random_below(&random, 26), 'a' + (int)random_below(&random, 26),
                                   random_next(&random), (uint32_t)random_below(&random, 10),
                                   (uint32_t)random_below(&random, 10), (uint32_t)random_below(&random, 10));
        }
        uint8_t *made;
        terse_t *said = terse_new(), *heard = terse_new();
        uint32_t took = terse_write(said, bytes_of(text, size), room);
        CHECK(took != 0 && took <= TERSE_ROOM(size));
        CHECK_EQ_I64(STATUS_OK, read_exact(heard, room, took, &made, size));
        CHECK_BYTES(text, size, made, size);
        free(made);
        terse_free(said);
        terse_free(heard);
    }
}

static void a_message_that_does_not_end_as_it_says_is_refused(void) {
    terse_t *said = terse_new();
    uint8_t room[200];
    CHECK_EQ_U64(0, terse_write(said, BYTES_LITERAL("LMSG d.x $JS.ACK.T.c.1.17.17.1000.983@t.x 3\r\nabcd\r\n"), room));
    terse_free(said);
}

#define LINE "LMSG d.x $JS.ACK.T.c.1.17.17.1000.983@t.x 3"
#define SET "\x40\x2b" LINE "abc"

static void refused(const char *form, size_t size, uint32_t made_size) {
    uint8_t *made;
    terse_t *heard = terse_new();
    CHECK_EQ_I64(STATUS_CORRUPT, read_exact(heard, form, (uint32_t)size, &made, made_size));
    free(made);
    terse_free(heard);
}

#define REFUSED(form, made_size) refused(form, sizeof(form) - 1, made_size)

static void what_is_no_terse_text_is_refused(void) {
    const uint32_t one = sizeof(LINE) - 1 + 2 + 3 + 2;
    for (uint32_t cut = 1; cut < sizeof(SET) - 1; cut++) refused(SET, cut, one);
    REFUSED(SET, one - 3); /* it ends before its line, or with less than it says */
    REFUSED(SET, one + 1);
    REFUSED("\x05PING", 5);
    REFUSED("\x04PING", 3);
    REFUSED("\x3f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
    REFUSED("\x3f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10); /* no number of 64 bits */
    REFUSED("\x40\xc1\x01", 300);                                /* a line that is too long */
    REFUSED("\x40\x07no line", 100);                             /* .. and one without a size */
    REFUSED("\x50\x2b" LINE "abc", one);                         /* no such place */
    REFUSED("\x80\x00", one);                                    /* a place of which nothing is known */
    REFUSED("\xc0\x01\x00\x01x", one);
    REFUSED(SET "\x81\x00"
                "abc",
            2 * one);
    REFUSED(SET "\x80\x40"
                "abc",
            2 * one); /* news of a number that the line has not */
    REFUSED(SET "\x80\x01", 2 * one);
    REFUSED(SET "\xc0\x07\x00\x02 3"
                "abc",
            2 * one);
    REFUSED(SET "\xc0\x00\x00\x02 3"
                "abc",
            2 * one);
    REFUSED(SET "\xc0\x05\x00\x7f 3", 2 * one);
    REFUSED(SET "\x80\x20\x07", 2 * one); /* 4 bytes less than 3 */
}

int main(void) {
    RUN("a line is said by what is new in it", a_line_is_said_by_what_is_new_in_it);
    RUN("numbers grow and shrink, up to 19 digits; what begins with a zero is text", numbers_grow_and_shrink);
    RUN("a message is cut anywhere, and lines are known again behind it", a_message_is_cut_anywhere);
    RUN("the form is never longer than its room", the_form_is_never_longer_than_its_room);
    RUN("a message that does not end as it says is refused", a_message_that_does_not_end_as_it_says_is_refused);
    RUN("what is no terse text is refused, and nothing is read or written beyond", what_is_no_terse_text_is_refused);
    return TEST_RESULT();
}
