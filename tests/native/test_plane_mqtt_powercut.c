/* test_plane_mqtt_powercut.c: what sessions of MQTT have of their messages after a power cut at any sync.
 *
 * What each client has done (mqtt_world.h) is noted among the writes (powercut.h), so that an image of the disk has the
 * clients of that moment beside it. The image is opened, the clients come back with what they knew, say again what was
 * not answered, and go on to the end.
 *
 *     LEAFD_POWER_CUTS=5000    so many images, in place of one for each sync and a few beside it
 */
#include "mqtt_world.h"
#include "powercut.h"

_Static_assert(MQTT_WORLD_MARKS >= NOTE_MARK, "marks are none of the disk's notes");

static powercut_chance_t chance = {.state = 7};

static void note(uint32_t kind, uint64_t value) {
    powercut_note(kind, value);
}

/* ---- before and after the cut ------------------------------------------------------------------------------------ */

static void record(void) {
    world = fresh_world;
    (void)rig_new_directory();
    begin_anew(0);
    come();
    subscribe_all();
    noted = note;
    powercut_record(rig_directory);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        does(MARK_SENT, PUBLISHER, i, 0);
        publishes(i, false);
        if (i % 3 == 0) { /* some are under way with others */
            goes_on();
        }
    }
    goes_on();
    powercut_stop();
    noted = NULL;
    rig_close_and_remove(plane);
}

static void check_cut(uint64_t cut, powercut_plan_t plan) {
    world = fresh_world;
    for (uint64_t i = 0; i < cut; i++) {
        if (powercut.notes[i].kind >= MQTT_WORLD_MARKS) apply(powercut.notes[i].kind, powercut.notes[i].offset);
    }
    powercut_image(cut, plan, &chance, rig_new_directory());
    begin_anew(1);
    come_back();
    check_end("cut behind", cut);
    rig_close_and_remove(plane);
}

static bool is_sync(uint64_t note) {
    return powercut.notes[note].kind == NOTE_SYNCED || powercut.notes[note].kind == NOTE_DSYNCED;
}

static void cuts_at_each_sync(void) {
    const char *wanted = getenv("LEAFD_POWER_CUTS");
    uint64_t most = wanted == NULL ? UINT64_MAX : strtoull(wanted, NULL, 10), done = 0, syncs = 0;
    record();
    for (uint64_t i = 0; i < powercut.count && done < most; i++) {
        if (!is_sync(i)) continue;
        syncs++;
        check_cut(i, PLAN_NONE);     /* all but this sync */
        check_cut(i + 1, PLAN_NONE); /* just behind it */
        check_cut(i, (powercut_plan_t)(powercut_next(&chance) % PLAN_COUNT));
        done += 3;
    }
    CHECK(done >= most || syncs >= MESSAGES); /* or the test proves little */
    for (; wanted != NULL && done < most; done++) {
        check_cut(powercut_next(&chance) % (powercut.count + 1),
                  (powercut_plan_t)(powercut_next(&chance) % PLAN_COUNT));
    }
    printf("        %llu power cuts at %llu syncs\n", (unsigned long long)done, (unsigned long long)syncs);
    powercut_forget();
    free(powercut.notes);
}

int main(void) {
    RUN("after a power cut at any sync QoS 2 is taken once and QoS 1 at least once, by sessions and what they share",
        cuts_at_each_sync);
    return TEST_RESULT();
}
