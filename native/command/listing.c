/* listing.c: how many have a subject, and the subscriptions of one connection, for monitoring, in slices of bounded
 * work: each command's answer says where the next one goes on.
 *
 *     arg: place to go on from --> rows of whole buckets --> completion: arg = next place (0: that was all)
 *
 * The table may grow between two slices: places stay what they are (base/map.h), and each subscription is listed once.
 * Not here: which connections are asked about, and how the report looks (monitor/).
 */
#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/map.h"
#include "base/status.h"
#include "exchange/strings.h"
#include "plane/account.h"
#include "command/command.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "route/route.h"

#define SLICE_BYTES (64u << 10) /* of rows; the last bucket may go over it */
#define SLICE_BUCKETS 4096u
#define ROWS_BYTES_MAX (16u << 20)

void command_subscriptions(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    buffer_t rows;
    buffer_init(&rows, ROWS_BYTES_MAX);
    status_t status = STATUS_OK;
    uint64_t at = command->arg;
    for (uint32_t i = 0; status == STATUS_OK && at < MAP_END && i < SLICE_BUCKETS && rows.size < SLICE_BYTES; i++) {
        status = subscription_rows(&rows, map_at(peer->table, at));
        at = map_beyond(peer->table, at);
    }
    if (status == STATUS_OK) {
        command_answer(plane, command, STATUS_OK, at < MAP_END ? at : 0, 0, bytes_of(rows.at, (uint32_t)rows.size));
    } else {
        command_done(plane, command, status);
    }
    buffer_free(&rows);
}

/* ---- who has that very subject ----------------------------------------------------------------------------------- */

static uint64_t same_subject(route_target_t *const *targets, uint32_t count, bytes_t subject) {
    uint64_t same = 0;
    for (uint32_t i = 0; i < count; i++) {
        same += bytes_equal(targets[i]->subject, subject);
    }
    return same;
}

void command_interest(plane_t *plane, const plane_command_t *command, account_t *account) {
    strings_t strings = strings_of(command);
    bytes_t subject = strings_next(&strings);
    if (command->arg != 0) {
        command_answer(plane, command, STATUS_OK, account_interest(plane, account, subject, BYTES_NONE), 0, BYTES_NONE);
        return;
    }
    const route_match_t *match = route_match(account->route, subject);
    uint64_t count = same_subject(match->plain, match->plain_count, subject);
    for (uint32_t i = 0; i < match->group_count; i++) {
        count += same_subject(match->groups[i].members, match->groups[i].count, subject);
    }
    command_answer(plane, command, STATUS_OK, count, 0, BYTES_NONE);
}
