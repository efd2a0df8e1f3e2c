/* salvage.c: what lies behind the end of replay: nothing, a write that power cut short, or damage to what was
 * acknowledged.
 *
 * Replay ends at the first batch that is not valid. What was being written when power failed looks like that, and so
 * does a flipped bit in a batch that had been on disk for long. A batch says of itself only that it is whole; but each
 * batch's witness (batch.h) says up to where the journal was on disk when that batch was written, and the mark of the
 * end says it of the last one, as does the high-water mark (highwater.h) when the end itself is gone:
 *
 *      ... valid | E ........ | B, whole, witness says "on disk up to D"                   a power cut may lose
 *                                                                                          anything not yet synced, in
 *                                                                                          any order: what lies at or
 *                                                                                          behind D
 *      D <= E    nothing behind E was promised: the tail was torn, and is dropped          one unfinished write, or
 *                                                                                          several batches between two
 *                                                                                          syncs at intervals
 *      D >  E    what stands from E to D was on disk: it is DAMAGED                        alarm
 *
 * Positions never come twice, so what earlier laps left cannot be taken for B; the store id in the witness is known to
 * nobody but the files, so a payload cannot hold a forged one. Batches count only with a whole checksum.
 *
 * From E to D:
 *     one wrong bit        found by the checksum (CRC32C has no two single bits alike within a batch), put right:
 *                          nothing is lost
 *     a header destroyed   its fields follow from the batches beside it
 *     anything else        ops whose own checksum holds are taken; the rest of the batch is lost
 *     whole batches        taken, by rebuild.c once something before them is lost
 * A compressed batch (squeeze.h) is repaired likewise, and its pieces have checksums that stand for their ops.
 *
 * From D on batches are taken as long as they are whole and chained, as in replay; a last batch with one wrong bit is
 * put right, too (a torn one does not become whole by any one bit).
 *
 * Not told apart without a witness: journals that an older leafd wrote.
 */
#include "store/overlay.h"
#include "recovery/salvage.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/crc.h"

#define CHUNK (UINT64_C(1) << 20)
#define NEAR_BATCHES 8 /* so many missing before the note may be damage; more: the journal is an older copy */

typedef struct survey {
    opening_t *opening;
    store_t *store;
    const batches_t *batches;
    rebuild_t *rebuild;  /* once something is lost */
    uint64_t limit;      /* no batch can reach beyond it */
    uint64_t proven;     /* D */
    uint64_t witnessed;  /* what the journal says of it, without the high-water mark */
    uint64_t end_number; /* of the batch that belongs at D, when end_known */
    uint32_t end_chain;
    bool end_known;
    bool interesting;
    bool lmdb_is_older;
    bool last_known; /* the batch that LMDB's note speaks of is there */
    uint8_t *plain;  /* the batch that was opened last, of those that are sealed or compressed */
    uint64_t newest; /* number, of those before the note */
    /* the walk */
    uint64_t position;
    uint64_t number; /* expected at position */
    uint32_t chain;
    bool chain_known;
} survey_t;

static uint64_t batch_max(const survey_t *survey) {
    return survey->batches->size / 2 + survey->batches->alignment;
}

static uint64_t survey_padded(const survey_t *survey, uint32_t size) {
    return batch_padded(survey->batches, size);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static bool survey_shaped(const survey_t *survey, uint64_t position, batch_header_t *header) {
    return batch_header_read(batches_at(survey->batches, position), header) && header->position == position
           && header->size <= batch_max(survey) && position + survey_padded(survey, header->size) <= survey->limit;
}

/* The bytes that the checksum of a batch covers: its size as it lies on the disk. */
static uint32_t stored_size(const survey_t *survey, const batch_header_t *header) {
    return batch_stored(header, survey->batches->overhead);
}

/* The batch whose header that is in plain, until the next call. NULL: it does not open, and nothing in it can be
 * used. */
static const uint8_t *in_plain(const survey_t *survey, uint64_t position, const batch_header_t *header) {
    const sealer_t *sealer = survey->store->options.sealer;
    const uint8_t *batch = batches_at(survey->batches, position);
    if (header->blocks != 0) {
        uint32_t salt = squeeze_salt(survey->opening->store_id, header->position);
        bool opens =
            sealer == NULL && squeeze_open(salt, batch, stored_size(survey, header), survey->plain, header->size);
        return opens ? survey->plain : NULL;
    }
    if (sealer == NULL) {
        return batch;
    }
    return sealer_open_batch(sealer, batch, header->size, survey->plain) ? survey->plain : NULL;
}

static bool survey_whole(const survey_t *survey, uint64_t position, batch_header_t *header) {
    const uint8_t *batch = batches_at(survey->batches, position);
    return survey_shaped(survey, position, header) && header->format <= STORE_FORMAT
           && batch_crc(batch, stored_size(survey, header)) == header->crc
           && in_plain(survey, position, header) != NULL;
}

/* Enough of the expected header that a batch was begun there. */
static bool survey_resembles(const survey_t *survey, uint64_t position) {
    const uint8_t *at = batches_at(survey->batches, position);
    int alike = load_be32(at) == BATCH_MAGIC;
    alike += load_be64(at + 8) == position;
    alike += load_be64(at + 16) == survey->number;
    alike += load_be32(at + 28) == survey->chain;
    return alike >= 3;
}

static void look_at_block(survey_t *survey, uint64_t position) {
    const opening_t *opening = survey->opening;
    const uint8_t *at = batches_at(survey->batches, position);
    batch_header_t header;
    uint64_t number;
    uint32_t chain;
    if (mark_read(at, position, opening->store_id, &number, &chain)) {
        survey->interesting = true;
        return;
    }
    if (!batch_header_read(at, &header)
        || header.position % survey->batches->size != position % survey->batches->size) {
        return;
    }
    survey->interesting |= header.position >= survey->position;
    if (header.position < opening->checkpoint.position && header.number < opening->checkpoint.number) {
        survey->newest = header.number > survey->newest ? header.number : survey->newest;
        survey->last_known |=
            header.number + 1 == opening->checkpoint.number && header.crc == opening->checkpoint.chain;
    }
}

/* Reads everything behind E, a piece at a time; pieces stay in memory only when one of them is of interest. */
static status_t survey_look(survey_t *survey) {
    journal_t *journal = &survey->store->journal;
    status_t status = STATUS_OK;
    for (uint64_t at = survey->position; status == STATUS_OK && at < survey->limit; at += CHUNK) {
        uint64_t size = survey->limit - at < CHUNK ? survey->limit - at : CHUNK;
        status = journal_load(journal, survey->batches, at, size);
        for (uint64_t block = at; status == STATUS_OK && block < at + size; block += JOURNAL_ALIGNMENT) {
            look_at_block(survey, block);
        }
        survey->interesting |= at == survey->position && survey_resembles(survey, at);
        if (!survey->interesting) {
            batches_trim((batches_t *)(uintptr_t)survey->batches, at, at + size);
        }
    }
    if (status == STATUS_OK && survey->interesting) {
        status = journal_load(journal, survey->batches, survey->position, survey->limit - survey->position);
    }
    return status;
}

static bool survey_witnessed(const survey_t *survey, uint64_t position, const batch_header_t *header,
                             uint64_t *durable) {
    const uint8_t *batch = in_plain(survey, position, header);
    return batch != NULL && witness_read(batch, header->size, survey->opening->store_id, durable);
}

/* The mark of the end stands where replay ended, and speaks of the batch before it: nothing was written behind. */
static bool ended_here(const survey_t *survey) {
    const uint8_t *block = batches_at(survey->batches, survey->position);
    uint64_t number = 0;
    uint32_t chain = 0;
    return journal_load(&survey->store->journal, survey->batches, survey->position, JOURNAL_ALIGNMENT) == STATUS_OK
           && mark_read(block, survey->position, survey->opening->store_id, &number, &chain) && number == survey->number
           && chain == survey->chain && survey->opening->promised.position <= survey->position;
}

static void survey_believe(survey_t *survey, uint64_t durable, uint64_t at, uint64_t number, uint32_t chain) {
    if (durable > survey->proven || (durable == survey->proven && durable == at)) {
        survey->proven = durable;
        survey->end_known = durable == at;
        survey->end_number = number;
        survey->end_chain = chain;
    }
}

static void survey_prove(survey_t *survey) {
    for (uint64_t at = survey->position; at < survey->limit; at += JOURNAL_ALIGNMENT) {
        const uint8_t *block = batches_at(survey->batches, at);
        batch_header_t header;
        uint64_t durable = 0;
        uint64_t number;
        uint32_t chain;
        if (mark_read(block, at, survey->opening->store_id, &number, &chain)) {
            survey_believe(survey, at, at, number, chain);
        } else if (survey_whole(survey, at, &header) && survey_witnessed(survey, at, &header, &durable)
                   && durable <= at) {
            survey_believe(survey, durable, at, header.number, header.chain);
        } else if (batch_header_read(block, &header) && header.position >= survey->limit
                   && header.size <= batch_max(survey)
                   && header.position % survey->batches->size == at % survey->batches->size
                   && batch_crc(block, stored_size(survey, &header)) == header.crc
                   && survey_witnessed(survey, at, &header, &durable)) {
            survey->lmdb_is_older = true;
        }
    }
    survey->witnessed = survey->proven;
    const highwater_mark_t *promised = &survey->opening->promised;
    if (promised->position > survey->position && promised->position <= survey->limit) {
        survey_believe(survey, promised->position, promised->position, promised->number + 1, promised->chain);
    }
}

/* ---- repairing --------------------------------------------------------------------------------------------------- */

/* The size of a batch by its ops alone, up to its witness; 0: they are not sound in structure, or sealed. */
static uint32_t survey_measure(const survey_t *survey, uint64_t position, uint32_t *count) {
    const uint8_t *batch = batches_at(survey->batches, position);
    uint64_t room = survey->limit - position < batch_max(survey) ? survey->limit - position : batch_max(survey);
    uint32_t offset = BATCH_HEADER_SIZE;
    batch_op_t op;
    *count = 0;
    if (survey->store->options.sealer != NULL) {
        return 0;
    }
    while (op_next(batch, (uint32_t)room, &offset, &op)) {
        uint64_t durable;
        ++*count;
        if (op.kind == OP_DELETE && op.db == DB_META
            && witness_read(batch, offset, survey->opening->store_id, &durable)) {
            return offset;
        }
    }
    return 0;
}

static bool every_op_sound(const survey_t *survey, const batch_header_t *header) {
    uint64_t position = header->position;
    uint32_t size = header->size, expected = header->count;
    const uint8_t *batch = batches_at(survey->batches, position);
    uint32_t count = 0;
    if (survey->store->options.sealer != NULL || header->blocks != 0) {
        return in_plain(survey, position, header) != NULL; /* which proves more */
    }
    if (survey_measure(survey, position, &count) != size || count != expected) {
        return false;
    }
    uint32_t offset = BATCH_HEADER_SIZE;
    batch_op_t op;
    while (offset < size) {
        if (!op_next(batch, size, &offset, &op) || (op_puts(&op) && !op_sound(survey->batches, &op))) {
            return false;
        }
    }
    return true;
}

/* Finds the one bit whose change explains the difference between the checksum that is and the one that should be, by
 * stepping the difference back through the register. Bits are counted from the end of what is summed. */
static bool flip_wrong_bit(uint8_t *batch, uint32_t size, uint32_t difference) {
    const uint32_t polynomial = UINT32_C(0x82f63b78);
    uint64_t bits = (uint64_t)(size - 8) * 8;
    for (uint64_t bit = 0; bit < bits; bit++) {
        difference = (difference & UINT32_C(0x80000000)) != 0 ? (difference ^ polynomial) << 1 | 1 : difference << 1;
        if (difference == 1) {
            uint64_t at = bits - 1 - bit;
            batch[8 + at / 8] ^= (uint8_t)(1u << (at % 8));
            return true;
        }
    }
    return false;
}

/* Is it the batch that belongs there, when its size is taken for this one? Then it is put right in memory. */
static bool repair_as(const survey_t *survey, batch_header_t header, uint32_t size, bool bit) {
    uint8_t *batch = batches_at(survey->batches, header.position);
    if (size < BATCH_HEADER_SIZE + WITNESS_SIZE || size > batch_max(survey)
        || header.position + survey_padded(survey, size) > survey->limit) {
        return false;
    }
    header.size = size;
    batch_header_write(batch, &header);
    if (!batch_header_read(batch, &header)) { /* more blocks than a batch of that size */
        return false;
    }
    uint32_t stored = stored_size(survey, &header);
    uint32_t difference = batch_crc(batch, stored) ^ header.crc;
    bool flipped = bit && difference != 0 && (difference & (difference - 1)) != 0;
    if (flipped) {
        if (!flip_wrong_bit(batch, stored, difference)) {
            return false;
        }
    } else if (difference != 0 && (difference & (difference - 1)) != 0) {
        return false;
    }
    batch_header_t now;
    bool alike = batch_header_read(batch, &now) && now.size == size && now.blocks == header.blocks;
    if (alike) {
        now.crc = batch_crc(batch, stored);
        batch_header_write(batch, &now);
    }
    if (alike && every_op_sound(survey, &now)) {
        return true;
    }
    if (flipped) { /* back: the same bit again */
        (void)flip_wrong_bit(batch, stored, difference);
    }
    return false;
}

/* The blocks that a batch says it has, compressed; none where its ops are there to be seen, or sealed. */
static uint32_t blocks_said(const survey_t *survey, const uint8_t *batch, uint32_t measured) {
    return measured != 0 || survey->store->options.sealer != NULL ? 0 : load_be32(batch + 36) >> 8;
}

static bool survey_repair(const survey_t *survey) {
    uint8_t *batch = batches_at(survey->batches, survey->position);
    uint8_t kept[BATCH_HEADER_SIZE];
    memcpy(kept, batch, sizeof kept);
    uint32_t count;
    uint32_t measured = survey_measure(survey, survey->position, &count);
    uint32_t said = load_be32(batch + 24);
    batch_header_t header = {.position = survey->position,
                             .number = survey->number,
                             .crc = load_be32(batch + 4),
                             .chain = survey->chain_known ? survey->chain : load_be32(batch + 28),
                             .count = load_be32(batch + 32),
                             .blocks = blocks_said(survey, batch, measured),
                             .format = STORE_FORMAT};
    bool done = (measured != 0 && repair_as(survey, header, measured, true)) || repair_as(survey, header, said, true);
    for (uint32_t bit = 0; !done && bit < 32; bit++) {
        done = repair_as(survey, header, said ^ (UINT32_C(1) << bit), false);
    }
    const uint32_t blocks = header.blocks;
    for (uint32_t bit = 0; !done && blocks != 0 && bit < 24; bit++) {
        header.blocks = blocks ^ UINT32_C(1) << bit;
        done = repair_as(survey, header, said, false);
    }
    header.blocks = blocks;
    /* a header destroyed: the batch behind it knows the checksum */
    if (!done && measured != 0 && count <= UINT32_MAX / 2) {
        batch_header_t next;
        uint64_t behind = survey->position + survey_padded(survey, measured);
        if (behind < survey->limit && survey_whole(survey, behind, &next)) {
            header.count = count;
            header.crc = next.chain;
            done = repair_as(survey, header, measured, true);
        }
    }
    if (!done) {
        memcpy(batch, kept, sizeof kept);
    }
    return done;
}

/* ---- walking along the batches ----------------------------------------------------------------------------------- */

static status_t begin_writing(survey_t *survey) {
    status_t status = survey->opening->writing ? STATUS_OK : env_write_begin(survey->store->env);
    survey->opening->writing |= status == STATUS_OK;
    return status;
}

static status_t survey_apply(survey_t *survey, const batch_header_t *header) {
    const uint8_t *batch = in_plain(survey, survey->position, header);
    status_t status = batch != NULL ? begin_writing(survey) : STATUS_CORRUPT;
    if (status == STATUS_OK) {
        status = survey->rebuild != NULL ? rebuild_batch(survey->rebuild, batch, header->size)
                                         : apply_batch(survey->store->env, survey->batches, batch, header->size, NULL);
    }
    if (header->blocks != 0 && batch != NULL) { /* later ones may share bytes of it, and look for them here */
        memcpy(batches_at(survey->batches, survey->position), batch, header->size);
    }
    survey->position += survey_padded(survey, header->size);
    survey->number = header->number + 1;
    survey->chain = header->crc;
    survey->chain_known = true;
    survey->store->replayed++;
    return status;
}

static bool fits_here(const survey_t *survey, const batch_header_t *header) {
    return survey->chain_known ? header->number == survey->number && header->chain == survey->chain
                               : header->number >= survey->number;
}

static void note_damage(survey_t *survey, uint64_t lost) {
    damage_t *damage = &survey->opening->damage;
    if (!damage->seen) {
        *damage = (damage_t){.seen = true, .position = survey->position, .number = survey->number};
    }
    damage->lost += lost;
    damage->repaired += lost == 0;
    store_damaged(survey->store, 1);
}

/* What is sound of a compressed batch that says how many blocks it has: all of these are its own. Behind them, and in a
 * batch whose beginning is gone, may be what an attempt at the same position left that power cut short. */
static status_t survey_pieces(const survey_t *survey, uint64_t room) {
    const uint8_t *batch = batches_at(survey->batches, survey->position);
    uint64_t said = (uint64_t)blocks_said(survey, batch, 0) * BATCH_BLOCK;
    if (said == 0 || said > room || !survey_resembles(survey, survey->position)) {
        return STATUS_OK;
    }
    uint32_t salt = squeeze_salt(survey->opening->store_id, survey->position);
    bytes_t stored = bytes_of(batch, (uint32_t)said);
    uint32_t offset = BATCH_HEADER_SIZE, most = (uint32_t)batch_max(survey) - BATCH_HEADER_SIZE, plain = 0;
    status_t status = STATUS_OK;
    bool skipped;
    while (status == STATUS_OK
           && squeeze_piece(salt, stored, &offset, survey->plain + BATCH_HEADER_SIZE, most, &plain, &skipped)) {
        if (skipped) {
            rebuild_hole(survey->rebuild);
        }
        status = rebuild_pieces(survey->rebuild, survey->plain, BATCH_HEADER_SIZE + plain, true);
    }
    return status;
}

/* Nothing puts the batch at this position right. */
static status_t survey_lose(survey_t *survey) {
    const uint8_t *batch = batches_at(survey->batches, survey->position);
    uint64_t next = survey->position + JOURNAL_ALIGNMENT;
    batch_header_t header = {0};
    uint32_t count;
    uint32_t size = survey_measure(survey, survey->position, &count);
    if (survey->rebuild == NULL) {
        survey->rebuild = rebuild_new(survey->store);
    }
    status_t status = survey->rebuild == NULL ? STATUS_NO_MEMORY : begin_writing(survey);
    if (status != STATUS_OK) {
        return status;
    }
    if (size != 0) {
        next = survey->position + survey_padded(survey, size);
    }
    while (size == 0 && next < survey->proven
           && !(survey_whole(survey, next, &header) && header.number > survey->number)) {
        next += JOURNAL_ALIGNMENT;
    }
    next = next < survey->proven ? next : survey->proven;
    rebuild_hole(survey->rebuild);
    uint64_t pieces = next - survey->position < batch_max(survey) ? next - survey->position : batch_max(survey);
    pieces = survey->store->options.sealer == NULL ? pieces : 0; /* one piece of a sealed batch says nothing */
    status = rebuild_pieces(survey->rebuild, batch, size != 0 ? size : (uint32_t)pieces, size != 0);
    status = status == STATUS_OK && size == 0 ? survey_pieces(survey, pieces) : status;
    rebuild_hole(survey->rebuild);
    uint64_t number = survey->number + 1;
    if (next == survey->proven) {
        number = survey->end_known || survey->end_number > number ? survey->end_number : number;
    } else if (size == 0) {
        number = header.number;
    }
    note_damage(survey, number > survey->number ? number - survey->number : 1);
    survey->chain_known = next == survey->proven && survey->end_known;
    survey->chain = survey->chain_known ? survey->end_chain : 0;
    survey->number = number;
    survey->position = next;
    return status;
}

/* A write that power cut short, by all that can be known. Were it damage, this would be the only word of it. */
static void say_unfinished(const survey_t *survey) {
    if (survey->position + BATCH_HEADER_SIZE < survey->limit && survey_resembles(survey, survey->position)) {
        survey->opening->unfinished = true;
        store_alarm(survey->store, ALARM_IO, 0, 0,
                    "the journal's last write (batch %llu) is not whole and was dropped: it was cut short before "
                    "anything in it was acknowledged, "
                    "unless it was damaged since",
                    (unsigned long long)survey->number);
    }
}

static status_t survey_walk(survey_t *survey) {
    status_t status = STATUS_OK;
    while (status == STATUS_OK && survey->position < survey->limit) {
        batch_header_t header;
        if (survey_whole(survey, survey->position, &header) && fits_here(survey, &header)) {
            status = survey_apply(survey, &header);
        } else if (survey->position + BATCH_HEADER_SIZE < survey->limit && survey_repair(survey)) {
            note_damage(survey, 0);
            check(batch_header_read(batches_at(survey->batches, survey->position), &header));
            status = survey_apply(survey, &header);
        } else if (survey->position < survey->proven) {
            status = survey_lose(survey);
        } else {
            say_unfinished(survey);
            break;
        }
    }
    return status;
}

/* ---- a whole journal --------------------------------------------------------------------------------------------- */

static status_t journal_distrust(opening_t *opening, const char *what) {
    if (opening->accepted) {
        opening->damage =
            (damage_t){.seen = true, .position = opening->position, .number = opening->number + 1, .what = what};
        store_damaged(opening->store, 1);
        return STATUS_OK;
    }
    return recover_refuse(opening, STATUS_CORRUPT, what);
}

/* Replay found nothing at the note: does the journal know the batch that was applied last? (One that was applied before
 * its sync may be missing after a power cut, so only those count that were written since every batch is synced.) */
static bool is_older_copy(const survey_t *survey) {
    const opening_t *opening = survey->opening;
    return opening->position == opening->checkpoint.position && survey->witnessed <= opening->position
           && opening->use == USE_SYNCED && opening->position > opening->use_position && opening->number > 0
           && survey->store->journal.origin != opening->position && !survey->last_known;
}

static const char older_than_mark[] = "data.mdb and the journal are older than the file \"highwater\"";

/* Surveys the store, and takes what can be taken. */
static status_t salvage_survey(survey_t *survey) {
    store_t *store = survey->store;
    opening_t *opening = survey->opening;
    survey->interesting = opening->promised.position > survey->position;
    status_t status = survey_look(survey);
    if (status == STATUS_OK && survey->interesting) {
        survey->plain = malloc((size_t)(batch_max(survey) + store->batches.overhead));
        status = survey->plain != NULL ? STATUS_OK : STATUS_NO_MEMORY;
    }
    if (status == STATUS_OK && survey->interesting) {
        survey_prove(survey);
    }
    if (status == STATUS_OK && survey->lmdb_is_older) {
        return journal_distrust(opening, "data.mdb is older than its journal");
    }
    if (status == STATUS_OK && opening->promised.position > survey->limit) {
        return journal_distrust(opening, older_than_mark);
    }
    if (status == STATUS_OK && is_older_copy(survey)) {
        if (survey->newest + NEAR_BATCHES < opening->number) {
            return journal_distrust(opening, "the journal is an older copy, or damaged");
        }
        note_damage(survey, 1);
    }
    if (status == STATUS_OK && opening->no_room) {
        /* what is damaged can only be put right in LMDB */
        return survey->proven > opening->position ? STATUS_NO_SPACE : STATUS_OK;
    }
    if (status == STATUS_OK && survey->interesting) {
        status = survey_walk(survey);
    }
    if (status == STATUS_OK && survey->rebuild != NULL) {
        status = rebuild_end(survey->rebuild);
    }
    opening->unclean = status == STATUS_OK && survey->interesting;
    opening->position = survey->position;
    opening->number = survey->number - 1;
    opening->chain = survey->chain;
    return status;
}

status_t salvage_tail(opening_t *opening) {
    store_t *store = opening->store;
    survey_t survey = {.opening = opening,
                       .store = store,
                       .batches = &store->batches,
                       .limit = opening->checkpoint.position + store->batches.size,
                       .proven = opening->position,
                       .witnessed = opening->position,
                       .position = opening->position,
                       .number = opening->number + 1,
                       .chain = opening->chain,
                       .chain_known = true};
    bool closed = opening->use == USE_CLOSED && opening->use_position == opening->position;
    if (closed && !opening->made && opening->promised.position > opening->position) {
        return journal_distrust(opening, older_than_mark);
    }
    /* LMDB has it all, the journal is new, or its end is known: the ring need not be read. */
    if (closed || opening->made || ended_here(&survey)) {
        return STATUS_OK;
    }
    status_t status = salvage_survey(&survey);
    rebuild_free(survey.rebuild);
    free(survey.plain);
    return status;
}
