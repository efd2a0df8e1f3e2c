/* judge.c: judges the further names that a message carries, by its sender's permissions.
 */
#include "plane/judge.h"

#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/stream.h"
#include "plane/authors.h"
#include "plane/output.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"
#include "plane/publication.h"
#include "plane/refused.h"
#include "route/permissions.h"
#include "text/headers.h"
#include "text/subject.h"
#include "text/text.h"

/* The author of a schedule who has no rights of its own: the stream has to grant it. */
#define NOBODY BYTES_LITERAL("-")

static bool reserved(bytes_t subject) {
    return bytes_starts(subject, BYTES_LITERAL("_GR_.")) || bytes_starts(subject, BYTES_LITERAL("$GR."))
           || bytes_starts(subject, BYTES_LITERAL("$NRG."));
}

bool judge_permitted(plane_t *plane, permissions_t *permissions, bool link, bytes_t subject) {
    if (!subject_storable(subject) || reserved(subject)) {
        return false;
    }
    return permissions == NULL
           || (link ? permissions_leaf_in(permissions, subject) && permissions_leaf_to(permissions, subject)
                    : permissions_publish(permissions, subject, plane->now.mono_ns));
}

bool judge_readable(const permissions_t *permissions, bool link, bytes_t subject) {
    bool filtered;
    return permissions == NULL
           || (link ? permissions_leaf_out(permissions, subject)
                    : permissions_subscribe(permissions, subject, BYTES_NONE, &filtered));
}

/* Another server of the cluster has judged what it sends; the rights of a route are about interest alone. */
static permissions_t *rights_of(const peer_t *peer) {
    return peer->route != NULL ? NULL : peer->permissions;
}

static bool judge_may_publish(plane_t *plane, const peer_t *peer, bytes_t subject) {
    return judge_permitted(plane, rights_of(peer), peer->protocol->link, subject);
}

static bool judge_may_read(const peer_t *peer, bytes_t subject) {
    return judge_readable(rights_of(peer), peer->protocol->link, subject);
}

/* Answers need nobody's leave over a link, as on the wire. */
static bool is_answer(const peer_t *peer, bytes_t subject) {
    return peer->protocol->link && bytes_starts(subject, BYTES_LITERAL("_R_.")) && subject_storable(subject)
           && (rights_of(peer) == NULL || permissions_leaf_to(peer->permissions, subject));
}

judged_t judge_publish(plane_t *plane, const peer_t *peer, bytes_t subject) {
    bool may = judge_may_publish(plane, peer, subject) || is_answer(peer, subject);
    return (judged_t){may ? subject : BYTES_NONE};
}

/* Both ends of a leaf link have buckets of their own, so their subjects are denied to every link. A consumer of the
 * other end's bucket delivers under these names all the same, and without them a watcher would not know its keys: of
 * them what the link's user is denied counts, and nothing else. */
static bool is_bucket_of(const peer_t *peer, bytes_t named) {
    return peer->protocol->link && peer->route == NULL && peer->gateway == NULL && peer->permissions != NULL
           && (bytes_starts(named, BYTES_LITERAL("$KV.")) || bytes_starts(named, BYTES_LITERAL("$OBJ.")));
}

static bool judge_may_name(plane_t *plane, const peer_t *peer, bytes_t named) {
    if (!is_bucket_of(peer, named)) {
        return judge_may_publish(plane, peer, named);
    }
    /* What a hub that we dialled grants us is its own business. */
    return subject_storable(named)
           && (peer->dialled ? permissions_leaf_to(peer->permissions, named)
                             : permissions_leaf_grants(peer->permissions, named));
}

/* A stored message answers no request. */
judged_t judge_shown(plane_t *plane, const publication_t *publication) {
    bytes_t named = publication->copied;
    if ((publication->flags & PUBLICATION_NAMED) == 0) {
        return publication->shown;
    }
    bool may = !bytes_starts(named, BYTES_LITERAL("_R_.")) && judge_may_name(plane, publication->origin, named);
    return (judged_t){may ? named : BYTES_NONE};
}

bool judge_copied(plane_t *plane, const peer_t *peer, uint64_t origin, bytes_t named) {
    return named.size == 0 || peer == NULL || peer->id == origin || judge_may_publish(plane, peer, named);
}

judged_t judged_stored(bytes_t stored) {
    return (judged_t){stored};
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

static void tell_refused(plane_t *plane, peer_t *peer, bytes_t subject, bool reads) {
    if (peer->protocol->link) {
        return; /* a link ends by an error; the answer to the publish says it */
    }
    peer_refused(plane, peer, &(violation_t){.code = reads ? REFUSED_SUBSCRIBE : REFUSED_PUBLISH, .subject = subject});
    text_t text;
    text.size = 0;
    text_add_literal(&text, "Permissions Violation for ");
    text_add_literal(&text, reads ? "Subscription to" : "Publish to");
    text_add_literal(&text, " \"");
    text_add_shown(&text, subject);
    text_add_literal(&text, "\"");
    peer_error(plane, peer, text_shown(&text));
}

static bool is_author(bytes_t name) {
    return bytes_equal(name, SCHEDULE_AUTHOR);
}

/* In place of what the sender may have written there itself. An empty author: none. */
static bool write_author(plane_t *plane, message_t *message, bytes_t author) {
    bytes_t written;
    bool unused;
    buffer_t *out = &plane->authored;
    if (author.size == 0 && !headers_find(message->header, SCHEDULE_AUTHOR, &written)) {
        return true;
    }
    out->size = 0;
    status_t status = headers_copy_without(out, message->header, is_author, false, &unused);
    if (status == STATUS_OK && author.size != 0) {
        status = headers_append(out, 0, SCHEDULE_AUTHOR, author);
    }
    message->header = bytes_of(out->at, (uint32_t)out->size);
    message->body = NULL; /* which has the header as it came */
    return status == STATUS_OK;
}

/* A message that comes over an import, or from inside (a consumer's delivery, a republished message), has no user in
 * this account whose rights could be looked at: the stream's configuration has to grant it. */
static bool sender_known(const publication_t *publication) {
    const peer_t *peer = publication->origin;
    return peer != NULL && !peer->server && peer->account == publication->account;
}

typedef struct named {
    bytes_t name;
    js_schedule_name_t which;
} named_t;

/* The first of the names that its sender may not use, as it is known here or as another server says. The stream refuses
 * a name that is not a subject, in the reference's words. */
static bool first_denied(plane_t *plane, const publication_t *publication, const js_schedule_names_t *names,
                         named_t *denied) {
    const named_t all[] = {
        {names->target, SCHEDULE_TARGET}, {names->source, SCHEDULE_SOURCE}, {names->ended, SCHEDULE_ENDED}};
    const peer_t *peer = publication->origin;
    bool vouched = publication->vouched_in == publication->account && !bytes_equal(publication->author, NOBODY);
    for (uint32_t i = 0; i < sizeof all / sizeof *all && !vouched; i++) {
        bytes_t name = all[i].name;
        bool reads = all[i].which == SCHEDULE_SOURCE;
        *denied = all[i];
        if (name.size != 0 && subject_storable(name)
            && (!sender_known(publication)
                || !(reads ? judge_may_read(peer, name) : judge_may_publish(plane, peer, name)))) {
            return true;
        }
    }
    return false;
}

bool judge_author(plane_t *plane, const publication_t *publication, bytes_t *author) {
    js_schedule_names_t names;
    named_t denied;
    bool vouched = publication->vouched_in == publication->account;
    if ((!vouched && !sender_known(publication)) || !js_schedule_named(publication->message.header, &names)) {
        return false;
    }
    *author = first_denied(plane, publication, &names, &denied) ? NOBODY
              : vouched                                         ? publication->author
                                                                : publication->origin->author;
    return true;
}

bool judge_schedule(plane_t *plane, stream_t *stream, const publication_t *publication, message_t *message) {
    js_schedule_names_t names;
    named_t denied;
    if (!js_schedule_names(stream, publication->message.header, &names)) {
        return true;
    }
    bytes_t author = NOBODY;
    bool may = !first_denied(plane, publication, &names, &denied);
    if (!may && !names.granted) {
        if (sender_known(publication)) {
            tell_refused(plane, publication->origin, denied.name, denied.which == SCHEDULE_SOURCE);
        }
        js_schedule_refuse(&plane->js, stream, publication->message.reply, denied.which);
        return false;
    }
    if (may && publication->vouched_in == publication->account) {
        author = publication->author;
    } else if (may && sender_known(publication)) {
        author = publication->origin->author;
    }
    if (!write_author(plane, message, author)) {
        js_answer_refused(&plane->js, stream, publication->message.reply, &refused_space);
        return false;
    }
    if (author.size != 0) {
        author_note(plane, publication->account->js.id, author);
    }
    return true;
}
