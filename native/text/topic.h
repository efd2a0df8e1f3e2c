/* topic.h: MQTT's topic names and filters as NATS subjects, and back; UTF-8 as MQTT wants it. Knows no packets.
 *
 * The mapping is nats-server's, so that a fleet can move from one to the other:
 *
 *     topic      a/b    /a     a/     a//b     a.b     a/+/#     #
 *     subject    a.b    /.a    a./    a./.b    a//b    a.*.>     >
 *
 * A level that is empty becomes a token "/", and a dot inside of a level becomes "//". Blanks and DEL have no subject.
 * '*' and '>' are not escaped, as at nats-server: as a whole level of a filter they are the wildcards of NATS, so
 * permissions have to be judged by the subject.
 */
#ifndef LEAFD_TEXT_TOPIC_H
#define LEAFD_TEXT_TOPIC_H

#include <stdbool.h>

#include "base/bytes.h"

#define TOPIC_MAX 65535u /* bytes, by MQTT's strings */
/* A byte becomes two at most: '.', and '/' beside an empty level. One more ends a topic that ends with a separator. */
#define TOPIC_SUBJECT_ROOM(size) (2u * (uint32_t)(size) + 1u)

typedef enum topic_verdict {
    TOPIC_OK = 0,
    TOPIC_EMPTY,       /* MQTT 4.7.3: at least one character */
    TOPIC_WILDCARD,    /* a wildcard in a name, or one of a filter that is no whole level, or '#' not last */
    TOPIC_UNSUPPORTED, /* a blank, tab, CR, LF, form feed or DEL: no subject can carry it */
    TOPIC_LONG,        /* more than `room` bytes of subject */
} topic_verdict_t;

/* Valid UTF-8 without NUL (MQTT 1.5.4): no surrogates, no overlong forms, nothing above U+10FFFF. */
bool topic_text(bytes_t text);

/* The subject of a topic that is published to; *size bytes are written to `to`. */
topic_verdict_t topic_to_subject(bytes_t topic, uint8_t *to, uint32_t room, uint32_t *size);
/* The pattern of a filter that is subscribed to: '+' is '*', '#' is '>'. */
topic_verdict_t topic_filter_to_pattern(bytes_t filter, uint8_t *to, uint32_t room, uint32_t *size);
/* "a/#" is meant to match "a" as well, and "a.>" does not: how much of the pattern is the second one, 0 = none is
 * needed. */
uint32_t topic_parent(bytes_t pattern);
/* A filter that begins with a wildcard does not match topics that begin with '$' (MQTT 4.7.2). */
bool topic_hidden(bytes_t subject, bytes_t pattern);

/* The topic of a subject, at most subject.size bytes, written to `to`; returns its size. */
uint32_t topic_of_subject(bytes_t subject, uint8_t *to);

/* "$share/NAME/FILTER" (MQTT 4.8.2). false: it has another form. *valid: NAME and FILTER are what they have to be. */
bool topic_shared(bytes_t text, bytes_t *name, bytes_t *filter, bool *valid);

#endif
