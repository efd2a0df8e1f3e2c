/* mqtt_subscribe.c: SUBSCRIBE and UNSUBSCRIBE of a client of MQTT.
 *
 *     filter       pattern      sid            a second subscription
 *     a/+          a.*          a/+
 *     a/#          a.>          a/#            a, with the sid "a/# fwc": NATS's > matches no level, MQTT's # does
 *     $share/g/a   a, group g   $share/g/a
 *
 * The names are nats-server's. A filter that comes again replaces what there was. Not here: what a
 * subscription gets (mqtt_deliver.c).
 */
#include "mqtt/read.h"
#include "mqtt/write.h"
#include "plane/account.h"
#include "plane/keeping.h"
#include "plane/refused.h"
#include "route/permissions.h"
#include "text/subject.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_lasting.h"
#include "verbs/mqtt_retain.h"
#include "verbs/mqtt_share.h"

#define PARENT_SUFFIX BYTES_LITERAL(" fwc")
#define OWN_SUBJECTS BYTES_LITERAL("$MQTT.")

/* One filter as what is to be subscribed to. */
typedef struct wanted {
    bytes_t sid;     /* its text */
    bytes_t pattern; /* in the desk */
    bytes_t group;   /* may be empty */
    uint32_t parent; /* so much of the pattern is a second one; 0 = none */
    uint32_t flags;
    uint32_t identifier;
} wanted_t;

static mqtt_reason_t read_filter(const session_t *session, mqtt_desk_t *desk, const mqtt_filter_t *filter,
                                 wanted_t *wanted) {
    bytes_t text = filter->text, group = BYTES_NONE;
    uint32_t size = 0;
    bool valid = true;
    if (topic_shared(text, &group, &text, &valid)) {
        if (!valid || !subject_valid_literal(group)) {
            return MQTT_REASON_FILTER;
        }
        if (filter->no_local && session->writer.level == MQTT_5) {
            return MQTT_REASON_PROTOCOL; /* 5: 3.8.3.1 */
        }
    }
    if (topic_filter_to_pattern(text, desk->subject, sizeof(desk->subject), &size) != TOPIC_OK) {
        return MQTT_REASON_FILTER;
    }
    *wanted = (wanted_t){.sid = filter->text, .pattern = bytes_of(desk->subject, size), .group = group};
    wanted->parent = topic_parent(wanted->pattern);
    if (!subject_valid_pattern(wanted->pattern)) {
        return MQTT_REASON_FILTER;
    }
    return bytes_starts(wanted->pattern, OWN_SUBJECTS) ? MQTT_REASON_NOT_AUTHORIZED : MQTT_REASON_SUCCESS;
}

static uint32_t flags_of(const mqtt_filter_t *filter, uint8_t qos, bytes_t pattern) {
    bool wild = pattern.at[0] == '*' || pattern.at[0] == '>';
    return SUBSCRIPTION_ASKS | (uint32_t)qos << MQTT_SUB_QOS_SHIFT | (filter->no_local ? MQTT_SUB_NO_LOCAL : 0)
           | (filter->retain_as_published ? MQTT_SUB_AS_PUBLISHED : 0) | (wild ? MQTT_SUB_WILD : 0);
}

static bytes_t parent_sid(mqtt_desk_t *desk, bytes_t sid) {
    if (sid.size > sizeof(desk->topic) - PARENT_SUFFIX.size) {
        return BYTES_NONE;
    }
    const uint8_t *end = bytes_write(bytes_write(desk->topic, sid), PARENT_SUFFIX);
    return bytes_of(desk->topic, (uint32_t)(end - desk->topic));
}

/* The one with that sid, new or changed. */
static mqtt_reason_t put_subscription(plane_t *plane, peer_t *peer, const wanted_t *wanted, bytes_t pattern,
                                      bytes_t sid) {
    bool filtered = false;
    if (peer->permissions != NULL && !permissions_subscribe(peer->permissions, pattern, wanted->group, &filtered)) {
        peer_refused(
            plane, peer,
            &(violation_t){.code = REFUSED_SUBSCRIBE, .subject = pattern, .queue = wanted->group, .sid = wanted->sid});
        return MQTT_REASON_NOT_AUTHORIZED;
    }
    uint32_t flags = wanted->flags | (filtered ? SUBSCRIPTION_FILTERED : 0);
    subscription_t *one = subscription_find_sid(peer->table, sid);
    if (one != NULL) {
        one->flags = flags | (one->flags & MQTT_SUB_READS);
        one->id = wanted->identifier;
        return MQTT_REASON_SUCCESS;
    }
    if (peer->max_subscriptions != 0 && map_count(peer->table) - peer->dead_count >= peer->max_subscriptions) {
        peer_refused(plane, peer, &(violation_t){.code = REFUSED_SUBSCRIPTIONS});
        return MQTT_REASON_QUOTA;
    }
    status_t status = subscription_add(plane, peer->account, &peer->table, TARGET_CLIENT, peer, pattern, wanted->group,
                                       sid, 1, flags, &one);
    if (status != STATUS_OK) {
        return status == STATUS_FULL || status == STATUS_NO_MEMORY ? MQTT_REASON_QUOTA : MQTT_REASON_FILTER;
    }
    one->id = wanted->identifier;
    return MQTT_REASON_SUCCESS;
}

static void drop_filter(plane_t *plane, peer_t *peer, bytes_t sid) {
    subscription_t *one = subscription_find_sid(peer->table, sid);
    if (one != NULL) {
        subscription_kill(plane, one);
    }
}

static void drop_filters(plane_t *plane, peer_t *peer, mqtt_desk_t *desk, bytes_t text) {
    drop_filter(plane, peer, text);
    bytes_t sid = parent_sid(desk, text);
    if (sid.size != 0) {
        drop_filter(plane, peer, sid);
    }
}

static void forget_filter(plane_t *plane, kept_t *kept, bytes_t text) {
    kept_filter_t *one = kept_find(kept, text);
    if (one != NULL) {
        mqtt_share_part(plane, kept, one);
        (void)kept_drop(kept, text);
    }
}

/* A shared one waits in the stream from QoS 1 on. */
static bool share_filter(plane_t *plane, kept_t *kept, kept_filter_t *one, uint32_t flags) {
    one->flags = flags | (one->joined ? MQTT_SUB_GROUPED : 0);
    if ((flags & MQTT_SUB_QOS) == 0) {
        mqtt_share_part(plane, kept, one);
        return true;
    }
    if (mqtt_share_join(plane, kept, one) != STATUS_OK) {
        (void)kept_drop(kept, one->text);
        return false;
    }
    return true;
}

/* In its session, where it is kept; what is in the stream already is not for a new one. false: too many, no memory. */
static bool remember_filter(plane_t *plane, session_t *session, const mqtt_filter_t *filter, const wanted_t *wanted) {
    kept_t *kept = session->kept;
    const mqtt_account_t *keeper = kept->keeper;
    bool known = kept_find(kept, filter->text) != NULL;
    kept_filter_t *one;
    if (!share_has(&plane->memory.interest, 2 * (uint64_t)filter->text.size)
        || kept_put(kept, filter->text, &one) != STATUS_OK) {
        return false;
    }
    one->identifier = wanted->identifier;
    if (one->shared) {
        return share_filter(plane, kept, one, wanted->flags);
    }
    one->first = known ? one->first : keeping_last(keeper->messages) + 1;
    one->flags = wanted->flags;
    return true;
}

static bool wants_none_of_its_own(const kept_t *kept) {
    for (uint32_t i = 0; i < kept->filter_count; i++) {
        if ((kept->filters[i].flags & MQTT_SUB_NO_LOCAL) != 0) {
            return true;
        }
    }
    return false;
}

/* The first one of them that says why it is not as it was asked for. */
static mqtt_reason_t first_refusal(bytes_t reasons) {
    for (uint32_t i = 0; i < reasons.size; i++) {
        if (mqtt_reason_text((mqtt_reason_t)reasons.at[i]).size != 0) {
            return (mqtt_reason_t)reasons.at[i];
        }
    }
    return MQTT_REASON_SUCCESS;
}

/* The session's new subscriptions are on disk before the answer is sent. */
static void answer_filters(plane_t *plane, peer_t *peer, mqtt_kind_t kind, uint16_t id, bytes_t reasons) {
    session_t *session = peer->session;
    kept_t *kept = session->kept;
    mqtt_desk_t *desk = session->shared;
    mqtt_properties_t scratch;
    const mqtt_properties_t *why = mqtt_explained(session, first_refusal(reasons), &scratch);
    if (kept == NULL) {
        mqtt_emitted(plane, peer,
                     mqtt_write_filters_answer(&session->writer, &peer->conn.out.data, kind, id, reasons, why));
        return;
    }
    kept->no_local = wants_none_of_its_own(kept);
    bool stored = mqtt_kept_filters(plane, kept, false) == STATUS_OK && mqtt_kept_store(plane, kept) == STATUS_OK;
    desk->packet.size = 0;
    if (!stored || mqtt_write_filters_answer(&session->writer, &desk->packet, kind, id, reasons, why) != STATUS_OK) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no room for a session's subscriptions"));
        return;
    }
    mqtt_say_durable(plane, peer, "p", bytes_of(desk->packet.at, (uint32_t)desk->packet.size));
}

/* The grant for a filter: its QoS, or the reason against it. out: the kind of grant, unless NULL. */
static uint8_t grant(plane_t *plane, peer_t *peer, session_t *session, const mqtt_filter_t *filter, uint32_t identifier,
                     wanted_t *out) {
    mqtt_desk_t *desk = session->shared;
    wanted_t wanted;
    mqtt_reason_t reason = read_filter(session, desk, filter, &wanted);
    uint8_t qos = filter->qos == 2 && (plane->mqtt.flags & MQTT_DOWNGRADE_QOS2) != 0 ? 1 : filter->qos;
    if (reason != MQTT_REASON_SUCCESS) {
        return (uint8_t)reason;
    }
    wanted.flags = flags_of(filter, qos, wanted.pattern);
    wanted.identifier = identifier;
    reason = put_subscription(plane, peer, &wanted, wanted.pattern, wanted.sid);
    if (reason == MQTT_REASON_SUCCESS && wanted.parent != 0) {
        bytes_t sid = parent_sid(desk, wanted.sid);
        reason = sid.size == 0
                     ? MQTT_REASON_FILTER
                     : put_subscription(plane, peer, &wanted, bytes_of(wanted.pattern.at, wanted.parent), sid);
        if (reason == MQTT_REASON_NOT_AUTHORIZED) {
            reason = MQTT_REASON_SUCCESS; /* it has what it may have */
        } else if (reason != MQTT_REASON_SUCCESS) {
            drop_filter(plane, peer, wanted.sid);
        }
    }
    if (wanted.group.size != 0 && reason == MQTT_REASON_SUCCESS) {
        mqtt_share_woken(plane, session, mqtt_account_of(plane, desk, peer->account), wanted.sid);
    }
    if (out != NULL) {
        *out = wanted;
    }
    return reason == MQTT_REASON_SUCCESS ? qos : (uint8_t)reason;
}

static uint8_t subscribe_one(plane_t *plane, peer_t *peer, const mqtt_filter_t *filter, uint32_t identifier) {
    session_t *session = peer->session;
    wanted_t wanted;
    uint8_t granted = grant(plane, peer, session, filter, identifier, &wanted);
    if (granted < MQTT_REASON_UNSPECIFIED && session->kept != NULL
        && !remember_filter(plane, session, filter, &wanted)) {
        drop_filters(plane, peer, session->shared, filter->text);
        return MQTT_REASON_QUOTA;
    }
    return granted;
}

/* Granted filters get the retained messages: always, when they are new, or never. */
static bool read_retained(plane_t *plane, peer_t *peer, bytes_t filters, const uint8_t *reasons,
                          const uint8_t *passed) {
    session_t *session = peer->session;
    mqtt_desk_t *desk = session->shared;
    mqtt_filter_t filter;
    wanted_t wanted;
    for (uint32_t i = 0; mqtt_next_filter(MQTT_SUBSCRIBE, &filters, &filter); i++) {
        if (reasons[i] >= MQTT_REASON_UNSPECIFIED || passed[i] != 0
            || read_filter(session, desk, &filter, &wanted) != MQTT_REASON_SUCCESS || wanted.group.size != 0) {
            continue;
        }
        bytes_t parent = bytes_of(wanted.pattern.at, wanted.parent);
        if (!mqtt_retain_read(plane, peer, wanted.sid, wanted.pattern)
            || (parent.size != 0 && !mqtt_retain_read(plane, peer, parent_sid(desk, wanted.sid), parent))) {
            return false;
        }
    }
    return true;
}

bool mqtt_subscribe(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet) {
    uint8_t reasons[MQTT_FILTERS_MAX], passed[MQTT_FILTERS_MAX];
    uint32_t count = 0, identifier = mqtt_number(&packet->properties, MQTT_SUBSCRIPTION_ID, 0);
    bytes_t filters = packet->filters;
    mqtt_filter_t filter;
    mqtt_keeps_t keeps = mqtt_retain_keeps(peer);
    if (keeps == KEEPS_ASKED) {
        mqtt_retain_wait(plane, peer);
        return false;
    }
    while (mqtt_next_filter(MQTT_SUBSCRIBE, &filters, &filter)) {
        if (count == MQTT_FILTERS_MAX) {
            mqtt_break(plane, peer, MQTT_REASON_QUOTA, "too many filters in one SUBSCRIBE");
            return true;
        }
        bool known = subscription_find_sid(peer->table, filter.text) != NULL;
        reasons[count] = subscribe_one(plane, peer, &filter, identifier);
        passed[count] = filter.retain_handling == 2 || (filter.retain_handling == 1 && known);
        if (reasons[count++] == MQTT_REASON_PROTOCOL) {
            mqtt_break(plane, peer, MQTT_REASON_PROTOCOL, "No Local on a shared subscription");
            return true;
        }
    }
    answer_filters(plane, peer, MQTT_SUBACK, packet->id, bytes_of(reasons, count));
    if (keeps == KEEPS_YES && !read_retained(plane, peer, packet->filters, reasons, passed)) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for retained messages"));
    }
    return true;
}

void mqtt_unsubscribe(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet) {
    session_t *session = peer->session;
    mqtt_desk_t *desk = session->shared;
    uint8_t reasons[MQTT_FILTERS_MAX];
    uint32_t count = 0;
    bytes_t filters = packet->filters;
    mqtt_filter_t filter;
    while (mqtt_next_filter(MQTT_UNSUBSCRIBE, &filters, &filter)) {
        if (count == MQTT_FILTERS_MAX) {
            mqtt_break(plane, peer, MQTT_REASON_QUOTA, "too many filters in one UNSUBSCRIBE");
            return;
        }
        bool there = subscription_find_sid(peer->table, filter.text) != NULL
                     || (session->kept != NULL && kept_find(session->kept, filter.text) != NULL);
        drop_filters(plane, peer, desk, filter.text);
        if (session->kept != NULL) {
            forget_filter(plane, session->kept, filter.text);
        }
        reasons[count++] = there ? MQTT_REASON_SUCCESS : MQTT_REASON_NO_SUBSCRIPTION;
    }
    answer_filters(plane, peer, MQTT_UNSUBACK, packet->id, bytes_of(reasons, count));
}

/* ---- a session whose client is back ------------------------------------------------------------------------------ */

/* As a SUBSCRIBE had it, but for what it says of retained messages. */
static uint8_t restore(plane_t *plane, peer_t *peer, const kept_filter_t *filter) {
    session_t *session = peer->session;
    const mqtt_filter_t said = {.text = filter->text,
                                .qos = (uint8_t)((filter->flags & MQTT_SUB_QOS) >> MQTT_SUB_QOS_SHIFT),
                                .no_local = (filter->flags & MQTT_SUB_NO_LOCAL) != 0,
                                .retain_as_published = (filter->flags & MQTT_SUB_AS_PUBLISHED) != 0};
    return grant(plane, peer, session, &said, filter->identifier, NULL);
}

/* What its client may not hear now stays in the session, since the client is told that the session is there: so it has
 * that when it may. */
void mqtt_resubscribe(plane_t *plane, peer_t *peer) {
    kept_t *kept = peer->session->kept;
    bool changed = false;
    for (uint32_t i = kept->filter_count; i-- != 0;) {
        kept_filter_t *one = &kept->filters[i];
        uint8_t reason = restore(plane, peer, one);
        if (reason >= MQTT_REASON_UNSPECIFIED && reason != MQTT_REASON_NOT_AUTHORIZED) {
            forget_filter(plane, kept, one->text);
            changed = true;
        } else if (reason < MQTT_REASON_UNSPECIFIED && one->shared && !one->joined
                   && (one->flags & MQTT_SUB_QOS) != 0) { /* of an older leafd */
            changed = mqtt_share_join(plane, kept, one) == STATUS_OK || changed;
        }
    }
    kept->no_local = wants_none_of_its_own(kept);
    if (changed && (mqtt_kept_filters(plane, kept, false) != STATUS_OK || mqtt_kept_store(plane, kept) != STATUS_OK)) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no room for a session's subscriptions"));
    }
}
