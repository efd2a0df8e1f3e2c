/* replica_note.c: what is on the disk with how far a stream's log is applied (replica_private.h): the stream's own
 * time, and an append whose rollup is not at its end.
 */
#include "group/replica_private.h"
#include "store/timeline.h"

static void own_note_write(const replica_t *replica, uint8_t at[REPLICA_NOTE_SIZE]) {
    store_be64(at, (uint64_t)store_stream_age(replica->stream));
    store_be64(at + 8, (uint64_t)store_stream_wall(replica->stream));
    store_be64(at + 16, replica->rolling);
    store_be64(at + 24, replica->rolling_seq);
}

void replica_note(replica_t *replica) {
    uint8_t at[REPLICA_HALF_SIZE];
    own_note_write(replica, at);
    at[REPLICA_NOTE_SIZE] = 1;
    group_note(replica->group, bytes_of(at, replica->copier.half ? REPLICA_HALF_SIZE : REPLICA_NOTE_SIZE));
}

bool replica_noted(replica_t *replica, bytes_t note) {
    if (note.size != REPLICA_NOTE_SIZE && note.size != REPLICA_HALF_SIZE) {
        return note.size == 0; /* a group that is new has none */
    }
    replica_time(replica, (int64_t)load_be64(note.at), (int64_t)load_be64(note.at + 8));
    replica->rolling = load_be64(note.at + 16);
    replica->rolling_seq = load_be64(note.at + 24);
    replica->copier.half = note.size == REPLICA_HALF_SIZE;
    return true;
}

bytes_t replica_grown(replica_t *replica, uint8_t note[REPLICA_NOTE_SIZE], moment_t now) {
    replica_time(replica, store_age(store_stream_store(replica->stream)), now.wall_ns);
    own_note_write(replica, note);
    return bytes_of(note, REPLICA_NOTE_SIZE);
}
