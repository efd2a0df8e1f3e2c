/* interest_domain.c: JetStream of this server under its domain's name, as one of the things that links are told of
 * (interest.h). Not here: what becomes of an interest (interest.c).
 */
#include "plane/interest.h"

#include "base/abi_types.h"
#include "plane/account.h"
#include "text/text.h"

static const char *const families[] = {"INFO",     "STREAM.>",  "CONSUMER.>", "DIRECT.>", "META.>",
                                       "SERVER.>", "ACCOUNT.>", "$KV.>",      "$OBJ.>"};
#define FAMILY_COUNT (sizeof(families) / sizeof(families[0]))

static void family_subject(text_t *subject, const account_t *account, uint32_t i) {
    subject->size = 0;
    text_add(subject, account->domain_prefix);
    text_add_literal(subject, families[i]);
}

/* One weight for JetStream itself, beside those of subscribers of the same subjects. */
static void domain_change(plane_t *plane, account_t *account, uint32_t before, uint32_t after) {
    text_t subject;
    for (uint32_t i = 0; i < FAMILY_COUNT; i++) {
        family_subject(&subject, account, i);
        interest_change(plane, account, text_bytes(&subject), BYTES_NONE, NULL, before, after);
    }
    account->domain_announced = after != 0;
}

status_t interest_announce_domain(plane_t *plane, account_t *account) {
    if (account->interest == NULL || account->domain_prefix.size == 0 || (account->flags & ACCOUNT_JETSTREAM) == 0
        || account->domain_announced) {
        return STATUS_OK;
    }
    text_t subject;
    for (uint32_t i = 0; i < FAMILY_COUNT; i++) {
        family_subject(&subject, account, i);
        if (interest_reserve(account, text_bytes(&subject), BYTES_NONE) != STATUS_OK) {
            return STATUS_NO_MEMORY;
        }
    }
    domain_change(plane, account, 0, 1);
    return STATUS_OK;
}

void interest_withdraw_domain(plane_t *plane, account_t *account) {
    if (account->domain_announced) {
        domain_change(plane, account, 1, 0);
    }
}
