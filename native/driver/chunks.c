/* chunks.c: checksums, compression and decompression for Python, which reads and writes the chunks of a backup: no
 * plane is needed. */
#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/crc.h"
#include "base/status.h"
#include "text/s2.h"
#include "text/s2_encode.h"

uint32_t plane_crc32c(const uint8_t *at, uint64_t size) {
    return crc32c(0, at, size);
}

int64_t plane_s2_size(const uint8_t *block, uint32_t block_size) {
    uint32_t size;
    return s2_size(bytes_of(block, block_size), &size) == STATUS_OK ? (int64_t)size : -1;
}

int32_t plane_s2_decode(const uint8_t *block, uint32_t block_size, uint8_t *out, uint32_t out_size) {
    return s2_decode(bytes_of(block, block_size), out, out_size) == STATUS_OK ? 0 : -1;
}

uint32_t plane_s2_encode(const uint8_t *from, uint32_t size, uint8_t *to, uint32_t room) {
    /* One block in 256 KB needs it: not worth keeping one, nor a lock around it. */
    s2_encoder_t *encoder = size <= S2_ENCODE_MAX ? s2_encoder_new(S2_EFFORT_FAST) : NULL;
    if (encoder == NULL) {
        return 0;
    }
    uint32_t packed = s2_encode(encoder, bytes_of(from, size), to, room);
    s2_encoder_free(encoder);
    return packed;
}
