/* test_tokens.c: the walk over a subject's tokens, against the list of tokens that the header's drawing gives. */
#include "text/tokens.h"

#include "test.h"

#define TOKENS_MAX 4

typedef struct example {
    const char *subject;
    uint32_t count;
    const char *tokens[TOKENS_MAX];
} example_t;

static const example_t examples[] = {
    {"", 0, {0}},         {"a", 1, {"a"}},    {"a.b.c", 3, {"a", "b", "c"}}, {"a..b", 3, {"a", "", "b"}},
    {"a.", 2, {"a", ""}}, {".", 2, {"", ""}}, {".a", 2, {"", "a"}},          {"*.x.>", 3, {"*", "x", ">"}},
};

static void walked(void) {
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example_t *example = &examples[i];
        bytes_t subject = bytes_of(example->subject, (uint32_t)strlen(example->subject));
        token_walk_t walk = tokens_of(subject);
        for (uint32_t t = 0; t < example->count; t++) {
            CHECK(!walk.done);
            bytes_t rest = tokens_rest(&walk);
            bytes_t token = tokens_next(&walk);
            CHECK_TEXT(example->tokens[t], token.at, token.size);
            CHECK(token.at == rest.at);
            CHECK(rest.at + rest.size == subject.at + subject.size);
        }
        CHECK(walk.done);
        CHECK_EQ_U64(0, tokens_next(&walk).size);
    }
}

static void taken_from_the_end(void) {
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example_t *example = &examples[i];
        bytes_t left = bytes_of(example->subject, (uint32_t)strlen(example->subject)), token;
        for (uint32_t t = example->count; t > 1; t--) {
            CHECK(tokens_take_last(&left, &token));
            CHECK_TEXT(example->tokens[t - 1], token.at, token.size);
        }
        bytes_t before = left;
        CHECK(!tokens_take_last(&left, &token));
        CHECK(before.at == left.at && before.size == left.size);
    }
}

/* Every length, every place of one dot and of two, among bytes that differ from a dot by a bit. */
static void dots_at_every_place(void) {
    static const uint8_t others[] = {'a', '/', '-', 0xae, 0x2f, 0x2c, 0xff, 0};
    uint8_t text[32];
    for (uint32_t size = 1; size < sizeof text; size++) {
        for (uint32_t place = 0; place < size * size; place++) {
            uint32_t first = place / size, second = place % size;
            memset(text, others[place % sizeof others], sizeof text);
            text[first] = text[second] = '.';
            uint32_t lowest = first < second ? first : second;
            CHECK(tokens_dot(text, text + size) == text + lowest);
            CHECK(tokens_dot(text, text + lowest) == text + lowest);
            CHECK_EQ_U64(first == second ? 1 : 2, tokens_count_dots(text, text + size));
            CHECK_EQ_U64(0, tokens_count_dots(text, text + lowest));
        }
    }
}

static void wildcards(void) {
    CHECK(token_is(BYTES_LITERAL("*"), '*'));
    CHECK(!token_is(BYTES_LITERAL(">"), '*'));
    CHECK(!token_is(BYTES_LITERAL("**"), '*'));
    CHECK(!token_is(BYTES_NONE, '*'));
}

int main(void) {
    RUN("a walk hands out every token, the empty ones too, and says when there is none left", walked);
    RUN("tokens are taken off the end until there is one left", taken_from_the_end);
    RUN("a dot is found and counted wherever it is, and nothing else is taken for one", dots_at_every_place);
    RUN("only a token of that one byte is the wildcard", wildcards);
    return TEST_RESULT();
}
