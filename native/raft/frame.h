/* frame.h: what one server says to another in a tick, for all groups of both, as bytes. Numbers are big-endian.
 *
 *     frame     0 "LRF1"  4 version  6 messages  8 from (peer, disk)  24 to (peer, disk)  40 sent_ns  48 size of all
 *              52 crc32c of all other bytes  56 message ...
 *     message   0 group  8 subject  9 flags  10 entries  12 size of entries  16 term  24 index  32 log_term
 *              40 entry_term  48 commit  56 refused  64 stamp_ns  72 entry ...
 *               flags: 1 granted, of ENTRIES far 2 handover, of TAKEN tight 4 full 8 rests 16 and 32 patience, to
 *               members that know of it
 *               refused: of ENTRIES, up to where every member has the log, which is the caller's (group/group.h)
 *     entry     0 size of bytes  4 kind  5 bytes
 *     members   0 count  1 member: 0 peer  8 disk  16 voter         the bytes of an entry of kind RAFT_MEMBERS
 *
 * A copy of the state (RAFT_STATE) has two entries: the members at its index, and the state's bytes as RAFT_DATA.
 *
 * A frame is whole and in order, or it is nothing: frame_open() looks at every byte before anybody acts on one. Whether
 * it is meant for this server, and whether its groups are known, is for the caller to say. Not here: what messages
 * mean (raft.h), and how frames travel.
 */
#ifndef LEAFD_RAFT_FRAME_H
#define LEAFD_RAFT_FRAME_H

#include "base/bytes.h"
#include "raft/raft.h"

#define FRAME_VERSION 1u
#define FRAME_HEAD 56u
#define FRAME_MESSAGE_HEAD 72u
#define FRAME_ENTRY_HEAD 5u
#define FRAME_MEMBERS_SIZE_MAX (1u + RAFT_MEMBERS_MAX * 17u)
#define FRAME_MESSAGES_MAX 4096u
#define FRAME_SIZE_MAX (32u << 20) /* what a route takes of one message */

typedef struct frame {
    raft_disk_t from;
    raft_disk_t to;
    int64_t sent_ns;
    uint32_t left; /* messages */
    bytes_t rest;
} frame_t;

typedef struct frame_message {
    uint64_t group;
    raft_message_t message; /* its configs are those here */
    raft_config_t configs[2];
    bytes_t entries; /* as long as the frame's bytes */
} frame_message_t;

typedef struct frame_entry {
    raft_kind_t kind;
    bytes_t bytes;
} frame_entry_t;

typedef struct frame_writer {
    uint8_t *at;
    uint32_t room;
    uint32_t size;
    uint32_t messages;
    uint32_t message; /* where the last one begins */
} frame_writer_t;

/* false: no frame of this version, or damaged. */
bool frame_open(frame_t *frame, bytes_t bytes);
/* false: that was all. */
bool frame_next(frame_t *frame, frame_message_t *next);
/* Leaves the message its first `count` entries, and the members that they change to. */
void frame_shorten(frame_message_t *message, uint32_t count);
/* Takes the first of a message's entries. false: that was all. */
bool frame_take_entry(bytes_t *entries, frame_entry_t *entry);

/* room: at least FRAME_HEAD, at most FRAME_SIZE_MAX. */
void frame_begin(frame_writer_t *writer, uint8_t *at, uint32_t room, raft_disk_t from, raft_disk_t to, int64_t sent_ns);
/* A message of writer's `from` and `to`, still without entries. false: it has no room, and the frame is as it was. */
bool frame_put(frame_writer_t *writer, uint64_t group, const raft_message_t *message);
/* The next entry of the last message. false likewise: the message has those that were put. */
bool frame_put_entry(frame_writer_t *writer, raft_kind_t kind, bytes_t bytes);
/* How many bytes the frame has. */
uint32_t frame_end(frame_writer_t *writer);

/* The bytes of an entry of kind RAFT_MEMBERS, in FRAME_MEMBERS_SIZE_MAX at most; how many. */
uint32_t frame_write_members(uint8_t *to, const raft_config_t *config);
/* false: these are no members. Their index is the caller's to set. */
bool frame_read_members(bytes_t bytes, raft_config_t *config);

#endif
