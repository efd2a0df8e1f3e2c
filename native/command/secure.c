/* secure.c: the commands of TLS, and a context made from packed strings, which is no command because it takes
 * milliseconds that the plane does not have.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "command/command.h"
#include "exchange/strings.h"
#include "net/tls.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/secure.h"

#define MATERIAL_MAX 4096u

/* Contexts that were made and that no command has taken yet: a command may name no others. */
#define OFFERED_MAX 64u
static pthread_mutex_t offered_lock = PTHREAD_MUTEX_INITIALIZER;
static tls_context_t *offered[OFFERED_MAX];

static bool exchange_offer(const void *from, tls_context_t *to) {
    bool found = false;
    pthread_mutex_lock(&offered_lock);
    for (uint32_t i = 0; i < OFFERED_MAX && !found; i++) {
        if (offered[i] == from) {
            offered[i] = to;
            found = true;
        }
    }
    pthread_mutex_unlock(&offered_lock);
    return found;
}

static bool offer(tls_context_t *context) {
    return exchange_offer(NULL, context);
}

/* NULL: there is no such one. */
static tls_context_t *accept_offer(void *context) {
    return context != NULL && exchange_offer(context, NULL) ? context : NULL;
}

/* A list up to its empty string, or all that follow. */
static uint32_t read_list(strings_t *strings, bytes_t *to, uint32_t room, bool ended) {
    uint32_t count = 0;
    while (strings_more(strings) && count < room) {
        bytes_t one = strings_next(strings);
        if (ended && one.size == 0) {
            break;
        }
        to[count++] = one;
    }
    return count;
}

void *plane_tls_context(const tls_settings_t *settings, const uint8_t *packed, uint32_t size, char *reason,
                        int32_t *status) {
    *status = STATUS_NO_MEMORY;
    reason[0] = 0;
    bytes_t *all = calloc(MATERIAL_MAX, sizeof(*all));
    if (all == NULL) {
        return NULL;
    }
    strings_t strings = {.at = packed, .left = size};
    tls_material_t material = {.ca = strings_next(&strings)};
    bytes_t *next = all;
    material.cipher_suites = next;
    material.cipher_suite_count = read_list(&strings, next, MATERIAL_MAX, true);
    next += material.cipher_suite_count;
    material.curves = next;
    material.curve_count = read_list(&strings, next, (uint32_t)(all + MATERIAL_MAX - next), true);
    next += material.curve_count;
    material.pinned = next;
    material.pinned_count = read_list(&strings, next, (uint32_t)(all + MATERIAL_MAX - next), true);
    next += material.pinned_count;
    material.certificates = next;
    material.certificate_count = read_list(&strings, next, (uint32_t)(all + MATERIAL_MAX - next), false);
    tls_context_t *context = NULL;
    status_t made = tls_context_new(settings, &material, &context, reason);
    free(all);
    if (made == STATUS_OK && !offer(context)) {
        tls_context_release(context);
        made = STATUS_FULL;
    }
    *status = (int32_t)made;
    return made == STATUS_OK ? context : NULL;
}

void plane_tls_drop(void *context) {
    tls_context_release(accept_offer(context));
}

void command_tls(plane_t *plane, const plane_command_t *command) {
    tls_context_t *context = command->arg == 0 ? NULL : accept_offer((void *)(uintptr_t)command->arg);
    bool known = command->arg == 0 || context != NULL;
    command_done(plane, command, known ? secure_put(plane, command->target, context) : STATUS_INVALID);
}

void command_secure(plane_t *plane, const plane_command_t *command, peer_t *peer) {
    secure_t how;
    memcpy(&how, command->body, sizeof(how));
    strings_t strings = strings_of(command);
    secure_texts_t texts = {.before = strings_next(&strings)};
    texts.behind = strings_next(&strings);
    texts.name = strings_next(&strings);
    if (!proxied_waits(plane, peer, &how, &texts)) {
        secure_peer(plane, peer, &how, &texts);
    }
    command_done(plane, command, STATUS_OK);
}
