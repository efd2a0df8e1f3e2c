/* check.h: assertions that stay on in production.
 *
 * check() states what must hold for the code after it to be right; when it does not, the process stops at once with the
 * place, because a broker that goes on with a broken invariant writes the damage to disk. Conditions are split, one a
 * line. For bad input of any kind there is status_t: input can never make a check() fail.
 */
#ifndef LEAFD_BASE_CHECK_H
#define LEAFD_BASE_CHECK_H

_Noreturn void check_failed(const char *condition, const char *file, int line);

#define check(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

#define LEAF_LIKELY(x) __builtin_expect(!!(x), 1)
#define LEAF_UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif
