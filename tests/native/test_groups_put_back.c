/* test_groups_put_back.c: groups of three servers, one of whose disks is put back from an image of itself, which has
 * its id (group/marks.h): it has forgotten what it promised. It takes part in nothing, says so, and is another disk at
 * its next start. What was answered is not lost by it.
 */
#include "groups_acts.h"

static const char *const files[] = {"highwater", "data.mdb", "journal"};
static char image[RIG_PATH];

/* The one that is down is copied, as a snapshot of its disk would be. */
static void image_take(uint32_t at) {
    snprintf(image, sizeof image, "%s/image", world.node[at].rig.root);
    CHECK_EQ_I64(0, mkdir(image, 0700));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        rig_copy_file(world.node[at].rig.directory, image, files[i]);
    }
}

static void image_put_back(uint32_t at) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        rig_copy_file(image, world.node[at].rig.directory, files[i]);
    }
    rig_remove_directory(image);
}

static bool says_so(uint32_t at) {
    return rig_alarmed(&world.node[at].rig, "was put back from an older copy");
}

static uint32_t away;

static bool away_says_so(void) {
    return says_so(away);
}

/* Three servers, of which that one was away while more was agreed on; what it had before is in the image. */
static void begin_with_image(uint64_t seed) {
    world_begin(3, 1, seed);
    world_until(all_lead);
    propose_some(30, 100);
    world_until(all_level);
    away = others_of(world_leader(0), 1);
    node_kill(away);
    image_take(away);
    node_start(away);
    propose_some(60, 100);
    world_until(all_level);
    world_pass(3 * NS_PER_SECOND); /* the others are told how much it has */
}

/* Its next start is that of another disk, whose groups are to be begun anew. */
static void is_another_disk(uint32_t at) {
    node_t *node = &world.node[at];
    uint64_t disk = 0;
    groups_hooks_t hooks = {.context = node, .reaches = world_reaches, .deliver = world_deliver};
    node_down(at);
    rig_reopen(&node->rig);
    CHECK(store_ledger_disk(node->rig.store, &disk));
    CHECK(disk != node->id.disk);
    node->stream[0] = rig_stream(&node->rig, 1, rig_config());
    CHECK_EQ_I64(STATUS_OK, groups_open(node->rig.store, at + 1, hooks, &node->groups));
    CHECK_EQ_I64(STATUS_INVALID, groups_load(node->groups, world_options(at, 0), world.now, &node->group[0]));
    groups_close(node->groups);
    node->groups = NULL;
    rig_close(&node->rig);
}

static void end_without(uint32_t at) {
    for (uint32_t i = 0; i < PARCELS_MAX; i++) {
        world_forget(&world.parcels[i]);
    }
    for (uint32_t other = 0; other < world.nodes; other++) {
        if (other != at) {
            node_down(other);
            rig_close(&world.node[other].rig);
        }
    }
}

static void while_the_others_run(void) {
    begin_with_image(7);
    group_look_t before = group_look(world.node[away].group[0], world.now);
    node_kill(away);
    image_put_back(away);
    node_start(away);
    group_look_t after = group_look(world.node[away].group[0], world.now);
    CHECK(after.last < before.last);
    world_until(away_says_so);
    CHECK_EQ_U64(after.last, group_look(world.node[away].group[0], world.now).last);
    propose_some(20, 100);
    CHECK_EQ_U64(after.last, group_look(world.node[away].group[0], world.now).last);
    is_another_disk(away);
    end_without(away);
}

/* The leader and the one whose disk is put back are all that had the last messages, and the leader is dead: the other
 * two are a majority that has forgotten them. */
static void when_only_it_and_the_dead_leader_knew(void) {
    begin_with_image(8);
    uint32_t leader = world_leader(0);
    uint32_t third = 3 - leader - away;
    cut_off(third);
    propose_some(20, 100);
    world_until(all_answered);
    node_kill(leader);
    node_kill(away);
    image_put_back(away);
    memset(world.cut, 0, sizeof world.cut);
    node_start(away);
    world_until(away_says_so);
    world_pass(20 * NS_PER_SECOND);
    CHECK_EQ_U64(world.nodes, world_leader(0)); /* nobody: both would do it */
    node_start(leader);
    world_until(all_lead);
    propose_some(5, 100);
    world_until(all_answered);
    world_pass(NS_PER_SECOND);
    CHECK_EQ_U64(0, world.lost);
    for (uint64_t token = 1; token <= world.tokens; token++) {
        const proposal_t *proposal = &world.proposals[token];
        CHECK(proposal->answered_ns != 0 && world.entries[0][proposal->applied_at] == token);
    }
    node_agrees(&world.node[leader], 0);
    node_agrees(&world.node[third], 0);
    is_another_disk(away);
    end_without(away);
}

/* Kills and starts of disks that have what they told. */
static void others_are_well(void) {
    world_begin(3, 1, 9);
    world.late_ns = 50 * NS_PER_MS;
    world.loss = 50;
    for (uint32_t i = 0; i < 12; i++) {
        world_until(all_lead);
        propose_some(10, 100);
        world_pass((int64_t)(i % 4) * NS_PER_SECOND);
        node_kill(i % 3);
        world_pass(100 * NS_PER_MS);
        node_start(i % 3);
        for (uint32_t at = 0; at < 3; at++) {
            CHECK(!says_so(at));
        }
    }
    world_agree();
    world_end();
}

/* What a server says that is in no group with this one, be it that its disk has heard of more than there ever was. */
static void strangers_are_not_believed(void) {
    uint8_t bytes[FRAME_HEAD];
    frame_writer_t writer;
    world_begin(3, 1, 11);
    world_until(all_lead);
    for (uint64_t peer = 1; peer <= 9; peer += 4) { /* another disk of the first server; two of servers that are none */
        const raft_disk_t stranger = {.peer = peer, .disk = 99};
        frame_begin(&writer, bytes, sizeof bytes, stranger, world.node[1].id, INT64_MIN + 1);
        bytes_t frame = bytes_of(bytes, frame_end(&writer));
        groups_receive(world.node[1].groups, peer, frame, world.now);
    }
    propose_some(10, 100);
    world_until(all_answered);
    world_pass(5 * NS_PER_SECOND);
    CHECK(!says_so(1));
    frame_begin(&writer, bytes, sizeof bytes, world.node[0].id, world.node[1].id, INT64_MIN + 1);
    groups_receive(world.node[1].groups, 1, bytes_of(bytes, frame_end(&writer)), world.now);
    away = 1;
    world_until(away_says_so);
    is_another_disk(away);
    end_without(away);
}

int main(void) {
    RUN("a disk that is put back while the others run takes part in nothing, and says so", while_the_others_run);
    RUN("it makes no majority with one that knew as little", when_only_it_and_the_dead_leader_knew);
    RUN("a disk that was killed is no such one", others_are_well);
    RUN("a server that is in no group with a disk says nothing of it that counts", strangers_are_not_believed);
    return TEST_RESULT();
}
