/* import.c: the imports of an account: control names all of them at once, and what is the same as before stays as it
 * is, with its shadows and its outstanding replies.
 *
 * Not here: who may import what (control decided it), the way of a message (cross.c).
 */
#include <stdlib.h>

#include "plane/import.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/copies.h"
#include "base/status.h"
#include "exchange/strings.h"
#include "plane/account.h"
#include "plane/plane.h"
#include "plane/subscription.h"
#include "text/rewrite.h"
#include "text/subject.h"

#define IMPORTS_MAX 65536u /* of one account */
#define STRINGS_A_ROW 5u

typedef struct wanted {
    import_row_t row;
    bytes_t subject;
    bytes_t local;
    bytes_t order;
    bytes_t results;
    bytes_t mark;
} wanted_t;

/* The import stays as long as it has shadows and replies, which need it. */
static bool import_end_step(leftover_t *self, void *context, uint32_t *budget) {
    import_t *import = (import_t *)self;
    if (!shadows_drop_some(context, import, budget) || !replies_drop_some(context, import, budget)) {
        return false;
    }
    bytes_release(&import->subject);
    bytes_release(&import->local);
    bytes_release(&import->results);
    bytes_release(&import->mark);
    free(import);
    return true;
}

/* Nothing crosses it any more; many shadows and outstanding replies are freed in later turns. */
static void import_end(plane_t *plane, import_t *import) {
    sink_remove(plane, &import->service);
    import->ended = true;
    import->row.flags &= ~(uint32_t)IMPORT_MEASURED; /* and nothing is told of how it was */
    import->leftover.step = import_end_step;
    leftovers_add(&plane->leftovers, &import->leftover);
}

void imports_free(plane_t *plane, account_t *account) {
    while (account->imports != NULL) {
        import_t *import = account->imports;
        account->imports = import->next;
        import_end(plane, import);
    }
}

static bool is_the_same(const import_t *import, const wanted_t *wanted) {
    return import->row.kind == wanted->row.kind && import->row.account == wanted->row.account
           && bytes_equal(import->subject, wanted->subject) && bytes_equal(import->local, wanted->local)
           && bytes_equal(bytes_of(import->inward.order, import->inward.count), wanted->order);
}

static import_t *import_take(import_t **list, const wanted_t *wanted) {
    for (import_t **at = list; *at != NULL; at = &(*at)->next) {
        import_t *import = *at;
        if (is_the_same(import, wanted)) {
            *at = import->next;
            return import;
        }
    }
    return NULL;
}

/* Changes the parts of an import that may change while it stays as it is. Without memory it is not measured. */
static status_t import_renew(import_t *import, const wanted_t *wanted) {
    import->row = wanted->row;
    bytes_release(&import->results);
    bytes_release(&import->mark);
    if ((import->row.flags & IMPORT_MEASURED) == 0) {
        return STATUS_OK;
    }
    bytes_t own[2];
    const bytes_t texts[2] = {wanted->results, wanted->mark};
    bool copied = wanted->mark.size <= REPLY_MARK_MAX && bytes_copy_all(own, texts, 2);
    if (!copied) {
        import->row.flags &= ~(uint32_t)IMPORT_MEASURED;
        return wanted->mark.size <= REPLY_MARK_MAX ? STATUS_NO_MEMORY : STATUS_INVALID;
    }
    import->results = own[0];
    import->mark = own[1];
    return STATUS_OK;
}

/* Not in the account's list yet. */
static status_t import_new(plane_t *plane, account_t *importer, const wanted_t *wanted, uint64_t growth,
                           import_t **out) {
    account_t *exporter = account_find(plane, wanted->row.account);
    if (exporter == NULL) {
        return STATUS_NOT_FOUND;
    }
    if (!subject_valid_pattern(wanted->subject) || !subject_valid_pattern(wanted->local)
        || (wanted->row.kind != IMPORT_STREAM && wanted->row.kind != IMPORT_SERVICE)) {
        return STATUS_INVALID;
    }
    import_t *import = calloc(1, sizeof(*import));
    if (import == NULL) {
        return STATUS_NO_MEMORY;
    }
    import->importer = importer;
    import->exporter = exporter;
    import->holder.drop_oldest = reply_drop_oldest;
    import->subject = bytes_copy(wanted->subject);
    import->local = bytes_copy(wanted->local);
    status_t status = STATUS_NO_MEMORY;
    if (import->subject.at != NULL && import->local.at != NULL) {
        status = import_renew(import, wanted);
    }
    if (status == STATUS_OK) {
        status = rewrite_make(&import->inward, import->subject, import->local, wanted->order);
    }
    if (status == STATUS_OK) {
        import->outward = rewrite_inverse(&import->inward);
        if (import->row.kind == IMPORT_STREAM) {
            import->growth = growth;
        } else {
            status = sink_add(plane, importer, &import->service, TARGET_SERVICE, import->local, 0, import);
        }
    }
    if (status != STATUS_OK) {
        import_end(plane, import);
        return status;
    }
    *out = import;
    return STATUS_OK;
}

static wanted_t next_wanted(const plane_command_t *command, uint32_t index, strings_t *strings) {
    wanted_t wanted;
    memcpy(&wanted.row, command->body + (size_t)index * sizeof(import_row_t), sizeof(import_row_t));
    wanted.subject = strings_next(strings);
    wanted.local = strings_next(strings);
    wanted.order = strings_next(strings);
    wanted.results = strings_next(strings);
    wanted.mark = strings_next(strings);
    return wanted;
}

/* In the order of the command. */
static status_t replace_imports(plane_t *plane, account_t *account, const plane_command_t *command, uint64_t growth) {
    strings_t strings = strings_of(command);
    import_t *before = account->imports, *made = NULL, **end = &made;
    status_t first = STATUS_OK;
    /* Imports that stay are taken out, the others go before new ones come: both may want one subject. */
    uint32_t count = command->body_size / (uint32_t)sizeof(import_row_t);
    strings_t walk = strings;
    for (uint32_t i = 0; i < count; i++) {
        wanted_t wanted = next_wanted(command, i, &walk);
        import_t *import = import_take(&before, &wanted);
        if (import != NULL) {
            status_t status = import_renew(import, &wanted);
            first = first == STATUS_OK ? status : first;
            import->next = NULL;
            *end = import;
            end = &import->next;
        }
    }
    account->imports = before;
    imports_free(plane, account);
    account->imports = NULL;
    import_t *kept = made;
    end = &account->imports;
    for (uint32_t i = 0; i < count; i++) {
        wanted_t wanted = next_wanted(command, i, &strings);
        import_t *import = import_take(&kept, &wanted);
        status_t status = import == NULL ? import_new(plane, account, &wanted, growth, &import) : STATUS_OK;
        if (import != NULL) {
            import->next = NULL;
            *end = import;
            end = &import->next;
        }
        first = first == STATUS_OK ? status : first;
    }
    return first;
}

void imports_put(plane_t *plane, account_t *account, const plane_command_t *command, growth_t *growth) {
    size_t count = command->body_size / sizeof(import_row_t);
    bool sound = count <= IMPORTS_MAX && strings_count(strings_of(command)) == STRINGS_A_ROW * count;
    *growth = (growth_t){.number = ++plane->growths, .account = account->js.id, .status = STATUS_INVALID};
    if (sound) {
        growth->status = replace_imports(plane, account, command, growth->number);
        growth_begin(plane, account, growth);
    }
}

void imports_stop(plane_t *plane, account_t *account, uint64_t growth) {
    for (import_t **at = &account->imports; *at != NULL;) {
        import_t *import = *at;
        if (import->growth == growth) {
            *at = import->next;
            import_end(plane, import);
        } else {
            at = &import->next;
        }
    }
}
