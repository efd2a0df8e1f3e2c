/* dictionary.c: see dictionary.h. */
#include "disk/dictionary.h"

#include <stdlib.h>

#include "base/check.h"

void key_dictionary(store_key_t *key, uint32_t stream, uint32_t id) {
    key->size = DICTIONARY_KEY_SIZE;
    store_be32(key->at, stream);
    store_be16(key->at + 4, (uint16_t)id);
}

uint32_t dictionary_write(uint8_t *value, bytes_t key, const dictionary_t *dictionary) {
    check(dictionary->text.size <= DICTIONARY_TEXT_MAX);
    store_be64(value + 4, dictionary->from);
    store_be64(value + 12, (uint64_t)dictionary->ts);
    store_be64(value + 20, (uint64_t)dictionary->gap);
    uint32_t size = (uint32_t)(bytes_write(value + DICTIONARY_FIXED_SIZE, dictionary->text) - value);
    value_seal(key, value, size);
    return size;
}

bool dictionary_read(bytes_t key, bytes_t value, dictionary_t *dictionary) {
    if (value.size <= DICTIONARY_FIXED_SIZE || value.size > DICTIONARY_VALUE_MAX || !value_sound(key, value)) {
        return false;
    }
    *dictionary = (dictionary_t){.from = load_be64(value.at + 4),
                                 .ts = (int64_t)load_be64(value.at + 12),
                                 .gap = (int64_t)load_be64(value.at + 20),
                                 .text = bytes_after(value, DICTIONARY_FIXED_SIZE)};
    return true;
}

static bool keep_copy(dictionary_kept_t *kept, bytes_t key, bytes_t value) {
    dictionary_t is;
    if (!dictionary_read(key, value, &is)) {
        return false;
    }
    (void)bytes_write(kept->at, value);
    is.text.at = kept->at + DICTIONARY_FIXED_SIZE;
    kept->is = is;
    return true;
}

status_t dictionaries_find(dictionaries_t *dictionaries, uint32_t stream, uint32_t id, uint64_t version,
                           dictionary_fetch_t fetch, void *context, const dictionary_t **found) {
    dictionary_kept_t *kept = &dictionaries->kept[(stream + id) % DICTIONARIES_KEPT];
    bool known = kept->known && kept->stream == stream && kept->id == id && kept->version == version;
    if (kept->at == NULL && (kept->at = malloc(DICTIONARY_VALUE_MAX)) == NULL) {
        return STATUS_NO_MEMORY;
    }
    store_key_t key;
    key_dictionary(&key, stream, id);
    status_t unknown = STATUS_OK; /* of a copy, which does not matter where the other one is sound */
    for (uint32_t copy = 0; !known && copy < DICTIONARY_COPIES; copy++) {
        bytes_t value = BYTES_NONE;
        *kept = (dictionary_kept_t){.stream = stream, .id = id, .version = version, .at = kept->at};
        status_t status = fetch(context, dictionary_db(copy), key_bytes(&key), &value);
        known = status == STATUS_OK && keep_copy(kept, key_bytes(&key), value);
        unknown = status != STATUS_OK ? status : unknown;
    }
    kept->known = known || unknown == STATUS_OK;
    *found = kept->is.text.size != 0 ? &kept->is : NULL;
    return kept->known ? STATUS_OK : unknown;
}

void dictionaries_forget(dictionaries_t *dictionaries) {
    for (uint32_t i = 0; i < DICTIONARIES_KEPT; i++) {
        free(dictionaries->kept[i].at);
        dictionaries->kept[i] = (dictionary_kept_t){0};
    }
}
