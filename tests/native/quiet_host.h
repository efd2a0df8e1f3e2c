/* quiet_host.h: the host of consumers whose test looks at deliveries alone: everybody is interested, and nobody is told
 * of an advisory, a status or an end.
 */
#ifndef LEAFD_TESTS_QUIET_HOST_H
#define LEAFD_TESTS_QUIET_HOST_H

#include "consume/consume.h"

static inline void quiet_status(void *context, uint32_t account, const flow_t *flow, bytes_t to, bytes_t reply,
                                bytes_t header) {
    (void)context, (void)account, (void)flow, (void)to, (void)reply, (void)header;
}

static inline bool quiet_interest(void *context, uint32_t account, bytes_t subject, bytes_t group) {
    (void)context, (void)account, (void)subject, (void)group;
    return true;
}

static inline void quiet_advise(void *context, consumer_t *which, uint32_t advisory, const advisory_t *numbers,
                                bytes_t told) {
    (void)context, (void)which, (void)advisory, (void)numbers, (void)told;
}

static inline void quiet_gone(void *context, uint32_t stream_id, uint32_t consumer_id, uint64_t taken) {
    (void)context, (void)stream_id, (void)consumer_id, (void)taken;
}

#endif
