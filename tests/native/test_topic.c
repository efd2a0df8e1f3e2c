/* test_topic.c: MQTT's topics as subjects and back. The rows are nats-server's own answers (its test of the mapping),
 * so that devices of a fleet find their subjects again. */
#include "text/topic.h"

#include "test.h"

#define ROOM 256u

typedef struct row {
    const char *topic;
    const char *subject;
} row_t;

static const row_t names[] = {
    {"/", "/./"},
    {"//", "/././"},
    {"///", "/./././"},
    {"////", "/././././"},
    {"foo", "foo"},
    {"/foo", "/.foo"},
    {"//foo", "/./.foo"},
    {"///foo", "/././.foo"},
    {"///foo/", "/././.foo./"},
    {"///foo//", "/././.foo././"},
    {"///foo///", "/././.foo./././"},
    {"//.foo.//", "/././/foo//././"},
    {"foo/bar", "foo.bar"},
    {"/foo/bar", "/.foo.bar"},
    {"/foo/bar/", "/.foo.bar./"},
    {"foo/bar/baz", "foo.bar.baz"},
    {"/foo/bar/baz/", "/.foo.bar.baz./"},
    {"bar/", "bar./"},
    {"bar//", "bar././"},
    {"bar///", "bar./././"},
    {"foo//bar", "foo./.bar"},
    {"foo///bar", "foo././.bar"},
    {"foo////bar", "foo./././.bar"},
    {".", "//"},
    {"..", "////"},
    {"...", "//////"},
    {"./", "//./"},
    {".//.", "//././/"},
    {"././.", "//.//.//"},
    {"././/.", "//.//././/"},
    {".foo.", "//foo//"},
    {"foo../bar/", "foo////.bar./"},
    {"foo../bar/.", "foo////.bar.//"},
    {"./foo/.", "//.foo.//"},
    {"foo.bar/baz", "foo//bar.baz"},
};

static const row_t filters[] = {
    {"+", "*"},
    {"/+", "/.*"},
    {"+/", "*./"},
    {"/+/", "/.*./"},
    {"foo/+", "foo.*"},
    {"foo/+/", "foo.*./"},
    {"foo/+/bar", "foo.*.bar"},
    {"foo/+/+/", "foo.*.*./"},
    {"foo//+", "foo./.*"},
    {"foo//+//bar", "foo./.*./.bar"},
    {"foo///+///bar", "foo././.*././.bar"},
    {"#", ">"},
    {"/#", "/.>"},
    {"/foo/#", "/.foo.>"},
    {"foo//#", "foo./.>"},
    {"foo///#", "foo././.>"},
    {"foo/bar.baz/#", "foo.bar//baz.>"},
    {"foo*/bar", "foo*.bar"},
    {"foo/*/bar", "foo.*.bar"},
    {"foo/>", "foo.>"},
};

static bytes_t text(const char *plain) {
    return bytes_of(plain, (uint32_t)strlen(plain));
}

static void a_name_becomes_its_subject_and_back(void) {
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint8_t subject[ROOM], topic[ROOM];
        uint32_t size = 0;
        CHECK_EQ_U64(TOPIC_OK, topic_to_subject(text(names[i].topic), subject, ROOM, &size));
        CHECK_TEXT(names[i].subject, subject, size);
        CHECK_TEXT(names[i].topic, topic, topic_of_subject(bytes_of(subject, size), topic));
    }
}

static void a_filter_becomes_its_pattern(void) {
    for (uint32_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        uint8_t pattern[ROOM];
        uint32_t size = 0;
        CHECK_EQ_U64(TOPIC_OK, topic_filter_to_pattern(text(filters[i].topic), pattern, ROOM, &size));
        CHECK_TEXT(filters[i].subject, pattern, size);
    }
}

static void what_no_subject_can_carry_is_refused(void) {
    uint8_t subject[ROOM];
    uint32_t size;
    CHECK_EQ_U64(TOPIC_EMPTY, topic_to_subject(BYTES_NONE, subject, ROOM, &size));
    CHECK_EQ_U64(TOPIC_WILDCARD, topic_to_subject(text("foo/+"), subject, ROOM, &size));
    CHECK_EQ_U64(TOPIC_WILDCARD, topic_to_subject(text("foo/#"), subject, ROOM, &size));
    CHECK_EQ_U64(TOPIC_WILDCARD, topic_filter_to_pattern(text("foo#"), subject, ROOM, &size));
    CHECK_EQ_U64(TOPIC_WILDCARD, topic_filter_to_pattern(text("foo/#/bar"), subject, ROOM, &size));
    CHECK_EQ_U64(TOPIC_WILDCARD, topic_filter_to_pattern(text("foo/+bar"), subject, ROOM, &size));
    CHECK_EQ_U64(TOPIC_UNSUPPORTED, topic_to_subject(text("foo bar"), subject, ROOM, &size));
    CHECK_EQ_U64(TOPIC_UNSUPPORTED, topic_to_subject(text("foo\x7f"
                                                          "bar"),
                                                     subject, ROOM, &size));
    CHECK_EQ_U64(TOPIC_UNSUPPORTED, topic_filter_to_pattern(text("foo\r\nbar"), subject, ROOM, &size));
}

static void a_subject_is_whole_or_refused_at_each_size_of_room(void) {
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint32_t whole = (uint32_t)strlen(names[i].subject);
        CHECK(whole <= TOPIC_SUBJECT_ROOM(strlen(names[i].topic)));
        for (uint32_t room = 0; room <= whole; room++) {
            uint8_t *subject = malloc(room == 0 ? 1 : room); /* the sanitizer sees a write behind it */
            uint32_t size = 0;
            topic_verdict_t verdict = topic_to_subject(text(names[i].topic), subject, room, &size);
            free(subject);
            CHECK_EQ_U64(room < whole ? TOPIC_LONG : TOPIC_OK, verdict);
        }
    }
}

static void a_filter_of_all_below_matches_its_parent_too(void) {
    CHECK_EQ_U64(3, topic_parent(text("foo.>")));
    CHECK_EQ_U64(1, topic_parent(text("*.>")));
    CHECK_EQ_U64(0, topic_parent(text(">")));
    CHECK_EQ_U64(0, topic_parent(text("foo.bar")));
}

static void a_leading_wildcard_does_not_match_topics_of_the_server(void) {
    CHECK(topic_hidden(text("$SYS.uptime"), text(">")));
    CHECK(topic_hidden(text("$SYS.uptime"), text("*.uptime")));
    CHECK(!topic_hidden(text("$SYS.uptime"), text("$SYS.>")));
    CHECK(!topic_hidden(text("sys.uptime"), text(">")));
}

/* At each place of texts of up to three words of eight bytes, of which the last is in part. */
static void each_byte_of_a_long_text_counts(void) {
    static const char sharp_s[] = "\xc3\x9f";
    for (uint32_t size = 1; size <= 20; size++) {
        for (uint32_t at = 0; at < size; at++) {
            uint8_t bytes[20];
            memset(bytes, 'a', size);
            CHECK(topic_text(bytes_of(bytes, size)));
            for (uint32_t value = 0; value < 256; value++) {
                bytes[at] = (uint8_t)value; /* alone, so none above 0x7f is a character */
                CHECK_EQ_U64(value != 0 && value < 0x80, topic_text(bytes_of(bytes, size)));
            }
            if (at + 1 < size) {
                memcpy(bytes + at, sharp_s, 2);
                CHECK(topic_text(bytes_of(bytes, size)));
                memset(bytes + at, 0, 2);
                CHECK(!topic_text(bytes_of(bytes, size)));
            }
        }
    }
}

static void only_well_formed_text_is_text(void) {
    CHECK(topic_text(text("stra\xc3\x9f"
                          "e/\xe2\x82\xac/\xf0\x9f\x98\x80")));
    CHECK(topic_text(BYTES_NONE));
    CHECK(!topic_text(bytes_of("a\0b", 3)));
    CHECK(!topic_text(text("\xc0\xaf")));         /* overlong */
    CHECK(!topic_text(text("\xe0\x9f\xbf")));     /* overlong */
    CHECK(!topic_text(text("\xf0\x8f\xbf\xbf"))); /* overlong */
    CHECK(!topic_text(text("\xed\xa0\x80")));     /* a surrogate, U+D800 */
    CHECK(topic_text(text("\xed\x9f\xbf")));      /* U+D7FF, the last before them */
    CHECK(!topic_text(text("\xf4\x90\x80\x80"))); /* above U+10FFFF */
    CHECK(!topic_text(text("\x80")));
    CHECK(!topic_text(text("abc\xe2\x82"))); /* cut off */
}

static void a_shared_filter_has_a_name_and_a_filter(void) {
    bytes_t name, filter;
    bool valid;
    CHECK(topic_shared(text("$share/group/a/+"), &name, &filter, &valid));
    CHECK(valid);
    CHECK_TEXT("group", name.at, name.size);
    CHECK_TEXT("a/+", filter.at, filter.size);
    CHECK(!topic_shared(text("$shared/group/a"), &name, &filter, &valid));
    CHECK(!topic_shared(text("a/b"), &name, &filter, &valid));
    CHECK(topic_shared(text("$share/group"), &name, &filter, &valid) && !valid);
    CHECK(topic_shared(text("$share/group/"), &name, &filter, &valid) && !valid);
    CHECK(topic_shared(text("$share//a"), &name, &filter, &valid) && !valid);
    CHECK(topic_shared(text("$share/g+/a"), &name, &filter, &valid) && !valid);
}

int main(void) {
    RUN("a topic name becomes nats-server's subject, and back", a_name_becomes_its_subject_and_back);
    RUN("a topic filter becomes nats-server's pattern", a_filter_becomes_its_pattern);
    RUN("what no subject can carry is refused", what_no_subject_can_carry_is_refused);
    RUN("a subject is whole or refused, whatever room there is", a_subject_is_whole_or_refused_at_each_size_of_room);
    RUN("a filter of all that is below matches its parent too", a_filter_of_all_below_matches_its_parent_too);
    RUN("a leading wildcard does not match topics of the server",
        a_leading_wildcard_does_not_match_topics_of_the_server);
    RUN("only well-formed UTF-8 without NUL is text", only_well_formed_text_is_text);
    RUN("of a long text each byte counts", each_byte_of_a_long_text_counts);
    RUN("a shared filter has a name and a filter", a_shared_filter_has_a_name_and_a_filter);
    return TEST_RESULT();
}
