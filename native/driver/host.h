/* host.h: the plane as JetStream's host (jetstream/host.h). */
#ifndef LEAFD_DRIVER_HOST_H
#define LEAFD_DRIVER_HOST_H

#include "jetstream/host.h"

extern const js_host_t plane_host;

#endif
