/* replicated.h: a stream that several servers keep, on this one (group/replica.h): the group that agrees on its log,
 * the publishers and commands that wait for it, and when this server listens.
 *
 *     STREAM_PUT, flagged --> STREAM_GROUP --> the group elects --> this one leads --> it listens to the subjects
 *     js_propose --> replica_publish, its reply in a queue --> committed, applied --> PubAck
 *
 * Only who leads listens to them, so that other servers send what is published there. Direct gets any member answers,
 * one of a queue group, while it hears its leader and has applied what that said to be agreed on. A leader that is none
 * any more answers nobody: what becomes of what was proposed is not known. A PubAck waits for no batch: a majority has
 * the entry on its disk. Without room for the entry the message waits, and all that is published behind it; when too
 * many wait (queued.h) a publisher is told so.
 *
 * A consumer is where its stream is led. What consume/ would store of it is an entry of the log, and an acknowledgement
 * is confirmed when that is committed. A server that begins to lead reads what its own disk has of the consumers, and
 * tells control (EVENT_LED), which has them made; one that leads no more has none. Without room in the log who waits
 * for such an entry waits for room, too.
 *
 * A mirror or source takes in at the leader alone (ingest.c). What it brings is proposed in its order, waits for room
 * in the log, and is acknowledged to its origin when it is committed. The next leader goes on behind the positions that
 * its own disk has.
 *
 * Which messages no consumer needs is found at the leader, too, and their removal goes into the log with what the
 * consumers have acknowledged. By interest, what is published is passed over when no consumer wants it as it is
 * proposed. A leader does neither before control has made all its consumers (STREAM_CONSUMERS_MADE): until then it
 * takes everything, and looks at that again.
 *
 * The host may keep consumers and records of its own in a stream (plane/keeping.h). It makes them where the stream is
 * led, and forgets them when that is over; what it writes is an entry as what consume/ writes. A write that stands for
 * a message goes into that message's entry.
 *
 * A batch is collected at the leader (atomic.c), and is one entry when it is committed: a leader that dies before that
 * leaves nothing of it. What its publisher is told follows from what has become of the entry. Of a fast batch each
 * message is an entry, whose words all members follow, so who leads next goes on with it (fast_replicated.c).
 *
 * A schedule that is due by the log's time (replicated_schedules.c) is put together by the leader, and is one entry
 * with its next time. One that the leader could not propose, or died with, is due again a second later.
 */
#ifndef LEAFD_JETSTREAM_REPLICATED_H
#define LEAFD_JETSTREAM_REPLICATED_H

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "group/replica.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/record.h"
#include "wire/emit.h"

/* Right behind store_stream_open. subjects: packed, as a command has them. */
LEAF_MUST_USE status_t replicated_open(js_t *js, stream_t *stream, bytes_t subjects);
/* Likewise for one that this server had alone. Its consumers are loaded anew once it leads. STATUS_AGAIN: later. */
LEAF_MUST_USE status_t replicated_share(js_t *js, stream_t *stream, bytes_t subjects);
/* What the disk has of its group goes, before its stream does. STATUS_FULL: later; it goes on as it was. */
LEAF_MUST_USE status_t replicated_remove(js_t *js, stream_t *stream);
void replicated_free(js_t *js, stream_t *stream);

/* Behind its definition's change: of its subjects, which it listens to when it leads, the caller sees to those that
 * it listens to now. */
LEAF_MUST_USE status_t replicated_redefine(const js_t *js, const stream_t *stream, bytes_t definition,
                                           bytes_t subjects);

/* This server answers for the stream: it keeps it alone, or leads its group, so that all that was ever acknowledged is
 * there. */
bool replicated_newest(const js_t *js, const stream_t *stream);
/* The command is completed when the entry is applied, or the lead is lost (STATUS_CLOSED). */
void replicated_delete(js_t *js, const plane_command_t *command, const stream_t *stream);
void replicated_purge(js_t *js, const plane_command_t *command, const stream_t *stream, bytes_t filter);

/* Have this server's disk and those of a majority room for more? Else it is said at once (refused_space), since what
 * the log agrees on has to be applied before anything that makes room. */
bool replicated_has_room(const stream_t *stream);
/* A message of an atomic batch (replica_pack_batched). */
LEAF_MUST_USE status_t replicated_pack(const stream_t *stream, const append_t *append, uint32_t before,
                                       buffer_t *packed);
/* A message of a fast batch, whose bytes js_fast_applied gets when it is applied, and its words the other members.
 * STATUS_AGAIN: there is no room. STATUS_NO_SPACE: nor will there soon be (replicated_has_room). STATUS_INVALID: it
 * never takes such a one. Then bytes that it gets with what was
 * proposed last. */
LEAF_MUST_USE status_t replicated_fast(js_t *js, stream_t *stream, const append_t *append, bytes_t asked,
                                       bytes_t words);
LEAF_MUST_USE status_t replicated_ride_fast(const stream_t *stream, bytes_t asked);
/* What a mirror or source brings; without a subject only the source's position. run: whose it is (ingest_applied).
 * proposed: false, it never takes such a one, and there is no position. STATUS_CLOSED: it does not lead. STATUS_FULL:
 * too much waits. */
LEAF_MUST_USE status_t replicated_take(js_t *js, const stream_t *stream, const append_t *append, uint64_t run,
                                       bool *proposed);
/* What a copy brings may be refused when it is applied, because the stream is full. */
bool replicated_may_refuse(const stream_t *stream);
/* Said once all that was taken until now is committed, and nothing of that run was refused; without memory it is
 * not. */
void replicated_say_taken(js_t *js, const stream_t *stream, bytes_t subject, bytes_t header, uint64_t run);
/* How far the source of that key has come is forgotten. */
void replicated_forget_source(js_t *js, const plane_command_t *command, const stream_t *stream, bytes_t key);
/* INGEST_STOP is answered with this state, and how far the source of that key has come, when what is under way is
 * applied. false: nothing is, or there is no memory. */
bool replicated_stop_source(js_t *js, const plane_command_t *command, const stream_t *stream, bytes_t key,
                            const ingest_state_t *state);

/* A schedule is due, as the log has it: it has a turn at the leader. */
void replicated_ripe(stream_t *stream, uint64_t seq, int64_t due_ts);
/* What it does. message NULL: it makes none; nor does one that is refused. Any status but STATUS_OK: later. */
LEAF_MUST_USE status_t replicated_fire(js_t *js, stream_t *stream, const replica_fired_t *fired,
                                       const message_t *message);

/* Of its consumers (consume/), which are the leader's alone. */
bool replicated_leads(const stream_t *stream);
LEAF_MUST_USE status_t replicated_record(void *context, uint32_t stream_id, const record_change_t *change);
/* consume_out_t's. */
LEAF_MUST_USE status_t replicated_let_go(void *context, uint32_t stream_id, uint64_t seq);
bool replicated_complete_stream(void *context, uint32_t stream_id);
uint64_t replicated_coming(void *context, uint32_t stream_id);
/* What there is of these goes into the log: once a tick, behind consume_flush. */
void replicated_flush(js_t *js);
/* A client gets that empty message once all that was changed until now is committed. Without memory it gets none. */
void replicated_hold(js_t *js, const stream_t *stream, bytes_t reply);
/* Likewise the host a message. */
LEAF_MUST_USE status_t replicated_hold_told(js_t *js, const stream_t *stream, bytes_t subject, bytes_t payload);
/* A write to a record that goes into the entry of the next message that js_propose gets for the stream. It gets it or
 * refuses it at once: one that has such a write does not wait for room. Then nothing rides any more. */
LEAF_MUST_USE status_t replicated_ride(const stream_t *stream, const record_change_t *change);
void replicated_ride_end(const stream_t *stream);
int64_t replicated_age(const js_t *js, const stream_t *stream); /* the age of the stream's own time */
/* js_host_t, led: the consumers that the host keeps in the stream are here. */
void replicated_host_made(js_t *js, const stream_t *stream);
/* Likewise a command its answer. Any status but STATUS_OK: it is to be answered otherwise. */
LEAF_MUST_USE status_t replicated_complete(js_t *js, const plane_command_t *command, const stream_t *stream,
                                           uint64_t arg, bytes_t payload);

#endif
