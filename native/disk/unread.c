/* unread.c: see unread.h.
 *
 * The system calls are made directly: what sanitizers put in the place of mmap() may not be called in a handler.
 */
#include "disk/unread.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BUSY 1u
#define WHOLE 2u

static unread_watch_t watches[UNREAD_WATCHES];
static _Atomic uintptr_t page_size; /* set by whichever watch is the first one, read by all threads */
static atomic_bool installing;
static atomic_bool passed_on; /* the signal went to the earlier handler once: that one may call this one again */
static struct sigaction before;
static _Atomic(void (*)(int)) otherwise;

static bool lay(uintptr_t at, uintptr_t size, int flags, int fd, uintptr_t offset) {
    /* NOLINTBEGIN(performance-no-int-to-ptr) */
#ifdef SYS_mmap2
    long done = syscall(SYS_mmap2, (void *)at, size, PROT_READ, MAP_FIXED | flags, fd, offset / 4096);
#else
    long done = syscall(SYS_mmap, (void *)at, size, PROT_READ, MAP_FIXED | flags, fd, offset);
#endif
    /* NOLINTEND(performance-no-int-to-ptr) */
    return (uintptr_t)done == at;
}

static bool lay_zeros(uintptr_t at, uintptr_t size) {
    return lay(at, size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static unread_watch_t *watch_of(uintptr_t at) {
    for (uint32_t i = 0; i < UNREAD_WATCHES; i++) {
        uintptr_t begin = atomic_load(&watches[i].at);
        if (begin > 1 && at >= begin && at - begin < atomic_load(&watches[i].size)) {
            return &watches[i];
        }
    }
    return NULL;
}

/* Lays zeros over a page that cannot be read. The page is noted first: zeros without a note would be believed. It is
 * BUSY until they are there, so that nobody takes them away at that moment. */
static bool cover(unread_watch_t *watch, uintptr_t page) {
    atomic_fetch_add(&watch->count, 1);
    atomic_store(&watch->last, page);
    for (uint32_t i = 0; i < UNREAD_PLACES; i++) {
        uintptr_t none = 0;
        if (atomic_compare_exchange_strong(&watch->places[i], &none, page | BUSY)) {
            atomic_store(&watch->covered, 1);
            bool done = lay_zeros(page, page_size);
            atomic_store(&watch->places[i], page);
            return done;
        }
    }
    atomic_store(&watch->whole, BUSY);
    atomic_store(&watch->covered, 1);
    bool done = lay_zeros(atomic_load(&watch->at), atomic_load(&watch->size));
    atomic_store(&watch->whole, WHOLE);
    return done;
}

static void on_sigbus(int number, siginfo_t *info, void *context) {
    uintptr_t at = (uintptr_t)info->si_addr;
    (void)context;
    unread_watch_t *watch = info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR ? watch_of(at) : NULL;
    if (watch != NULL && cover(watch, at & ~(page_size - 1))) {
        return;
    }
    void (*ending)(int) = atomic_load(&otherwise);
    if (ending != NULL) {
        ending(number);
    }
    struct sigaction next = {.sa_handler = SIG_DFL};
    if (!atomic_exchange(&passed_on, true)) {
        next = before;
    }
    (void)sigaction(number, &next, NULL); /* the read is tried again, and the earlier handler gets its signal */
    if (info->si_code <= 0) {
        (void)raise(number); /* a program sent it, and no read failed */
    }
}

/* Takes the signal, and takes it again where somebody else has since. */
static void install(void) {
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction now;
    atomic_store(&page_size, (uintptr_t)sysconf(_SC_PAGESIZE));
    if (atomic_exchange(&installing, true)) {
        return;
    }
    if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction != on_sigbus) {
        before = now;
        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(SIGBUS, &action, NULL);
    }
    atomic_store(&installing, false);
}

unread_watch_t *unread_watch(const void *at, uint64_t size, int fd, bool ahead) {
    install();
    for (uint32_t i = 0; i < UNREAD_WATCHES; i++) {
        unread_watch_t *watch = &watches[i];
        uintptr_t none = 0;
        if (atomic_compare_exchange_strong(&watch->at, &none, 1)) {
            watch->fd = fd;
            watch->ahead = ahead;
            atomic_store(&watch->count, 0);
            atomic_store(&watch->covered, 0);
            atomic_store(&watch->whole, 0);
            for (uint32_t place = 0; place < UNREAD_PLACES; place++) {
                atomic_store(&watch->places[place], 0);
            }
            atomic_store(&watch->size, ((uintptr_t)size + page_size - 1) & ~(page_size - 1));
            atomic_store(&watch->at, (uintptr_t)at);
            return watch;
        }
    }
    return NULL;
}

void unread_forget(unread_watch_t *watch) {
    if (watch != NULL) {
        atomic_store(&watch->at, 0);
    }
}

static bool lay_file(const unread_watch_t *watch, uintptr_t at, uintptr_t size) {
    bool done = lay(at, size, MAP_SHARED | MAP_NORESERVE, watch->fd, at - atomic_load(&watch->at));
    if (done && !watch->ahead) {
        (void)madvise((void *)at, size, MADV_RANDOM); /* NOLINT(performance-no-int-to-ptr) */
    }
    return done;
}

static bool covers_any(const unread_watch_t *watch) {
    bool any = atomic_load(&watch->whole) != 0;
    for (uint32_t i = 0; i < UNREAD_PLACES; i++) {
        any |= atomic_load(&watch->places[i]) != 0;
    }
    return any;
}

/* Pages that cannot be laid again stay covered, and noted. */
void unread_again(unread_watch_t *watch) {
    if (watch == NULL || LEAF_LIKELY(atomic_load_explicit(&watch->covered, memory_order_relaxed) == 0)) {
        return;
    }
    if (atomic_load(&watch->whole) == WHOLE && lay_file(watch, atomic_load(&watch->at), atomic_load(&watch->size))) {
        atomic_store(&watch->whole, 0);
    }
    for (uint32_t i = 0; i < UNREAD_PLACES; i++) {
        uintptr_t page = atomic_load(&watch->places[i]);
        if (page != 0 && (page & BUSY) == 0 && atomic_load(&watch->whole) == 0 && lay_file(watch, page, page_size)) {
            atomic_store(&watch->places[i], 0);
        }
    }
    /* The mark is cleared before the look: a page that is noted in between sets it again, or is seen here. */
    atomic_store(&watch->covered, 0);
    if (covers_any(watch)) {
        atomic_store(&watch->covered, 1);
    }
}

bool unread_covers_some(const unread_watch_t *watch, const void *at, uint64_t size) {
    uintptr_t begin = (uintptr_t)at;
    bool covered = atomic_load(&watch->whole) != 0;
    for (uint32_t i = 0; !covered && i < UNREAD_PLACES; i++) {
        uintptr_t page = atomic_load(&watch->places[i]) & ~(uintptr_t)BUSY;
        covered = page != 0 && page < begin + size && begin < page + page_size;
    }
    return covered;
}

static void *frozen_copy(int fd, uint64_t offset, uint64_t size) {
    void *copy = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy != MAP_FAILED && pread(fd, copy, (size_t)size, (off_t)offset) != (ssize_t)size) {
        (void)munmap(copy, (size_t)size);
        copy = MAP_FAILED;
    }
    return copy;
}

bool unread_freeze(unread_watch_t *watch, uint64_t offset, uint64_t size) {
    if (watch == NULL || offset % page_size != 0 || size % page_size != 0) {
        return false;
    }
    void *copy = frozen_copy(watch->fd, offset, size);
    if (copy == MAP_FAILED) {
        return false;
    }
    void *to = (void *)(atomic_load(&watch->at) + (uintptr_t)offset); /* NOLINT(performance-no-int-to-ptr) */
    bool laid = mremap(copy, (size_t)size, (size_t)size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
    if (!laid) {
        (void)munmap(copy, (size_t)size);
    }
    return laid;
}

bool unread_thaw(unread_watch_t *watch, uint64_t offset, uint64_t size) {
    return lay_file(watch, atomic_load(&watch->at) + (uintptr_t)offset, (uintptr_t)size);
}

void unread_otherwise(void (*ending)(int number)) {
    install();
    atomic_store(&otherwise, ending);
}
