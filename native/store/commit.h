/* commit.h: the commit watermark: up to which batch what a stream promised is true. Whatever waits for a promise waits
 * for this and for nothing else: held PubAcks and API replies, what consumers see, the flow replies of mirrors.
 *
 *     changes --> open batch N --> on disk (store_durable) --> the rule, if there is one --> watermark N: acks leave,
 *                                                                                           consumers see
 *
 * Without a rule the watermark is what the disk has. A rule may hold it back behind the disk, for each stream by
 * itself: a group of servers enters here, where a batch counts once a quorum has it. It cannot run ahead of the disk.
 * What does not wait for it: the journal, checkpoints, and reads of the plane's own thread.
 */
#ifndef LEAFD_STORE_COMMIT_H
#define LEAFD_STORE_COMMIT_H

#include "store/store.h"

typedef struct commit_rule {
    void *context;
    /* The batch up to which what the stream promised is true; stream NULL: what all streams promised. The disk has
     * everything up to `durable`; a larger answer counts as that. Answers never go back. Asked at each tick: the code
     * that moves an answer sees to it that there is one. */
    uint64_t (*upto)(void *context, const store_stream_t *stream, uint64_t durable);
} commit_rule_t;

/* NULL: what the disk has. The rule is the caller's, until store_close; set before the first change. */
void store_set_commit(store_t *store, const commit_rule_t *rule);

uint64_t commit_watermark(const store_stream_t *stream);
/* The watermark of all streams together, for messages that are held in the order of their batches. It is the open batch
 * when nothing came into that one and all before it are true: a promise made then has nothing to wait for. */
uint64_t commit_watermark_all(const store_t *store);

#endif
