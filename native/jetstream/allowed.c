/* allowed.c: which limits an account's streams share, and who is told that they are near.
 *
 *     COMMAND_ALLOW, all streams   --> account.stored, by store
 *     COMMAND_ALLOW, with replicas --> account.tiers, by number of replicas and store; then none shares account.stored
 *
 * Once there are tiers they stay in memory as long as the account, since the store may have one of them in its list.
 * Not here: what is counted and refused (store/allowance.h).
 */
#include <stdlib.h>

#include "base/number.h"
#include "jetstream/js.h"
#include "jetstream/stream.h"

void js_allowances_begin(js_account_t *account) {
    for (uint8_t i = 0; i < 2; i++) {
        allowance_begin(&account->stored[i], account->id);
        account->stored[i].kind = i;
    }
}

void js_charge(const stream_t *stream) {
    js_account_t *account = stream->account;
    uint32_t kind = stream->config.storage == 1 ? STORE_MEMORY : STORE_FILE;
    uint64_t tier = number_least(number_most(stream->config.replicas, 1), ALLOW_TIERS);
    allowance_t *shared = account->tiered ? account->tiers[tier - 1] : account->stored;
    store_stream_charge(stream->store, &shared[kind]);
}

static void charge_all(js_t *js, const js_account_t *account) {
    map_walk_t walk = {0};
    for (const stream_t *stream; (stream = table_next(&js->streams, &walk)) != NULL;) {
        if (stream->account == account && stream->store != NULL) {
            js_charge(stream);
        }
    }
}

static status_t tiers_begin(js_account_t *account) {
    if (account->tiers == NULL) {
        account->tiers = calloc(ALLOW_TIERS, sizeof *account->tiers);
        if (account->tiers == NULL) {
            return STATUS_NO_MEMORY;
        }
        for (uint32_t i = 0; i < 2 * ALLOW_TIERS; i++) {
            allowance_t *one = &account->tiers[i / 2][i % 2];
            allowance_begin(one, account->id);
            one->kind = (uint8_t)(i % 2 + 2 * (i / 2 + 1));
        }
    }
    return STATUS_OK;
}

static void allow(js_t *js, uint32_t kind, allowance_t *allowance, int64_t limit, uint64_t elsewhere) {
    /* The store of memory is opened when it is first used; streams in memory of several servers are files. */
    store_t *store = js->stores[kind] != NULL ? js->stores[kind] : js->stores[STORE_FILE];
    uint64_t most = limit < 0 ? UINT64_MAX : (uint64_t)limit;
    if (store != NULL) {
        store_allow(store, allowance, most, elsewhere);
        return;
    }
    allowance->limit = most;
    allowance->elsewhere = elsewhere;
    allowance_arm(allowance);
}

status_t js_allow(js_t *js, js_account_t *account, uint64_t tier, const allowed_t *allowed) {
    if (tier > ALLOW_TIERS) {
        return STATUS_INVALID;
    }
    status_t status = tier > 0 ? tiers_begin(account) : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    bool moves = account->tiered != (tier > 0);
    allowance_t *shared = tier > 0 ? account->tiers[tier - 1] : account->stored;
    account->tiered = tier > 0;
    allow(js, STORE_FILE, &shared[STORE_FILE], allowed->file, allowed->file_elsewhere);
    allow(js, STORE_MEMORY, &shared[STORE_MEMORY], allowed->memory, allowed->memory_elsewhere);
    if (moves) {
        charge_all(js, account);
    }
    return STATUS_OK;
}

void js_tell_allowances(js_t *js) {
    for (uint32_t i = 0; i < 2; i++) {
        allowance_t *allowance;
        while (js->stores[i] != NULL && (allowance = store_allowance_next(js->stores[i])) != NULL) {
            event_entry_t *entry = event_new(EVENT_ALLOWANCE, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
            if (entry == NULL) {
                continue; /* a report all the same shows what is stored and what may be */
            }
            entry->event.account = allowance->owner;
            entry->event.code = allowance->level;
            entry->event.target = allowance->kind % 2;
            entry->event.token = allowance->kind / 2;
            entry->event.arg = number_sum(allowance->bytes, number_sum(allowance->elsewhere, allowance->promised));
            entry->event.arg2 = allowance->limit;
            event_post(js->exchange, entry);
        }
    }
}
