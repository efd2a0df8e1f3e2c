/* look.h: a store as files, which nobody opens: what the commands for people (the end of abi.h) share. A look changes
 * nothing in the store. Nobody outside native/recovery includes this.
 */
#ifndef LEAFD_RECOVERY_LOOK_H
#define LEAFD_RECOVERY_LOOK_H

#include "disk/entry.h"
#include "disk/commit_hold.h"
#include "disk/packing.h"
#include "disk/sealing.h"
#include "recovery/pages.h"
#include "recovery/recover.h"

#define LOOK_META_MAX 80 /* of a record of META */

typedef struct look_meta {
    uint8_t value[LOOK_META_MAX];
    uint32_t size; /* 0: it is not there, or damaged */
} look_meta_t;

typedef struct look_dictionary {
    uint32_t stream;
    uint32_t id;
    dictionary_t is;
} look_dictionary_t;

typedef struct look_dictionaries {
    look_dictionary_t *at;
    uint64_t count;
    uint64_t capacity;
    uint64_t last; /* that was asked for */
    bool read;
} look_dictionaries_t;

struct store_look {
    char lmdb[STORE_PATH_MAX];
    hold_t *hold; /* NULL: nobody uses the store */
    sealing_t sealing;
    pages_commit_t commit;
    look_meta_t format;
    look_meta_t applied;
    look_meta_t journal;
    look_meta_t key;
    unsealed_t unsealed;
    look_dictionaries_t dictionaries;
};

typedef struct look_entry {
    store_db_t db;
    bytes_t key; /* in plain, where it could be opened */
    bytes_t value;
    bool sound;
} look_entry_t;

/* The database of that name; DB_COUNT: none. */
store_db_t look_database(const char *name);
/* Whose twins it has: env_twins.c. Itself for most. */
store_db_t look_original(store_db_t db);
/* For pages_each, whose context is the look: the database of an entry whose name is lost. */
void look_name(void *context, bytes_t key, bytes_t value, char name[64]);
/* An entry as it lies in data.mdb, in plain, until the next one. But for STATUS_OK it is not known what it is. */
LEAF_MUST_USE status_t look_open_entry(store_look_t *look, const char *database, bytes_t key, bytes_t value,
                                       look_entry_t *entry);
/* A message's value that is packed, as packing_unpack says. */
LEAF_MUST_USE status_t look_unpack(store_look_t *look, bytes_t key, bytes_t packed, bytes_t *value);
void look_dictionaries_forget(store_look_t *look);
/* No key was given for what is sealed: only pages can be looked at. */
bool look_blind(const store_look_t *look);

void look_facts(const store_look_t *look, store_facts_t *facts);

/* Lines for the caller, as many as find room. */
typedef struct findings {
    char *at;
    uint32_t room;
    uint32_t size;
} findings_t;
void findings_say(findings_t *findings, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Describes an entry, for a line about it. */
void look_describe(const look_entry_t *entry, char *to, size_t size);

#endif
