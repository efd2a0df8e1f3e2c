/* meta.c: the commands about the group of all servers with JetStream (meta/meta.h). */
#include "meta/meta.h"

#include "base/buffer.h"
#include "command/command.h"
#include "exchange/strings.h"

#define ANSWER_MAX (UINT64_C(64) << 20)

void command_meta_open(plane_t *plane, const plane_command_t *command, account_t *account) {
    uint64_t disk = 0;
    uint32_t there = 0;
    status_t status = meta_open(plane, account, command->arg, &disk, &there);
    command_answer(plane, command, status, disk, there, BYTES_NONE);
}

void command_meta_found(plane_t *plane, const plane_command_t *command) {
    const uint32_t size = sizeof(meta_disk_t);
    meta_disk_t disks[META_MEMBERS_MAX];
    if (command->arg2 != 0) {
        command_done(plane, command, meta_anew(plane, command->arg, command->body_size > 0, command->arg2));
        return;
    }
    if (command->body_size > sizeof disks) {
        command_done(plane, command, STATUS_INVALID);
        return;
    }
    if (command->body_size > 0) {
        memcpy(disks, command->body, command->body_size);
    }
    command_done(plane, command, meta_found(plane, command->arg, disks, command->body_size / size));
}

void command_meta_send(plane_t *plane, const plane_command_t *command) {
    bool sent = meta_send(plane, command->arg, bytes_of(command->body, command->body_size));
    command_answer(plane, command, STATUS_OK, sent, 0, BYTES_NONE);
}

static void answer_with(plane_t *plane, const plane_command_t *command, status_t (*write)(plane_t *, buffer_t *)) {
    buffer_t answer;
    buffer_init(&answer, ANSWER_MAX);
    status_t status = write(plane, &answer);
    bytes_t payload = status == STATUS_OK ? bytes_of(answer.at, (uint32_t)answer.size) : BYTES_NONE;
    command_answer(plane, command, status, 0, 0, payload);
    buffer_free(&answer);
}

void command_meta_look(plane_t *plane, const plane_command_t *command) {
    answer_with(plane, command, meta_shown);
}

void command_meta_rows(plane_t *plane, const plane_command_t *command) {
    answer_with(plane, command, meta_rows);
}

void command_meta_put(plane_t *plane, const plane_command_t *command) {
    strings_t strings = strings_of(command);
    bytes_t key = strings_next(&strings);
    bytes_t value = strings_next(&strings);
    status_t status = meta_put(plane, command, key, value);
    if (status != STATUS_OK) {
        command_done(plane, command, status);
    }
}

void command_meta_transfer(plane_t *plane, const plane_command_t *command) {
    command_done(plane, command, meta_transfer(plane, command->arg));
}

void command_meta_alter(plane_t *plane, const plane_command_t *command) {
    meta_disk_t disk;
    memcpy(&disk, command->body, sizeof disk);
    command_done(plane, command, meta_alter(plane, (uint32_t)command->arg, &disk));
}

void command_meta_ways(plane_t *plane, const plane_command_t *command) {
    uint32_t count = command->body_size / (uint32_t)sizeof(meta_way_t);
    command_done(plane, command, meta_ways(plane, command->body, count));
}
