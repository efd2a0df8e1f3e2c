/* clockwork.c: see clockwork.h. Pure but for clockwork_boot: moments and records in, ages out. */
#include "disk/clockwork.h"
#include "base/hex.h"

#include <fcntl.h>
#include <unistd.h>

void clockwork_open(clockwork_t *clock, const uint8_t boot[BOOT_ID_SIZE]) {
    *clock = (clockwork_t){.age = NS_PER_SECOND}; /* 0 would look like "never" */
    memcpy(clock->boot, boot, BOOT_ID_SIZE);
}

void clockwork_load(clockwork_t *clock, const uint8_t record[CLOCK_RECORD_SIZE]) {
    clock->age = (int64_t)load_be64(record);
    clock->mono = (int64_t)load_be64(record + 8);
    clock->wall = (int64_t)load_be64(record + 16);
    memcpy(clock->kept_boot, record + 24, BOOT_ID_SIZE);
    clock->kept = true;
}

void clockwork_save(clockwork_t *clock, uint8_t record[CLOCK_RECORD_SIZE]) {
    store_be64(record, (uint64_t)clock->age);
    store_be64(record + 8, (uint64_t)clock->mono);
    store_be64(record + 16, (uint64_t)clock->wall);
    memcpy(record + 24, clock->boot, BOOT_ID_SIZE);
    clock->kept_mono = clock->mono;
    clock->kept = true;
}

/* The time that passed between the last record and now, as far as it can be known. */
static int64_t clock_slept(const clockwork_t *clock, moment_t now) {
    if (memcmp(clock->boot, clock->kept_boot, BOOT_ID_SIZE) == 0 && now.mono_ns >= clock->mono) {
        return now.mono_ns - clock->mono;
    }
    if (clock->wall >= CLOCK_SANE && now.wall_ns >= clock->wall) {
        return now.wall_ns - clock->wall;
    }
    return 0;
}

int64_t clockwork_advance(clockwork_t *clock, moment_t now) {
    int64_t step = 0;
    if (clock->running) {
        int64_t passed = now.mono_ns > clock->mono ? now.mono_ns - clock->mono : 0;
        int64_t shown = now.wall_ns - clock->wall;
        clock->age += passed;
        step = shown - passed > CLOCK_STEP || passed - shown > CLOCK_STEP ? shown - passed : 0;
    } else {
        clock->age += clock->kept ? clock_slept(clock, now) : 0;
        clock->running = true;
        clock->kept_mono = now.mono_ns - CLOCK_KEEP_NS;
    }
    clock->mono = now.mono_ns;
    clock->wall = now.wall_ns;
    return step;
}

void clockwork_boot(uint8_t out[BOOT_ID_SIZE]) {
    uint8_t text[64];
    memset(out, 0, BOOT_ID_SIZE);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof text) : 0;
    if (fd >= 0) {
        close(fd);
    }
    uint32_t digits = 0;
    for (ssize_t i = 0; i < size && digits < 2 * BOOT_ID_SIZE; i++) {
        int digit = hex_digit(text[i]);
        if (digit >= 0) {
            out[digits / 2] = (uint8_t)(out[digits / 2] << 4 | digit);
            digits++;
        }
    }
}
