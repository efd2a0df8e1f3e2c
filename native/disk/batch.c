/* batch.c: see batch.h. The memory is a memfd mapped twice; nothing is allocated afterwards. */
#include "disk/batch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/crc.h"

/* A mapping that is moved takes the place of another in one step for a thread that reads it just now. */
static bool map_at(const batches_t *batches, uint64_t place, uint64_t offset, uint64_t size) {
    void *piece = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, batches->fd, (off_t)offset);
    if (piece == MAP_FAILED) {
        return false;
    }
    if (mremap(piece, (size_t)size, (size_t)size, MREMAP_MAYMOVE | MREMAP_FIXED, batches->at + place) == MAP_FAILED) {
        munmap(piece, (size_t)size);
        return false;
    }
    return true;
}

/* Maps a lap of the ring; the first `had` bytes of the mapping stay where they are. */
static bool map_lap(const batches_t *batches, uint64_t had, uint64_t lap) {
    return (had == lap || map_at(batches, had, had, lap - had)) && map_at(batches, lap, 0, lap);
}

status_t batches_open(batches_t *batches, uint64_t size, uint32_t alignment, uint64_t position, uint64_t number) {
    check(size % (64 * 1024) == 0);
    check(alignment > 0);
    check(position % alignment == 0);
    *batches = (batches_t){.size = size,
                           .lap = size,
                           .room = size,
                           .alignment = alignment,
                           .freed = position,
                           .begin = position,
                           .end = position + BATCH_HEADER_SIZE,
                           .number = number};
    batches->fd = memfd_create("leafd-ring", MFD_CLOEXEC);
    if (batches->fd < 0) {
        return STATUS_NO_MEMORY;
    }
    void *at = MAP_FAILED;
    if (ftruncate(batches->fd, (off_t)size) == 0) {
        at = mmap(NULL, (size_t)size * 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (at == MAP_FAILED) {
        close(batches->fd);
        return STATUS_NO_MEMORY;
    }
    batches->at = at;
    if (map_lap(batches, 0, size)) {
        return STATUS_OK;
    }
    batches_close(batches);
    return STATUS_NO_MEMORY;
}

void batches_restart(batches_t *batches, uint64_t position, uint64_t number) {
    check(position % batches->alignment == 0);
    check(batch_is_empty(batches));
    batches->freed = position;
    batches->begin = position;
    batches->end = position + BATCH_HEADER_SIZE;
    batches->number = number;
}

void batches_reserve(batches_t *batches, uint32_t overhead) {
    check(overhead <= BATCH_OVERHEAD_MAX);
    batches->overhead = overhead;
    batches->tail = overhead + (batches->witnessed ? WITNESS_SIZE : 0);
}

void batches_witness(batches_t *batches, const uint8_t store_id[WITNESS_ID_SIZE]) {
    batches->witnessed = true;
    batches->tail = batches->overhead + WITNESS_SIZE;
    memcpy(batches->store_id, store_id, WITNESS_ID_SIZE);
}

void batches_close(batches_t *batches) {
    if (batches->at != NULL) {
        munmap(batches->at, (size_t)batches->size * 2);
        close(batches->fd);
        batches->at = NULL;
    }
}

void batches_narrow(batches_t *batches, uint32_t part) {
    uint64_t had = batches->lap;
    uint64_t lap = batches->size / part;
    check(batch_is_empty(batches));
    check(batches->freed == batches->begin);
    check(lap <= had);
    check(had % lap == 0);
    /* Where the kernel refuses, the ring only keeps its memory. */
    (void)fallocate(batches->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)batches->size);
    if (lap < had && map_at(batches, lap, 0, lap)) {
        batches->lap = batches->room = lap;
    }
}

/* Copies the bytes in use to the other places of the wider ring at which a position may lie then. */
static bool copy_wide(const batches_t *batches, uint64_t wide) {
    uint64_t lap = batches->lap;
    uint64_t next = 0;
    for (uint64_t position = batches->freed; position < batches->end; position = next) {
        next = position / lap * lap + lap;
        next = next < batches->end ? next : batches->end;
        for (uint64_t offset = position % lap + lap; offset < wide; offset += lap) {
            for (uint64_t done = 0; done < next - position;) {
                ssize_t put = pwrite(batches->fd, batches_at(batches, position) + done,
                                     (size_t)(next - position - done), (off_t)(offset + done));
                if (put <= 0) {
                    return false;
                }
                done += (uint64_t)put;
            }
        }
    }
    return true;
}

bool batches_widen(batches_t *batches, uint64_t lap) {
    uint64_t had = batches->lap;
    check(lap > had);
    check(lap % had == 0);
    check(batches->size % lap == 0);
    check(batches->room == had);
    if (!copy_wide(batches, lap)) {
        return false;
    }
    if (!map_lap(batches, had, lap)) {
        check(map_at(batches, had, 0, had)); /* the mapping as before */
        return false;
    }
    batches->lap = lap;
    batches->wide_from = batches->end;
    batches_free(batches, batches->freed);
    return true;
}

void batches_free(batches_t *batches, uint64_t position) {
    batches->freed = position;
    bool drained = batch_is_empty(batches) && position == batches->begin;
    if (drained || position >= batches->wide_from) {
        batches->room = batches->lap;
    }
}

void batches_trim(batches_t *batches, uint64_t from, uint64_t to) {
    const uint64_t page = 64 * 1024;
    while (from < to) {
        uint64_t place = from % batches->lap;
        uint64_t begin = (place + page - 1) / page * page;
        uint64_t limit = place + (to - from) < batches->lap ? place + (to - from) : batches->lap;
        if (begin + page <= limit) {
            /* Where the kernel refuses, the ring only keeps its memory. */
            (void)madvise(batches->at + begin, (size_t)((limit - begin) / page * page), MADV_REMOVE);
        }
        from += limit - place;
    }
}

bool batch_fits(const batches_t *batches, uint64_t need) {
    uint64_t open = batch_open_size(batches) + batches->promised + batches->tail;
    if (need > batches->room / 2 || open > batches->room / 2 - need) {
        return false; /* a batch over half the ring could never be checkpointed beside its successor */
    }
    return batches_used(batches) + batches->promised + need + (uint64_t)batches->alignment * 2 <= batches->room;
}

uint8_t *batch_op(batches_t *batches, op_kind_in_batch_t kind, store_db_t db, bytes_t key, uint32_t value_size,
                  uint64_t *position) {
    uint8_t *to = batches_at(batches, batches->end);
    *position = batches->end;
    to[0] = (uint8_t)kind;
    to[1] = (uint8_t)db;
    store_be16(to + 2, (uint16_t)key.size);
    store_be32(to + 4, value_size);
    memcpy(to + OP_HEADER_SIZE, key.at, key.size);
    batches->end += op_size(key.size, value_size);
    batches->count++;
    return to + OP_HEADER_SIZE + key.size;
}

static const char witness_name[] = {'b', 'a', 't', 'c', 'h'};

static void add_witness(batches_t *batches) {
    uint8_t key[WITNESS_KEY_SIZE] = {0};
    uint64_t position;
    memcpy(key, witness_name, sizeof witness_name);
    memcpy(key + sizeof witness_name, batches->store_id, WITNESS_ID_SIZE);
    batch_op(batches, OP_DELETE, DB_META, bytes_of(key, sizeof key), 0, &position);
}

void witness_stamp(uint8_t *batch, uint32_t size, uint64_t durable) {
    check(size >= BATCH_HEADER_SIZE + WITNESS_SIZE);
    store_be64(batch + size - 8, durable);
}

bool witness_read(const uint8_t *batch, uint32_t size, const uint8_t store_id[WITNESS_ID_SIZE], uint64_t *durable) {
    if (size < BATCH_HEADER_SIZE + WITNESS_SIZE) {
        return false;
    }
    const uint8_t *at = batch + size - WITNESS_SIZE;
    const uint8_t *key = at + OP_HEADER_SIZE;
    *durable = load_be64(key + sizeof witness_name + WITNESS_ID_SIZE);
    return at[0] == OP_DELETE && at[1] == DB_META && load_be16(at + 2) == WITNESS_KEY_SIZE && load_be32(at + 4) == 0
           && memcmp(key, witness_name, sizeof witness_name) == 0
           && memcmp(key + sizeof witness_name, store_id, WITNESS_ID_SIZE) == 0;
}

void batch_seal(batches_t *batches) {
    if (batches->witnessed) {
        add_witness(batches);
    }
    uint64_t size = batch_open_size(batches);
    check(size <= batches->room / 2 + batches->alignment);
    uint64_t next = batches->begin + batch_padded(batches, (uint32_t)size);
    check(next - batches->freed <= batches->room);
    batch_header_t header = {.position = batches->begin,
                             .number = batches->number,
                             .size = (uint32_t)size,
                             .count = batches->count,
                             .format = STORE_FORMAT};
    batch_header_write(batches_at(batches, batches->begin), &header);
    memset(batches_at(batches, batches->end), 0, (size_t)(next - batches->end));
    batches->begin = next;
    batches->end = next + BATCH_HEADER_SIZE;
    batches->number++;
    batches->count = 0;
}

static void op_decode(const uint8_t *at, batch_op_t *op) {
    uint32_t key_size = load_be16(at + 2);
    op->kind = at[0];
    op->db = at[1];
    op->key = bytes_of(at + OP_HEADER_SIZE, key_size);
    op->value = bytes_of(at + OP_HEADER_SIZE + key_size, load_be32(at + 4));
}

void op_read(const batches_t *batches, uint64_t position, batch_op_t *op) {
    check(position >= batches->freed);
    check(position < batches->end);
    op_decode(batches_at(batches, position), op);
}

void op_read_sealed(const batches_t *batches, uint64_t position, batch_op_t *op) {
    op_decode(batches_at(batches, position), op);
}

bool op_next(const uint8_t *batch, uint32_t batch_size, uint32_t *offset, batch_op_t *op) {
    if (batch_size - *offset < OP_HEADER_SIZE) {
        return false;
    }
    op_decode(batch + *offset, op);
    uint64_t size = op_size(op->key.size, op->value.size);
    if (size > batch_size - *offset) {
        return false;
    }
    if (op->kind < OP_PUT || op->kind > OP_PUT_SHARED || op->db >= DB_COUNT || op->key.size > KEY_MAX) {
        return false;
    }
    *offset += (uint32_t)size;
    return true;
}

void op_shares(uint8_t *to, uint64_t position, uint32_t size) {
    store_be64(to, position);
    store_be32(to + 8, size);
}

/* The op was read a moment ago. What reads two of its members in one piece waits until both have reached the cache,
 * which was a twentieth of the keeper's time. So the value is not assigned as a whole; nor are kind and database looked
 * at one behind the other, of which the compiler makes one comparison. */
bool op_parts(const batches_t *batches, const batch_op_t *op, bytes_t *head, bytes_t *rest) {
    *head = bytes_of(op->value.at, op->value.size);
    *rest = BYTES_NONE;
    if (LEAF_LIKELY(op->kind == OP_PUT)) {
        return true;
    }
    if (op->kind != OP_PUT_SHARED || op->value.size < OP_SHARES_SIZE || op->db != DB_MESSAGES) {
        return false;
    }
    head->size -= OP_SHARES_SIZE;
    const uint8_t *shares = head->at + head->size;
    *rest = bytes_of(batches_at(batches, load_be64(shares)), load_be32(shares + 8));
    return rest->size <= atomic_load_explicit(&batches->lap, memory_order_relaxed);
}

bool op_message(const batches_t *batches, const batch_op_t *op, message_record_t *message) {
    bytes_t head = BYTES_NONE, rest = BYTES_NONE;
    if (LEAF_LIKELY(op->kind == OP_PUT)) {
        return message_read(op->key, op->value, message);
    }
    return op_parts(batches, op, &head, &rest) && message_read_apart(op->key, head, rest, message);
}

bool op_sound(const batches_t *batches, const batch_op_t *op) {
    bytes_t head = BYTES_NONE, rest = BYTES_NONE;
    return op_parts(batches, op, &head, &rest) && value_sound_apart(op->key, head, rest);
}

status_t batch_each(const uint8_t *batch, uint32_t size, uint64_t position, op_visit_t visit, void *context) {
    uint32_t offset = BATCH_HEADER_SIZE;
    status_t status = STATUS_OK;
    while (status == STATUS_OK && offset < size) {
        batch_op_t op;
        uint64_t at = position + offset;
        status = op_next(batch, size, &offset, &op) ? visit(context, &op, at) : STATUS_CORRUPT;
    }
    return status;
}

/* The sealed batch at position; returns where the next one begins. */
static uint64_t sealed_at(const batches_t *batches, uint64_t position, batch_header_t *header) {
    check(batch_header_read(batches_at(batches, position), header));
    check(header->position == position);
    return position + batch_padded(batches, header->size);
}

status_t batches_each(const batches_t *batches, uint64_t from, uint64_t to, op_visit_t visit, void *context) {
    status_t status = STATUS_OK;
    while (status == STATUS_OK && from < to) {
        batch_header_t header;
        uint64_t next = sealed_at(batches, from, &header);
        status = batch_each(batches_at(batches, from), header.size, from, visit, context);
        from = next;
    }
    return status;
}

void batches_last(const batches_t *batches, uint64_t from, uint64_t to, batch_header_t *header) {
    check(from < to);
    while (from < to) {
        from = sealed_at(batches, from, header);
    }
}

void batch_header_write(uint8_t *to, const batch_header_t *header) {
    store_be32(to, BATCH_MAGIC);
    store_be32(to + 4, header->crc);
    store_be64(to + 8, header->position);
    store_be64(to + 16, header->number);
    store_be32(to + 24, header->size);
    store_be32(to + 28, header->chain);
    store_be32(to + 32, header->count);
    store_be32(to + 36, header->blocks << 8 | header->format);
}

bool batch_header_read(const uint8_t *at, batch_header_t *header) {
    if (load_be32(at) != BATCH_MAGIC) {
        return false;
    }
    *header = (batch_header_t){.crc = load_be32(at + 4),
                               .position = load_be64(at + 8),
                               .number = load_be64(at + 16),
                               .size = load_be32(at + 24),
                               .chain = load_be32(at + 28),
                               .count = load_be32(at + 32),
                               .blocks = load_be32(at + 36) >> 8,
                               .format = load_be32(at + 36) & 0xff};
    return header->size >= BATCH_HEADER_SIZE
           && header->blocks <= header->size / BATCH_BLOCK + (header->size % BATCH_BLOCK != 0 ? 1 : 0);
}

uint32_t batch_crc(const uint8_t *batch, uint32_t size) {
    return crc32c(0, batch + 8, size - 8);
}
