/* precedence.c: what goes first to a link, what it may still carry, and how fast it may be sent anything, as the
 * configuration says. What follows from it: plane/lanes.h, plane/budget.h, plane/window.h. */
#include <string.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "command/command.h"
#include "exchange/strings.h"
#include "plane/lanes.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"
#include "plane/window.h"

#define RULE_WORDS_MAX 768u /* three of each rule */

void command_precedence(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    strings_t strings = strings_of(command);
    bytes_t rules[RULE_WORDS_MAX];
    uint32_t count = 0;
    while (strings_more(&strings) && count < RULE_WORDS_MAX) {
        rules[count++] = strings_next(&strings);
    }
    if (!peer->protocol->link || strings_more(&strings)) {
        command_done(plane, command, STATUS_INVALID);
        return;
    }
    precedence_t *precedence = precedence_new(rules, count);
    if (precedence == NULL) {
        command_done(plane, command, STATUS_NO_MEMORY);
        return;
    }
    window_rule(plane, peer, precedence);
    command_done(plane, command, STATUS_OK);
}

void command_budget(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    budget_t budget;
    memcpy(&budget, command->body, sizeof(budget));
    command_done(plane, command, peer->protocol->link ? window_afford(plane, peer, &budget) : STATUS_INVALID);
}
