/* mapping.c: where a message goes: an account's subject mappings send what its clients and links publish to a source to
 * one of its destinations, and JetStream's own subjects under the name of its domain are those without it.
 *
 *     account->mappings > mapping (source) > choices: a transform, and the share of a hundred that it ends below
 *
 * The first mapping whose source matches decides; a draw that reaches no choice drops the message, which is how the
 * configuration asks for loss. Links are told of the sources, so that what is published behind them comes here. What
 * JetStream publishes is not mapped, and what control publishes only from the domain's name. Not here:
 * weights that do not add up (control completes them), permissions (judged for the new subject, so that no other name
 * of a subject leads past them).
 */
#include <stdlib.h>

#include "plane/mapping.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/copies.h"
#include "base/random.h"
#include "base/status.h"
#include "exchange/strings.h"
#include "plane/account.h"
#include "plane/interest.h"
#include "plane/plane.h"
#include "text/decimal.h"
#include "text/subject.h"
#include "text/text.h"
#include "text/transform.h"

#define HUNDRED 100u

typedef struct choice {
    struct choice *next;
    transform_t *transform;
    uint64_t below;
} choice_t;

struct mapping {
    mapping_t *next;
    bytes_t source; /* own copy */
    choice_t *choices;
};

void mappings_free(mapping_t *mapping) {
    while (mapping != NULL) {
        mapping_t *next = mapping->next;
        for (choice_t *choice = mapping->choices, *after; choice != NULL; choice = after) {
            after = choice->next;
            transform_free(choice->transform);
            free(choice);
        }
        bytes_release(&mapping->source);
        free(mapping);
        mapping = next;
    }
}

static status_t read_choice(strings_t *strings, bytes_t source, bytes_t destination, choice_t **place) {
    choice_t *choice = calloc(1, sizeof(*choice));
    if (choice == NULL) {
        return STATUS_NO_MEMORY;
    }
    *place = choice;
    if (!decimal_parse(strings_next(strings), &choice->below) || choice->below > HUNDRED) {
        return STATUS_INVALID;
    }
    return transform_new(source, destination, &choice->transform);
}

/* One after the other into the list's end; a failure leaves a list that can be freed. */
static status_t read_mappings(strings_t *strings, mapping_t **place) {
    status_t status = STATUS_OK;
    while (status == STATUS_OK && strings_more(strings)) {
        mapping_t *mapping = calloc(1, sizeof(*mapping));
        if (mapping == NULL) {
            return STATUS_NO_MEMORY;
        }
        *place = mapping;
        place = &mapping->next;
        bytes_t source = strings_next(strings);
        mapping->source = bytes_copy(source);
        if (mapping->source.size != source.size) {
            return STATUS_NO_MEMORY;
        }
        choice_t **choice = &mapping->choices;
        bytes_t destination;
        while (status == STATUS_OK && (destination = strings_next(strings)).size != 0) {
            status = read_choice(strings, mapping->source, destination, choice);
            choice = status == STATUS_OK ? &(*choice)->next : choice;
        }
        if (!subject_valid_pattern(mapping->source)) {
            status = STATUS_INVALID;
        }
    }
    return status;
}

static void mappings_tell(plane_t *plane, account_t *account, const mapping_t *mapping, uint32_t before,
                          uint32_t after) {
    for (; mapping != NULL; mapping = mapping->next) {
        interest_change(plane, account, mapping->source, BYTES_NONE, NULL, before, after);
    }
}

static status_t mappings_reserve(account_t *account, const mapping_t *mapping) {
    status_t status = STATUS_OK;
    for (; mapping != NULL && status == STATUS_OK; mapping = mapping->next) {
        status = interest_reserve(account, mapping->source, BYTES_NONE);
    }
    return status;
}

status_t mappings_announce(plane_t *plane, account_t *account) {
    status_t status = mappings_reserve(account, account->mappings);
    if (status == STATUS_OK) {
        mappings_tell(plane, account, account->mappings, 0, 1);
    }
    return status;
}

status_t mappings_put(plane_t *plane, account_t *account, strings_t strings) {
    mapping_t *mappings = NULL;
    status_t status = read_mappings(&strings, &mappings);
    if (status == STATUS_OK) {
        status = mappings_reserve(account, mappings);
    }
    if (status != STATUS_OK) {
        mappings_free(mappings);
        return status;
    }
    mapping_t *old = account->mappings;
    account->mappings = mappings;
    account->diverts += (uint32_t)(mappings != NULL) - (uint32_t)(old != NULL);
    /* New ones in before old ones out: what stays is never unannounced. */
    mappings_tell(plane, account, mappings, 0, 1);
    mappings_tell(plane, account, old, 1, 0);
    mappings_free(old);
    return STATUS_OK;
}

bytes_t domain_subject(const account_t *account, bytes_t subject, text_t *out) {
    static const char api[] = "$JS.API.";
    const uint32_t front = sizeof(api) - 1;
    bytes_t prefix = account->domain_prefix;
    if (prefix.size == 0 || (account->flags & ACCOUNT_JETSTREAM) == 0 || subject.size <= prefix.size
        || !bytes_starts(subject, prefix)) {
        return subject;
    }
    bytes_t rest = bytes_of(subject.at + prefix.size, subject.size - prefix.size);
    if (bytes_starts(rest, BYTES_LITERAL("$KV.")) || bytes_starts(rest, BYTES_LITERAL("$OBJ."))) {
        return rest;
    }
    if (rest.size > sizeof(out->at) - front) {
        return BYTES_NONE;
    }
    /* The subject may stand in out already. */
    memmove(out->at + front, rest.at, rest.size);
    memcpy(out->at, api, front);
    out->size = front + rest.size;
    return text_bytes(out);
}

/* The subject by the account's mappings alone. */
static bytes_t by_mappings(plane_t *plane, const account_t *account, bytes_t subject, text_t *out) {
    const mapping_t *mapping = account->mappings;
    while (mapping != NULL && !subject_matches(subject, mapping->source)) {
        mapping = mapping->next;
    }
    if (mapping == NULL) {
        return subject;
    }
    uint32_t draw = random_below(&plane->random, HUNDRED);
    const choice_t *choice = mapping->choices;
    while (choice != NULL && draw >= choice->below) {
        choice = choice->next;
    }
    if (choice == NULL) {
        return BYTES_NONE;
    }
    status_t status = transform_apply(choice->transform, subject, random_next(&plane->random), out->at,
                                      SUBJECT_BYTES_MAX, &out->size);
    return status == STATUS_OK ? text_bytes(out) : status == STATUS_NOT_FOUND ? subject : BYTES_NONE;
}

bytes_t mapped_subject(plane_t *plane, const account_t *account, bytes_t subject, text_t *out) {
    bytes_t to = account->mappings == NULL ? subject : by_mappings(plane, account, subject, out);
    return to.size == 0 ? to : domain_subject(account, to, out);
}
