/* lanes.c: see lanes.h. */
#include "plane/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/copies.h"
#include "text/subject.h"

#define SIZES_KEPT 1024u /* of frames that have gone, before those of the others are moved */

/* Flows of lanes that are not a consumer's. Consumers have FLOW_FIRST and above. */
enum { FLOW_ACKS = 1, FLOW_ANSWERS, FLOW_HIGH, FLOW_NORMAL, FLOW_LOW, FLOW_OTHERS };

struct lane {
    lane_t *next; /* in the line of its rank */
    uint64_t flow;
    outq_t out;
    buffer_t sizes; /* uint32_t: of its frames */
    uint32_t first; /* those before it have gone */
    lane_rank_t rank;
    lane_rank_t base; /* without regard to how much waits */
    bool fixed;       /* the configuration says so */
    bool much;
    bool blocked;    /* its consumer was told that it is full */
    uint64_t had;    /* bytes, on the scale of its line */
    uint64_t before; /* bytes that waited, and size of data, when the frame that is being emitted began */
    uint64_t data_before;
};

typedef struct line {
    lane_t *first;
    lane_t *last;
    uint64_t bytes;
    uint64_t had;  /* by the lane that was served last: a new lane begins there */
    uint64_t owed; /* of what went before it */
} line_t;

struct lanes {
    line_t lines[LANE_RANKS]; /* lanes with something waiting, by rank */
    uint32_t count;           /* of consumers' lanes */
    uint64_t dropped;
    lane_rank_t held_below;
    bool kept;    /* a consumer was told to wait since its rank is held */
    bool drained; /* a lane whose consumer waits ran empty, or may go again */
    share_t *share;
    lane_t *spare;
};

/* ---- what the configuration says --------------------------------------------------------------------------------- */

typedef struct rule {
    bytes_t text; /* own copy */
    lane_rank_t rank;
    bool stream;
} rule_t;

struct precedence {
    uint32_t count;
    rule_t rules[];
};

static bool rank_read(bytes_t word, lane_rank_t *rank) {
    *rank = bytes_equal(word, BYTES_LITERAL("high"))     ? LANE_HIGH
            : bytes_equal(word, BYTES_LITERAL("normal")) ? LANE_NORMAL
                                                         : LANE_LOW;
    return *rank != LANE_LOW || bytes_equal(word, BYTES_LITERAL("low"));
}

precedence_t *precedence_new(const bytes_t *rules, uint32_t count) {
    precedence_t *precedence = calloc(1, sizeof(*precedence) + count / 3 * sizeof(rule_t));
    bool good = precedence != NULL && count % 3 == 0;
    for (uint32_t i = 0; good && i < count; i += 3) {
        rule_t *rule = &precedence->rules[precedence->count];
        rule->stream = bytes_equal(rules[i + 1], BYTES_LITERAL("stream"));
        rule->text = bytes_copy(rules[i + 2]);
        precedence->count++;
        good = rank_read(rules[i], &rule->rank) && rule->text.at != NULL;
    }
    if (good) {
        return precedence;
    }
    precedence_free(precedence);
    return NULL;
}

void precedence_free(precedence_t *precedence) {
    for (uint32_t i = 0; precedence != NULL && i < precedence->count; i++) {
        bytes_release(&precedence->rules[i].text);
    }
    free(precedence);
}

/* The first rule that speaks of it. */
static bool ruled(const precedence_t *precedence, const lane_use_t *use, lane_rank_t *rank) {
    for (uint32_t i = 0; precedence != NULL && i < precedence->count; i++) {
        const rule_t *rule = &precedence->rules[i];
        if (rule->stream ? use->flow != NULL && bytes_equal(rule->text, use->flow->stream)
                         : use->flow == NULL && subject_matches(use->subject, rule->text)) {
            *rank = rule->rank;
            return true;
        }
    }
    return false;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static uint32_t frame_count(const lane_t *lane) {
    return (uint32_t)(lane->sizes.size / sizeof(uint32_t)) - lane->first;
}

/* The size of the first frame. */
static uint32_t frame_size(const lane_t *lane) {
    return ((const uint32_t *)(const void *)lane->sizes.at)[lane->first];
}

static void lane_joins(line_t *line, lane_t *lane) {
    lane->next = NULL;
    lane->had = line->had;
    *(line->first == NULL ? &line->first : &line->last->next) = lane;
    line->last = lane;
}

static void lane_leaves(line_t *line, lane_t *lane) {
    lane_t *before = NULL;
    for (lane_t *at = line->first; at != lane; at = at->next) {
        before = at;
        check(at != NULL);
    }
    *(before == NULL ? &line->first : &before->next) = lane->next;
    line->last = line->last == lane ? before : line->last;
    if (line->first == NULL) {
        line->owed = 0;
    }
}

static bool of_consumer(const lane_t *lane) {
    return lane->flow >= FLOW_OTHERS;
}

/* Moves a lane to the rank that its waiting bytes give it. */
static void rank_again(lanes_t *lanes, lane_t *lane) {
    lane_rank_t rank = lane->base;
    if (!lane->fixed && lane->much) {
        rank = of_consumer(lane) ? LANE_LOW : LANE_NORMAL;
    }
    if (rank == lane->rank) {
        return;
    }
    uint64_t waiting = outq_pending(&lane->out);
    lane_leaves(&lanes->lines[lane->rank], lane);
    lanes->lines[lane->rank].bytes -= waiting;
    lane->rank = rank;
    lane_joins(&lanes->lines[rank], lane);
    lanes->lines[rank].bytes += waiting;
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

lanes_t *lanes_new(share_t *share) {
    lanes_t *lanes = calloc(1, sizeof(*lanes));
    if (lanes != NULL) {
        lanes->share = share;
        lanes->held_below = LANE_LOW;
    }
    return lanes;
}

static lane_t *lane_find(const lanes_t *lanes, uint64_t flow) {
    for (uint32_t rank = 0; rank < LANE_RANKS; rank++) {
        for (lane_t *lane = lanes->lines[rank].first; lane != NULL; lane = lane->next) {
            if (lane->flow == flow) {
                return lane;
            }
        }
    }
    return NULL;
}

static lane_t *lane_new(lanes_t *lanes, uint64_t flow) {
    lane_t *lane = lanes->spare != NULL ? lanes->spare : calloc(1, sizeof(*lane));
    if (lane == NULL) {
        return NULL;
    }
    if (lanes->spare == NULL) {
        outq_init(&lane->out, UINT64_MAX, lanes->share);
        buffer_init(&lane->sizes, UINT64_MAX);
        buffer_count(&lane->sizes, lanes->share);
    }
    lanes->spare = NULL;
    lane->flow = flow;
    lane->rank = lane->base = LANE_NORMAL;
    lane->fixed = lane->much = lane->blocked = false;
    lane->first = 0;
    lane->sizes.size = 0;
    lanes->count += of_consumer(lane);
    lane_joins(&lanes->lines[lane->rank], lane);
    return lane;
}

static void lane_free(lane_t *lane) {
    outq_free(&lane->out);
    buffer_free(&lane->sizes);
    free(lane);
}

/* Drops a lane without frames. One lane is kept: the next message needs it. */
static void lane_drop(lanes_t *lanes, lane_t *lane) {
    lane_leaves(&lanes->lines[lane->rank], lane);
    lanes->count -= of_consumer(lane);
    if (lanes->spare == NULL && lane->out.data.capacity <= OUTQ_KEEP_BYTES) {
        lanes->spare = lane;
    } else {
        lane_free(lane);
    }
}

void lanes_free(lanes_t *lanes) {
    if (lanes == NULL) {
        return;
    }
    for (uint32_t rank = 0; rank < LANE_RANKS; rank++) {
        for (lane_t *lane; (lane = lanes->lines[rank].first) != NULL;) {
            lane_leaves(&lanes->lines[rank], lane);
            lane_free(lane);
        }
    }
    if (lanes->spare != NULL) {
        lane_free(lanes->spare);
    }
    free(lanes);
}

/* ---- what comes in ----------------------------------------------------------------------------------------------- */

/* Asked, acknowledged, answered: little, and somebody waits for it. */
static bool is_urgent(const lane_use_t *use) {
    bytes_t subject = use->subject;
    return use->answer || bytes_starts(subject, BYTES_LITERAL("$JS.ACK."))
           || bytes_starts(subject, BYTES_LITERAL("$JS.FC.")) || bytes_starts(subject, BYTES_LITERAL("$JS.API."));
}

/* The flow of a message, and the rank of its lane. */
static uint64_t flow_of(const precedence_t *precedence, const lane_use_t *use, lane_rank_t *base, bool *fixed) {
    *base = LANE_NORMAL;
    *fixed = ruled(precedence, use, base);
    if (use->flow != NULL) {
        return use->flow->id;
    }
    if (!*fixed && use->bulk) {
        *base = LANE_LOW;
    } else if (!*fixed && is_urgent(use)) {
        *base = LANE_URGENT;
        return !use->answer && bytes_starts(use->subject, BYTES_LITERAL("$JS.ACK.")) ? FLOW_ACKS : FLOW_ANSWERS;
    }
    return *base == LANE_HIGH ? FLOW_HIGH : *base == LANE_LOW ? FLOW_LOW : FLOW_NORMAL;
}

/* Many consumers: while the shared lane has something, it may be of this one, too. */
static uint64_t own_or_shared(const lanes_t *lanes, uint64_t flow) {
    if (flow < FLOW_OTHERS || lane_find(lanes, flow) != NULL) {
        return flow;
    }
    return lanes->count >= LANES_MAX || lane_find(lanes, FLOW_OTHERS) != NULL ? FLOW_OTHERS : flow;
}

static bool is_much(uint64_t bytes, bool was) {
    return bytes > (was ? LANE_MUCH / 2 : LANE_MUCH);
}

/* Bytes that are left of a consumer, by the size of this message. */
static bool catches_up(const flow_t *flow, bool was) {
    uint64_t each = flow->size < LANE_MUCH ? flow->size + 1 : LANE_MUCH + 1;
    return flow->left == FLOW_LEFT_UNKNOWN
               ? was
               : is_much(flow->left > LANE_MUCH ? flow->left : (flow->left + 1) * each, was);
}

static void weigh(lane_t *lane, const lane_use_t *use) {
    lane->much = use->flow != NULL ? catches_up(use->flow, lane->much) : is_much(outq_pending(&lane->out), lane->much);
}

/* Messages and answers that nobody stores are bounded; of a consumer's, lanes_full has said that there is room. And
 * nobody is closed to make room for a slow link's messages: a thousand links have a part of the share together, or
 * clients would find none of it. */
static bool lane_has_room(const lanes_t *lanes, uint64_t flow, const lane_t *lane, uint64_t size) {
    uint64_t waiting = lane != NULL ? outq_pending(&lane->out) : 0;
    if (waiting == 0) {
        return true;
    }
    uint32_t parts = flow >= FLOW_OTHERS || waiting + size <= LANE_MUCH ? LANE_SHARE_LITTLE : LANE_SHARE;
    return (flow >= FLOW_OTHERS || waiting + size <= LANE_MAX)
           && (lanes->share == NULL || share_has_of(lanes->share, parts, lane->out.data.capacity + size));
}

lane_t *lanes_lane(lanes_t *lanes, const precedence_t *precedence, const lane_use_t *use) {
    lane_rank_t base;
    bool fixed;
    uint64_t flow = own_or_shared(lanes, flow_of(precedence, use, &base, &fixed));
    lane_t *lane = lane_find(lanes, flow);
    uint8_t *place;
    if (!lane_has_room(lanes, flow, lane, use->size) || (lane == NULL && (lane = lane_new(lanes, flow)) == NULL)
        || buffer_reserve(&lane->sizes, sizeof(uint32_t), &place) != STATUS_OK) {
        if (lane != NULL && frame_count(lane) == 0) {
            lane_drop(lanes, lane); /* a lane in a line has a frame */
        }
        lanes->dropped++;
        return NULL;
    }
    if (flow != FLOW_OTHERS && (use->flow == NULL || use->flow->stream.size != 0)) {
        lane->base = base;
        lane->fixed = fixed;
    }
    if (flow <= FLOW_ANSWERS || flow > FLOW_OTHERS) {
        weigh(lane, use);
    }
    rank_again(lanes, lane);
    lane->before = outq_pending(&lane->out);
    lane->data_before = lane->out.data.size;
    return lane;
}

outq_t *lane_out(lane_t *lane) {
    return &lane->out;
}

void lane_end(lanes_t *lanes, lane_t *lane, status_t emitted) {
    if (emitted == STATUS_OK) {
        uint32_t size = (uint32_t)(outq_pending(&lane->out) - lane->before);
        memcpy(lane->sizes.at + lane->sizes.size, &size, sizeof(size));
        lane->sizes.size += sizeof(size);
        lanes->lines[lane->rank].bytes += size;
        return;
    }
    lane->out.data.size = lane->data_before;
    if (frame_count(lane) == 0) {
        lane_drop(lanes, lane);
    }
}

/* ---- what goes out ----------------------------------------------------------------------------------------------- */

/* The lane of that line that has been served least. */
static lane_t *least_served(const line_t *line) {
    lane_t *least = line->first;
    for (lane_t *lane = line->first; lane != NULL; lane = lane->next) {
        least = lane->had < least->had ? lane : least;
    }
    return least;
}

static bool never_held(const lane_t *lane) {
    return of_consumer(lane) || lane->flow == FLOW_ACKS;
}

/* The lane of a held line that goes all the same. */
static lane_t *going_all_the_same(const line_t *line) {
    lane_t *least = NULL;
    for (lane_t *lane = line->first; lane != NULL; lane = lane->next) {
        least = never_held(lane) && (least == NULL || lane->had < least->had) ? lane : least;
    }
    return least;
}

static lane_t *next_lane(lanes_t *lanes, lane_rank_t asked) {
    lane_rank_t lowest = asked < lanes->held_below ? asked : lanes->held_below;
    for (int rank = lowest; rank > 0; rank--) {
        line_t *line = &lanes->lines[rank];
        lane_t *lane = line->owed != 0 ? least_served(line) : NULL;
        if (lane != NULL && line->owed >= frame_size(lane)) {
            line->owed -= frame_size(lane);
            return lane;
        }
    }
    for (int rank = 0; rank <= lowest; rank++) {
        if (lanes->lines[rank].first != NULL) {
            return least_served(&lanes->lines[rank]);
        }
    }
    for (int rank = lowest + 1; rank <= (int)asked; rank++) {
        lane_t *lane = going_all_the_same(&lanes->lines[rank]);
        if (lane != NULL) {
            return lane;
        }
    }
    return NULL;
}

/* Gives the lanes that wait behind this one a part. */
static void owe(lanes_t *lanes, lane_rank_t rank, uint32_t size) {
    for (int below = rank + 1; below < LANE_RANKS; below++) {
        line_t *line = &lanes->lines[below];
        if (line->first != NULL) {
            uint64_t head = frame_size(least_served(line)), most = head > LANE_OWED_MAX ? head : LANE_OWED_MAX;
            uint64_t owed = line->owed + size / LANE_PART + 1;
            line->owed = owed < most ? owed : most;
        }
    }
}

static void frame_gone(lanes_t *lanes, lane_t *lane, uint32_t size) {
    line_t *line = &lanes->lines[lane->rank];
    line->bytes -= size;
    line->had = lane->had;
    lane->had += size;
    lane->first++;
    if (frame_count(lane) == 0) {
        return;
    }
    if (lane->flow <= FLOW_ANSWERS && lane->much && outq_pending(&lane->out) < LANE_MUCH / 2) {
        lane->much = false;
        rank_again(lanes, lane);
    }
    if (lane->first >= SIZES_KEPT && lane->first > frame_count(lane)) {
        buffer_consume(&lane->sizes, lane->first * sizeof(uint32_t));
        lane->first = 0;
    }
}

void lanes_fill(lanes_t *lanes, outq_t *out, uint64_t room, lane_rank_t lowest) {
    lane_t *lane;
    while (outq_pending(out) < room && (lane = next_lane(lanes, lowest)) != NULL) {
        uint32_t size = frame_size(lane);
        if (outq_move(out, &lane->out, size) != STATUS_OK) {
            return; /* no memory: later */
        }
        owe(lanes, lane->rank, size);
        frame_gone(lanes, lane, size);
        lanes->drained = lanes->drained || (lane->blocked && frame_count(lane) == 0);
        if (frame_count(lane) == 0) {
            lane_drop(lanes, lane);
        }
    }
}

status_t lanes_join(lanes_t *lanes, outq_t *out) {
    lane_rank_t held_below = lanes->held_below;
    lanes->held_below = LANE_LOW;
    lanes_fill(lanes, out, UINT64_MAX, LANE_LOW);
    lanes->held_below = held_below;
    return lanes_pending(lanes) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

/* ---- consumers --------------------------------------------------------------------------------------------------- */

static uint64_t lanes_part(const lanes_t *lanes, uint64_t most) {
    return lanes->count == 0 ? most : most / lanes->count;
}

void lanes_hold(lanes_t *lanes, lane_rank_t lowest) {
    if (lowest > lanes->held_below && lanes->kept) {
        lanes->drained = true;
        lanes->kept = false;
    }
    lanes->held_below = lowest;
}

/* True if the next delivery's lane is held. */
static bool is_held(const lanes_t *lanes, const precedence_t *precedence, const flow_t *flow, const lane_t *lane) {
    lane_use_t use = {.flow = flow};
    lane_rank_t rank;
    if (!ruled(precedence, &use, &rank)) {
        rank = catches_up(flow, lane != NULL && lane->much) ? LANE_LOW : LANE_NORMAL;
    }
    return rank > lanes->held_below;
}

bool lanes_full(lanes_t *lanes, const precedence_t *precedence, const flow_t *flow, uint64_t most) {
    uint64_t which = flow == NULL ? FLOW_NORMAL : own_or_shared(lanes, flow->id);
    lane_t *lane = lane_find(lanes, which);
    if (lanes->held_below != LANE_LOW) {
        bool held = flow != NULL && is_held(lanes, precedence, flow, lane);
        lanes->kept = lanes->kept || held;
        if (held || flow == NULL) {
            return held; /* the link's own lines go by no lane */
        }
    }
    if (lane == NULL || outq_pending(&lane->out) <= lanes_part(lanes, most)) {
        return false;
    }
    lane->blocked = true;
    return true;
}

bool lanes_drained(lanes_t *lanes, uint64_t most) {
    bool drained = lanes->drained;
    lanes->drained = false;
    for (uint32_t rank = 0; rank < LANE_RANKS; rank++) {
        for (lane_t *lane = lanes->lines[rank].first; lane != NULL; lane = lane->next) {
            if (lane->blocked && outq_pending(&lane->out) <= lanes_part(lanes, most) / 2) {
                lane->blocked = false;
                drained = true;
            }
        }
    }
    return drained;
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

uint64_t lanes_ranked(const lanes_t *lanes, lane_rank_t lowest) {
    uint64_t bytes = 0;
    for (int rank = 0; lanes != NULL && rank <= (int)lowest; rank++) {
        bytes += lanes->lines[rank].bytes;
    }
    return bytes;
}

uint64_t lanes_pending(const lanes_t *lanes) {
    return lanes_ranked(lanes, LANE_LOW);
}

uint64_t lanes_held(const lanes_t *lanes) {
    uint64_t bytes = 0;
    for (int rank = lanes == NULL ? LANE_RANKS : lanes->held_below + 1; rank < LANE_RANKS; rank++) {
        for (const lane_t *lane = lanes->lines[rank].first; lane != NULL; lane = lane->next) {
            bytes += never_held(lane) ? 0 : outq_pending(&lane->out);
        }
    }
    return bytes;
}

uint64_t lanes_going(const lanes_t *lanes) {
    return lanes_pending(lanes) - lanes_held(lanes);
}

uint64_t lanes_dropped(const lanes_t *lanes) {
    return lanes == NULL ? 0 : lanes->dropped;
}
