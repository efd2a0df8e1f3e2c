/* test_plane_target.c: the rows of target.h keep each other: what is inside runs last, what is JetStream's own is out
 * of reach of imported messages and of replies that somebody else named. */
#include "plane/target.h"
#include "plane_rig.h"

static void every_kind_has_its_row(void) {
    for (uint32_t kind = 0; kind < TARGET_KIND_COUNT; kind++) {
        const target_traits_t *row = &target_traits[kind];
        bool queue = row->order == ORDER_QUEUE || row->order == ORDER_LINK;
        CHECK_EQ_U64(queue, row->subscription);
        CHECK_EQ_U64(queue, (row->withheld & PUBLICATION_INSIDE) != 0);
        if (row->peer) CHECK(row->subscription);
        if (row->jetstream) {
            CHECK((row->withheld & PUBLICATION_UNJUDGED) != 0);
            CHECK((row->withheld & PUBLICATION_IMPORTED) != 0);
            CHECK(!row->casts_shadows);
        }
        CHECK_EQ_U64(row->order == ORDER_INSIDE, row->take != NULL);
        if (row->order == ORDER_CROSS) CHECK((row->withheld & PUBLICATION_IMPORTED) != 0);
        if (row->casts_shadows) CHECK_EQ_U64(0, row->withheld & PUBLICATION_IMPORTED);
    }
}

static void only_links_are_gathered_and_only_shadows_follow_their_origin(void) {
    for (uint32_t kind = 0; kind < TARGET_KIND_COUNT; kind++) {
        CHECK_EQ_U64(kind >= TARGET_LEAF && kind <= TARGET_GATEWAY, target_traits[kind].order == ORDER_LINK);
        CHECK_EQ_U64(kind == TARGET_SHADOW, target_traits[kind].told == TOLD_AS_ITS_ORIGIN);
    }
}

int main(void) {
    RUN("no kind of target contradicts itself, those inside take what they get, and JetStream's own are withheld from "
        "what nobody judged",
        every_kind_has_its_row);
    RUN("only links are gathered, and only shadows are told of as their origin is",
        only_links_are_gathered_and_only_shadows_follow_their_origin);
    return TEST_RESULT();
}
