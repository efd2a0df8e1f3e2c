/* mapping.h: where a message of an account goes instead of to its subject.
 */
#ifndef LEAFD_PLANE_MAPPING_H
#define LEAFD_PLANE_MAPPING_H

#include <stdbool.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "plane/account.h"
#include "exchange/strings.h"
#include "text/text.h"

/* All mappings of the account, in place of what it had. */
LEAF_MUST_USE status_t mappings_put(plane_t *plane, account_t *account, strings_t strings);
LEAF_MUST_USE status_t mappings_announce(plane_t *plane, account_t *account); /* to a first leaf link */
void mappings_free(mapping_t *mapping);
/* Whether a message may go elsewhere than to its subject: mapped_subject, and for a client gateway_reply_whole, are
 * worth a call. */
static inline bool may_be_mapped(const account_t *account, bytes_t subject) {
    return account->diverts != 0 || (account->domain_prefix.size != 0 && subject.size != 0 && subject.at[0] == '$');
}
/* The subject that a message goes to, in out when that is another one; empty: the message goes nowhere. Permissions are
 * asked about this subject. */
bytes_t mapped_subject(plane_t *plane, const account_t *account, bytes_t subject, text_t *out);
/* The subject without the domain's name: "$JS.<domain>.API.X" is "$JS.API.X" here, "$JS.<domain>.API.$KV.X" is "$KV.X"
 * (tests/wire/leaf.md, "JetStream domains"). */
bytes_t domain_subject(const account_t *account, bytes_t subject, text_t *out);

#endif
