/* abi_types.h: the guard around abi_structs.h and abi.h, which have none because cffi reads them verbatim. C rooms
 * include this. */
#ifndef LEAFD_BASE_ABI_TYPES_H
#define LEAFD_BASE_ABI_TYPES_H

#include <stdint.h>

#include "abi_structs.h"
#include "abi_meta.h"
#include "abi.h"

#endif
