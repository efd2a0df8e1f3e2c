/* abi_meta.h: the part of abi.h about groups of servers: that of all servers with JetStream (meta/meta.h), and those
 * that keep a stream (jetstream/replicated.h).
 */
/* Commands: the group of all servers with JetStream. */
/* account = the system account, arg = this server; completion's arg = the id of its disk, arg2 = 1: the group is there,
 * 2: it was another disk's, which has lost something. Any status but OK: the disk takes part in no group */
#define COMMAND_META_OPEN 120
/* arg = the group's name, body = meta_disk_t[], its first members; none: a leader has to let this one in. arg2, not 0:
 * in the place of the group that is here. With a body then: this disk goes on alone, with its rows, as of that index */
#define COMMAND_META_FOUND 121
#define COMMAND_META_SEND 122 /* arg = server, body = a letter: EVENT_LETTER there; completion's arg = 1: it is sent */
#define COMMAND_META_LOOK 123 /* completion's payload = meta_look_t, meta_member_t[] */
/* arg = the row's revision, 2^64-1: any; arg2 = 1: it goes; extra = strings: key, value. Completion, when a majority
 * has it and it is applied here: arg = revision. STATUS_EXISTS: the row has that one; STATUS_AGAIN: this one does not
 * lead, or later; STATUS_CLOSED: it leads no more, and what becomes of it is not known */
#define COMMAND_META_PUT 124
#define COMMAND_META_ROWS 125     /* completion's payload = all rows, as a state of meta/meta_rows.h */
#define COMMAND_META_TRANSFER 126 /* arg = server that is to lead */
/* arg = META_LEARN, META_PROMOTE or META_REMOVE, body = one meta_disk_t: what becomes of it META_LOOK tells */
#define COMMAND_META_ALTER 127
/* body = meta_way_t[]: the servers of other clusters, all of them, in place of those of before */
#define COMMAND_META_WAYS 131

/* Commands: the group that keeps a stream which is STREAM_REPLICATED. Until it is there, the stream takes nothing. */
/* target = stream, arg = the group's name, body = meta_disk_t[], its first members, for one that is not on this disk
 * yet; arg2 = JOIN_*. STATUS_EXISTS: the stream has a group of another name; STATUS_INVALID: this disk is not among the
 * members, the stream is none of several servers, or has half of a copy and cannot go on alone; STATUS_NOT_FOUND: this
 * disk has no group that could; STATUS_AGAIN: behind META_OPEN, or later */
#define COMMAND_STREAM_GROUP 128
#define JOIN_FOUNDS 0
#define JOIN_WAITS 1 /* one that is not on this disk waits until its leader lets it in; without members */
#define JOIN_ALONE 2 /* the one that is on this disk goes on under that name, without its other members, for good */
#define COMMAND_STREAM_GROUP_LOOK 129     /* completion's payload = meta_look_t, meta_member_t[] */
#define COMMAND_STREAM_GROUP_TRANSFER 130 /* arg = server that is to lead; 0: another one that has all of it */
/* target = stream, extra = strings: definition, which all members get from then on (LED_DEFINITION). Completion, when a
 * majority has it and control has put it here. STATUS_AGAIN: this one does not lead, or later; STATUS_CLOSED: it leads
 * no more, and what becomes of it is not known */
#define COMMAND_STREAM_DEFINE 132
/* target = stream, arg = META_LEARN, META_PROMOTE or META_REMOVE, body = one meta_disk_t: what becomes of it the look
 * tells. STATUS_AGAIN: this one does not lead, or another change comes first, or the member lacks too much */
#define COMMAND_STREAM_GROUP_ALTER 133
/* target = stream, arg = that of LED_WHOLE: all the consumers that were told are here. Until then a stream of interest
 * passes over nothing, and removes nothing. */
#define COMMAND_STREAM_CONSUMERS_MADE 134
/* Of streams that others lead, too: the consumers that this disk has records of. body = uint32_t[]: ids of at most
 * USAGE_STATES_MAX streams; payload = uint32_t[], how many each of the first of them has. STATUS_CORRUPT: some of the
 * first one's cannot be read */
#define COMMAND_CONSUMERS_COUNT 136
/* target = stream, arg = the consumer to go on behind; payload = stored_consumer_t, definition, and so on; completion's
 * arg = the consumer to go on behind, 0: that was all. STATUS_CORRUPT: some cannot be read */
#define COMMAND_CONSUMERS_STORED 137
/* arg = PLACED_*, extra = strings: with PLACED_STREAM its account, name and subjects (none: it is no more). Another
 * server of the cluster has that stream, or several. A publisher that waits until its message is on disk waits for it,
 * too */
#define COMMAND_PLACED 135
#define PLACED_STREAM 0
#define PLACED_UNKNOWN 1 /* more will be said: until then nobody can be told that a message is on disk */
#define PLACED_KNOWN 2   /* all have been said */

/* Event: who leads a stream of several servers, here: target = stream, code = LED_*. */
#define EVENT_LED 25
#define LED_NO_MORE 0  /* by this server: it has no consumers */
#define LED_HERE 1     /* now; these are its consumers: */
#define LED_CONSUMER 2 /* arg = consumer, payload = definition */
#define LED_SOURCE 5   /* payload = position of one of its sources: sequence 8, newest 8, key */
#define LED_WHOLE 3    /* that was the last of them; arg = which lead of this server it is */
/* payload = definition, which is stored: the stream is like that from here on. Its log stands still until control has
 * put it (STREAM_PUT, loading). */
#define LED_DEFINITION 4

#define META_LEARN 1
#define META_PROMOTE 2
#define META_REMOVE 3

/* A member of a group: a server and the id of its disk. */
typedef struct meta_disk {
    uint64_t peer;
    uint64_t disk;
} meta_disk_t;

/* A server of another cluster. */
typedef struct meta_way {
    uint64_t peer;
    uint64_t cluster; /* hash8 of its name */
    uint64_t mate;    /* the server of this cluster that hands on to it if this one has no gateway there; 0: none */
} meta_way_t;

/* A group as this server sees it. */
typedef struct meta_look {
    uint64_t name; /* 0: there is none here */
    uint64_t term;
    uint64_t leader; /* peer, 0: none is known */
    uint64_t voted;  /* for that peer in this term, 0: for nobody */
    int64_t led_ts;  /* Unix ns, since when this server leads, 0: it does not */
    uint64_t last;
    uint64_t last_term; /* of the last entry */
    uint64_t committed;
    uint64_t applied;
    uint64_t floor;
    uint64_t bytes; /* of the log's entries */
    uint64_t frames_in;
    uint64_t frames_out;
    uint64_t bad;        /* frames that are damaged, of another sender than they say, or for another disk */
    uint64_t refused;    /* messages without a way */
    int64_t election_ns; /* as far as its members are from each other */
    uint32_t role;       /* META_LEADER */
    uint32_t state;      /* 0: it runs; 1: it waits for room; 2: for an entry that cannot be read */
    uint32_t leased;     /* a leader beside which there is no other now */
    uint32_t members;    /* so many meta_member_t follow */
} meta_look_t;

#define META_LEADER 3

typedef struct meta_member {
    uint64_t peer;
    uint64_t disk;
    uint64_t lag;     /* entries that it is not known to have; at the leader alone */
    int64_t heard_ns; /* so long ago; a follower knows it of the leader alone; -1: not in this term */
    uint32_t voter;
    uint32_t copies; /* it lacks entries that are gone, and gets a copy */
    int64_t trip_ns; /* from a beat to its answer; at the leader alone; 0: not known */
} meta_member_t;
