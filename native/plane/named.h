/* named.h: accounts by their names, as the lines of other servers name them: those of this server, and those that are
 * not known yet.
 */
#ifndef LEAFD_PLANE_NAMED_H
#define LEAFD_PLANE_NAMED_H

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "plane/account.h"

typedef struct named named_t; /* named.c */

LEAF_MUST_USE status_t named_open(plane_t *plane);
void named_close(plane_t *plane);

/* From here on lines may name it. Asked before the account is in the plane's table. */
LEAF_MUST_USE status_t named_put(plane_t *plane, account_t *account, bytes_t name);
/* NULL: no account has that name. */
account_t *named_account(const plane_t *plane, bytes_t name);
/* The same, of a link's lines: most name the account that the line before has named, which *last keeps. */
account_t *named_account_again(const plane_t *plane, account_t **last, bytes_t name);

/* An account that lines name before it is known here (a reload comes later) is expected: its subscriptions are
 * kept, nobody is told of them, and no message goes by them. account_put makes it an account like others. */

/* The account of a line of interest. NULL: it is not known, and there is no room to expect it. */
account_t *named_account_wanted(plane_t *plane, account_t **last, bytes_t name);
/* The one of that name that is expected. NULL: none is. */
account_t *named_expected(const plane_t *plane, bytes_t name);
/* Ends the expectation of an account that exists now. */
void named_appeared(plane_t *plane, const account_t *account);

#endif
