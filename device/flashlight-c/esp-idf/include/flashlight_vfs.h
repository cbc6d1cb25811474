/* FlashLight below a path of ESP-IDF's virtual file system. */

#ifndef FLASHLIGHT_VFS_H
#define FLASHLIGHT_VFS_H

#include <dirent.h>
#include <esp_err.h>

#include "flashlight.h"

/* Files that can be open, and directories that can be listed, at a time. */
#ifndef FLASHLIGHT_VFS_FILES
#define FLASHLIGHT_VFS_FILES 5
#endif
#ifndef FLASHLIGHT_VFS_DIRS
#define FLASHLIGHT_VFS_DIRS 2
#endif

struct flashlight_vfs_dir {
    DIR dir; /* the first field: what ESP-IDF hands around */
    int is_open;
    flashlight_dir listing;
    struct dirent entry;
};

/* A volume and what is open on it. All zeros before it is registered. */
struct flashlight_vfs {
    flashlight volume;
    flashlight_file files[FLASHLIGHT_VFS_FILES];
    int is_open[FLASHLIGHT_VFS_FILES];
    struct flashlight_vfs_dir dirs[FLASHLIGHT_VFS_DIRS];
};

/* Registers a volume that is mounted, below `base_path`. Its `flashlight_options` must have a lock,
 * if several tasks use it. */
esp_err_t flashlight_vfs_register(const char *base_path, struct flashlight_vfs *vfs);

#endif
