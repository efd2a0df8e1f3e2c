/* js_pending.c: the places where JetStream joins, until its files land: no such target is ever made, its commands are refused. */
#include "plane/js.h"

stream_t *stream_find(plane_t *plane, uint64_t id) {
    return table_find(&plane->streams, id);
}
void stream_free(plane_t *plane, stream_t *stream) {
    (void)plane;
    (void)stream;
}
void stream_purges_step(plane_t *plane) {
    (void)plane;
}
bool command_stream(plane_t *plane, const plane_command_t *command) {
    (void)plane;
    (void)command;
    return false;
}
