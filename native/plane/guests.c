/* guests.c: see guests.h. */
#include "plane/guests.h"

#include "base/hash.h"
#include "text/request_info.h"

#define CLIENT_MESSAGES 64u
#define CLIENT_BYTES (2u * 1024u * 1024u)
#define ALL_MESSAGES 1024u
#define ALL_BYTES_SHARE 4u /* of what control's messages may be */

uint32_t guest_of(uint64_t peer, bytes_t header) {
    bytes_t info = BYTES_NONE, account = BYTES_NONE;
    if (header.size != 0) {
        request_info_read(header, &info, &account);
    }
    uint64_t client = hash_bytes(info.at, info.size) ^ hash_bytes(&peer, sizeof(peer));
    uint64_t whose = hash_bytes(account.at, account.size);
    return (uint32_t)(whose % GUEST_ACCOUNTS) * GUEST_CLIENTS + (uint32_t)(client % GUEST_CLIENTS);
}

bool guest_room(const guests_t *guests, uint32_t guest, uint64_t owed_max) {
    const owed_t *all = &guests->all;
    const owed_t *client = &guests->clients[guest % GUEST_CLIENTS];
    const owed_t *account = &guests->accounts[guest / GUEST_CLIENTS];
    return client->messages < CLIENT_MESSAGES && client->bytes < CLIENT_BYTES
           && account->messages + all->messages < ALL_MESSAGES
           && account->bytes + all->bytes < owed_max / ALL_BYTES_SHARE;
}

static void owed_grow(owed_t *owed, uint64_t size) {
    owed->messages++;
    owed->bytes += size;
}

static void owed_shrink(owed_t *owed, uint64_t size) {
    owed->messages--;
    owed->bytes -= size;
}

void guest_owes(guests_t *guests, uint32_t guest, uint64_t size) {
    owed_grow(&guests->all, size);
    owed_grow(&guests->clients[guest % GUEST_CLIENTS], size);
    owed_grow(&guests->accounts[guest / GUEST_CLIENTS], size);
}

void guest_pays(guests_t *guests, uint32_t guest, uint64_t size) {
    owed_shrink(&guests->all, size);
    owed_shrink(&guests->clients[guest % GUEST_CLIENTS], size);
    owed_shrink(&guests->accounts[guest / GUEST_CLIENTS], size);
}
