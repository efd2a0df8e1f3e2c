/* mqtt.h: what the files of the MQTT protocol share, but for what outlives a connection (mqtt_lasting.h).
 *
 *     mqtt.c            bytes to packets, which packet when; its value of protocol_t
 *     mqtt_login.c      CONNECT, CONNACK, who has that client identifier, the end and what is said of it, keep alive
 *     mqtt_publish.c    PUBLISH of a client, and what it is answered
 *     mqtt_subscribe.c  SUBSCRIBE, UNSUBSCRIBE                         mqtt_retain.c/h  retained messages
 *     mqtt_account.c    an account: where its streams answer       mqtt_carry.h    whose session another server has
 *     mqtt_names.c/h    who has a client identifier, here and at other servers
 *     mqtt_far.c        streams of ours that another server of the cluster has
 *     mqtt_stream.c     the stream of messages that sessions are to have, and its sessions when it is opened
 *     mqtt_kept.c       a session that outlives its connection: made, found, left, expired, ended
 *     mqtt_share.c/h    a shared subscription with such a session      mqtt_will.c    its last message
 *     mqtt_receive.c    what such a session gets out of the stream
 *     mqtt_deliver.c    a message to a client, and what that answers
 *
 * Topics as subjects: text/topic.h. Properties as headers: sessions/carry.h.
 */
#ifndef LEAFD_VERBS_MQTT_H
#define LEAFD_VERBS_MQTT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/map.h"
#include "base/table.h"
#include "mqtt/packet.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "sessions/carry.h"
#include "sessions/session.h"
#include "text/text.h"
#include "text/topic.h"
#include "wire/op.h"

#define MQTT_GREETING_MAX (16u * 1024u) /* of a CONNECT, its will and its password in it */
#define MQTT_HEAD_BYTES (64u * 1024u)   /* of a packet beside its payload */
#define MQTT_TOPIC_BYTES SUBJECT_BYTES_MAX
#define MQTT_FILTERS_MAX 1024u           /* of one SUBSCRIBE or UNSUBSCRIBE; Home Assistant sends 500 */
#define MQTT_GROUPS_MAX 64u              /* shared subscriptions that one message may wait in */
#define MQTT_MARKS 64u                   /* of messages that routes have brought for sessions here lately */
#define MQTT_EIGHTHS 6u                  /* of the memory of subscriptions: what else is remembered of clients .. */
#define MQTT_SMALL 1024u                 /* .. but for one that has less, which is in what a connection may take */
#define MQTT_ASKED_BYTES (1024u * 1024u) /* of what one message is made of, beside its payload */

/* Flags of a subscription. */
#define MQTT_SUB_QOS (SUBSCRIPTION_OWN | SUBSCRIPTION_OWN << 1)
#define MQTT_SUB_QOS_SHIFT 8u
#define MQTT_SUB_NO_LOCAL (SUBSCRIPTION_OWN << 2)
#define MQTT_SUB_AS_PUBLISHED (SUBSCRIPTION_OWN << 3)
#define MQTT_SUB_WILD (SUBSCRIPTION_OWN << 4)    /* begins with a wildcard: nothing that begins with '$' */
#define MQTT_SUB_GROUPED (SUBSCRIPTION_OWN << 5) /* of a session: `first` is the number of its share */
#define MQTT_SUB_READS (SUBSCRIPTION_OWN << 6)   /* it is being sent what is retained (session_t, reads) */

_Static_assert(1u << MQTT_SUB_QOS_SHIFT == SUBSCRIPTION_OWN, "the quality of service is in the first bits of its own");

/* The parts of a PUBLISH beside the message. */
typedef struct mqtt_outgoing {
    mqtt_publish_t publish;
    mqtt_properties_t properties;
    uint64_t seq; /* of the stream; 0: it is in none */
} mqtt_outgoing_t;

/* The message that a client is publishing, for those clients who get it as it came. */
typedef struct mqtt_current {
    const account_t *account; /* NULL: none is */
    const mqtt_message_t *message;
    bytes_t topic;   /* without an alias */
    bytes_t subject; /* of the topic; a receiver whose message has another one is told that one's topic */
    bool own;        /* its client subscribes to it, and wants nothing that is its own */
} mqtt_current_t;

/* The parts of a message from elsewhere, made once for all its receivers. */
typedef struct mqtt_made {
    uint64_t publication; /* of which; 0 = none */
    const uint8_t *header;
    mqtt_properties_t properties;
    carry_t carried;
    bool failed;
} mqtt_made_t;

/* Whether an account keeps retained messages. */
typedef enum mqtt_keeps { KEEPS_UNKNOWN = 0, KEEPS_ASKED, KEEPS_YES, KEEPS_NO } mqtt_keeps_t;

/* An account with clients of MQTT. */
typedef struct mqtt_account {
    sink_t sink; /* where its streams answer */
    sink_t far;  /* likewise those at another server of the cluster */
    mqtt_keeps_t keeps;
    int64_t keeps_ns;       /* when control was asked last whether it does */
    mqtt_keeps_t elsewhere; /* whether another server has sessions .. */
    int64_t elsewhere_ns;   /* .. as control said, which was asked then .. */
    bool elsewhere_wanted;  /* .. when there was a server that wants their messages, or one of its clients */
    mqtt_keeps_t sessions;  /* the same of sessions: KEEPS_ASKED also while they are read */
    bool unreadable;        /* some are there that could not be read */
    stream_t *messages;     /* that they wait for; NULL: there is none, or another server leads it */
    stream_t *retained;     /* likewise */
    void *reading;          /* who reads the sessions */
    int64_t nobody_ns;      /* when it was in vain that a client waited for their server; 0: it has answered since */
    bool lost;              /* this server led a stream of the account, and some may wait for its answer */
    uint32_t last_number;   /* of a session */
    table_t numbers;        /* of sessions > kept_t */
    table_t shares;         /* likewise of shared subscriptions (mqtt_share.h) */
    session_t *waiting;     /* what they sent needs to know that */
} mqtt_account_t;

/* The state that all clients of MQTT share. */
typedef struct mqtt_desk {
    plane_t *plane;
    map_t *here;      /* sessions with a connection, by account and client */
    table_t accounts; /* number > mqtt_account_t */
    map_t *kept;      /* sessions that outlive their connection, likewise */
    map_t *shares;    /* by account and filter */
    map_t *carried;   /* peers whose socket another server has (mqtt_carried.c) */
    void *carries;    /* clients that wait for the server that has their session (mqtt_carry.c) */
    buffer_t frame;   /* scratch: of what goes to that */
    void *clearing;   /* clients that wait until a session is no more (mqtt_names.c) .. */
    bool telling;     /* .. others are told of all clients, .. */
    uint64_t tell_place;
    uint64_t server;   /* .. as this one's; nothing but another number than theirs */
    uint64_t stamp;    /* the largest that was made or heard */
    due_list_t due;    /* of these, whose client is away: when they expire */
    due_list_t wills;  /* messages that wait, since their client is away */
    uint64_t released; /* the largest number of a RECORD_SESSION_OUT, or of an identifier, which older ones have */
    uint64_t key;      /* of the subjects where streams answer, which nobody guesses */
    uint64_t open;     /* likewise where control does: a listener to all requests sees it */
    uint64_t far;      /* likewise where another server's streams do: that server sees it */
    uint32_t mark;     /* of the last message that another server was to store */
    session_t *ready;  /* with room for more of what is retained, in the order in which they get it */
    session_t *ready_last;
    bool untold; /* somebody waits to know which streams other servers have */
    uint32_t marks_at;
    uint32_t marks[MQTT_MARKS]; /* the latest of such messages that were stored here */
    mqtt_current_t current;
    mqtt_made_t made;
    uint8_t qos;                     /* of the delivery that comes next */
    bool as_it_came;                 /* likewise: it is the current message */
    bool retained;                   /* likewise: it is one that was retained */
    bytes_t groups[MQTT_GROUPS_MAX]; /* that a publication goes to out of the stream, and not at once */
    buffer_t header;                 /* scratch: of what is published */
    buffer_t properties;             /* scratch: of mqtt_made_t */
    buffer_t packet;                 /* scratch: one that waits */
    op_t op;
    uint8_t subject[MQTT_TOPIC_BYTES];
    uint8_t reply[MQTT_TOPIC_BYTES];
    uint8_t topic[MQTT_TOPIC_BYTES];
    uint8_t response[MQTT_TOPIC_BYTES];
} mqtt_desk_t;

mqtt_desk_t *mqtt_desk_of(plane_t *plane); /* NULL: no memory */

/* ---- mqtt.c ------------------------------------------------------------------------------------------------------ */

/* Ends a connection that broke the protocol: its client is told so, if its version can be. */
void mqtt_break(plane_t *plane, peer_t *peer, mqtt_reason_t reason, const char *text);
/* A packet was put into its queue, or was not. */
void mqtt_emitted(plane_t *plane, peer_t *peer, status_t status);
/* The reason in words, in *properties, for a client that wants them; NULL: none are said. The writer leaves out what
 * the client's maximum packet size has no room for. */
const mqtt_properties_t *mqtt_explained(const session_t *session, mqtt_reason_t reason, mqtt_properties_t *properties);
/* PUBACK, PUBREC, PUBREL, PUBCOMP into its queue, with the reason in words. */
void mqtt_acknowledge(plane_t *plane, peer_t *peer, mqtt_kind_t kind, uint16_t id, mqtt_reason_t reason);
/* Stops reading a client, whose input waits; and reads it again. */
void mqtt_hold(plane_t *plane, peer_t *peer);
void mqtt_go_on(plane_t *plane, peer_t *peer);
uint32_t mqtt_max_packet(const plane_t *plane, const peer_t *peer);
/* Is there memory for so much more of sessions, wills and aliases? Subscriptions have the rest in any case. */
bool mqtt_room(const plane_t *plane, uint64_t more);

/* ---- mqtt_login.c ------------------------------------------------------------------------------------------------ */

void mqtt_connect(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet, bytes_t whole);
/* Refuses a client whose first packet is not a CONNECT, or one that cannot be. */
void mqtt_refuse_stranger(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet, const mqtt_fault_t *fault);
status_t mqtt_admitted(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict);
void mqtt_judged(plane_t *plane, peer_t *peer, bytes_t body, bytes_t strings); /* its rights are these */
void mqtt_enter(plane_t *plane, peer_t *peer);   /* it is known now whether there is a session of its */
void mqtt_entered(plane_t *plane, peer_t *peer); /* it has been told, and gets what is its */
void mqtt_disconnect(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet);
void mqtt_farewell(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text);
void mqtt_beat(plane_t *plane, peer_t *peer);
void mqtt_left(plane_t *plane, peer_t *peer);

/* ---- mqtt_account.c ---------------------------------------------------------------------------------------------- */

/* NULL: no memory. */
mqtt_account_t *mqtt_account_of(plane_t *plane, mqtt_desk_t *desk, account_t *account);
/* The subject on which an answer for that peer comes to mqtt_told; what: its last word. */
void mqtt_answer_subject(const mqtt_desk_t *desk, const peer_t *peer, const char *what, uint64_t number, text_t *text);
/* A packet that may go when what is in the store's open batch is on disk. what: "k", it is CONNACK; "p", any other. */
void mqtt_say_durable(plane_t *plane, peer_t *peer, const char *what, bytes_t packet);
/* An acknowledgement as bytes, in desk->packet. false: no memory. */
bool mqtt_draft(const session_t *session, mqtt_kind_t kind, uint16_t id, bytes_t *packet);
/* Wakes the clients that wait to know what is kept. */
void mqtt_wake(plane_t *plane, mqtt_account_t *keeper);
/* A request to JetStream: to control, which others hear too, or of that peer inside, which nobody hears. false: nobody
 * is there. */
bool mqtt_ask_control(plane_t *plane, account_t *account, const char *api, bytes_t body, const char *what);
bool mqtt_ask_inside(plane_t *plane, peer_t *peer, const char *api, bytes_t body, const char *what);

/* ---- mqtt_publish.c ---------------------------------------------------------------------------------------------- */

/* false: it has to wait, and was not acted on. */
bool mqtt_publish(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet);
void mqtt_release(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet); /* PUBREL */
/* false: it may not, which is told as of any message. */
bool mqtt_will_permitted(plane_t *plane, peer_t *peer, const mqtt_message_t *will);
void mqtt_publish_will(plane_t *plane, account_t *account, const mqtt_message_t *will);

/* ---- mqtt_subscribe.c -------------------------------------------------------------------------------------------- */

bool mqtt_subscribe(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet); /* false: it has to wait */
void mqtt_unsubscribe(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet);
/* Subscribes again for a session whose client is back. */
void mqtt_resubscribe(plane_t *plane, peer_t *peer);

/* ---- mqtt_deliver.c ---------------------------------------------------------------------------------------------- */

bool mqtt_takes(plane_t *plane, subscription_t *one, const publication_t *publication, const message_t *shown);
/* One that was retained, to a subscription of the peer. */
void mqtt_deliver_retained(plane_t *plane, subscription_t *one, const message_t *message, int64_t age_ns);
status_t mqtt_emit(peer_t *peer, outq_t *out, const subscription_t *one, const message_t *message);
/* Makes the parts of a message from its headers, in desk->made, with the time that is left after that age. */
void mqtt_make(plane_t *plane, mqtt_desk_t *desk, const message_t *message, int64_t age_ns);
/* Composes a message that does not come directly from its publisher. false: MQTT has no word for it. */
bool mqtt_compose(mqtt_desk_t *desk, const session_t *session, const message_t *message, mqtt_outgoing_t *out);
/* Into its queue, or to what waits for an identifier. STATUS_INVALID: it takes no packet of that size. */
LEAF_MUST_USE status_t mqtt_put(session_t *session, outq_t *to, mqtt_outgoing_t *out, bytes_t payload);
void mqtt_send_waiting(plane_t *plane, peer_t *peer); /* as many as its client takes */
void mqtt_say_answers(plane_t *plane, peer_t *peer);  /* those that wait for nothing any more */
/* A message of QoS 2 of its session that it may have and may not hear any more: its identifier is released. */
void mqtt_let_go(plane_t *plane, peer_t *peer, uint64_t seq);
/* PUBACK, PUBREC, PUBCOMP */
void mqtt_answered(plane_t *plane, peer_t *peer, const mqtt_packet_t *packet);

#endif
