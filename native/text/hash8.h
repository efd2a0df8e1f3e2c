/* hash8.h: eight letters and digits made of a text, by which the protocol names an account or a node without telling
 * its name: they are in acknowledgement subjects and in names of consumers that mirrors and sources make. SHA-256 of
 * the text; each of the first eight bytes modulo 62 is one of 0-9A-Za-z.
 */
#ifndef LEAFD_TEXT_HASH8_H
#define LEAFD_TEXT_HASH8_H

#include "base/bytes.h"

#define HASH8_SIZE 8u

void hash8(bytes_t text, uint8_t out[HASH8_SIZE]);

#endif
