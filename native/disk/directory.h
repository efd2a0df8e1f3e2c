/* directory.h: directories, so that names in them are on the disk. Knows nothing of what they are for. */
#ifndef LEAFD_DISK_DIRECTORY_H
#define LEAFD_DISK_DIRECTORY_H

/* Makes it, and its parents where they are missing, as the reference server does. 0, or errno. */
int directory_make(const char *path);
/* Names of new files are durable only when their directory is, and its own name in its parent. Where it cannot be
 * synced (some file systems) there is nothing to do. */
void directory_sync(const char *path);
/* Takes the lock file in it, which has the process's number for people. -1: *holder is that of the process that has it,
 * or empty, and errno says why not. */
int directory_lock(const char *path, char holder[32]);

#endif
