/* answers.c: see answers.h. */
#include "sessions/answers.h"

#include <stdlib.h>

#include "mqtt/packet.h"

#define ROOM_FIRST 8u
#define ROOM_MAX 131072u /* twice what packet identifiers there are: one may be in use again before its answer went */

static answer_t *answer_at(const answers_t *answers, uint32_t place) {
    return &answers->ring[(answers->first + place) & (answers->room - 1)];
}

static bool answers_grow(answers_t *answers) {
    uint32_t room = answers->room == 0 ? ROOM_FIRST : answers->room * 2;
    answer_t *ring = room > ROOM_MAX ? NULL : calloc(room, sizeof(*ring));
    if (ring == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < answers->count; i++) {
        ring[i] = *answer_at(answers, i);
    }
    free(answers->ring);
    answers->ring = ring;
    answers->room = room;
    answers->first = 0;
    return true;
}

answer_t *answers_begin(answers_t *answers, uint16_t id, uint8_t kind) {
    if (answers->count == answers->room && !answers_grow(answers)) {
        return NULL;
    }
    answer_t *one = answer_at(answers, answers->count++);
    *one = (answer_t){.id = id, .kind = kind};
    answers->acks += kind == MQTT_PUBACK;
    return one;
}

static void stream_told(answer_t *one, uint8_t reason) {
    one->waits--;
    one->reason = one->reason > reason ? one->reason : reason; /* a refusal is above all that is none */
}

/* Streams answer nearly in order, so it is one of the first. */
bool answers_told(answers_t *answers, uint16_t id, uint8_t reason) {
    for (uint32_t i = 0; i < answers->count; i++) {
        answer_t *one = answer_at(answers, i);
        if (one->id == id && one->waits != 0) {
            stream_told(one, reason);
            return true;
        }
    }
    return false;
}

bool answers_told_mark(answers_t *answers, uint32_t mark, uint8_t reason) {
    for (uint32_t i = 0; mark != 0 && i < answers->count; i++) {
        answer_t *one = answer_at(answers, i);
        if (one->mark == mark && one->waits != 0) {
            stream_told(one, reason);
            return true;
        }
    }
    return false;
}

bool answers_next(answers_t *answers, answer_t *out) {
    if (answers->count == 0 || answer_at(answers, 0)->waits != 0) {
        return false;
    }
    *out = *answer_at(answers, 0);
    answers->first = (answers->first + 1) & (answers->room - 1);
    answers->count--;
    answers->acks -= out->kind == MQTT_PUBACK;
    return true;
}

void answers_free(answers_t *answers) {
    free(answers->ring);
    *answers = (answers_t){0};
}
