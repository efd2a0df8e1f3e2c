/* hash.h: a fast 64-bit hash of short byte strings for in-memory tables (wyhash-like mixing, seeded once per process so
 * that a stranger cannot choose colliding subjects). Never stored on disk, never sent. */
#ifndef LEAFD_BASE_HASH_H
#define LEAFD_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *at, size_t size);
void hash_seed(uint64_t seed); /* before any table is made; tests use it to be repeatable */

#endif
