/* abi_types.h: the guard around abi.h, which has none because cffi reads it verbatim. C rooms include this. */
#ifndef LEAFD_BASE_ABI_TYPES_H
#define LEAFD_BASE_ABI_TYPES_H

#include <stdint.h>

#include "abi.h"

#endif
