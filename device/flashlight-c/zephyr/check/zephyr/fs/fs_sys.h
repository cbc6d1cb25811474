/* Of Zephyr, what flashlight_fs.c uses: see kernel.h. */

#ifndef CHECK_FS_SYS_H
#define CHECK_FS_SYS_H

#include <zephyr/fs/fs.h>

struct fs_file_system_t {
    int (*open)(struct fs_file_t *, const char *, fs_mode_t);
    ssize_t (*read)(struct fs_file_t *, void *, size_t);
    ssize_t (*write)(struct fs_file_t *, const void *, size_t);
    int (*lseek)(struct fs_file_t *, off_t, int);
    off_t (*tell)(struct fs_file_t *);
    int (*truncate)(struct fs_file_t *, off_t);
    int (*sync)(struct fs_file_t *);
    int (*close)(struct fs_file_t *);
    int (*opendir)(struct fs_dir_t *, const char *);
    int (*readdir)(struct fs_dir_t *, struct fs_dirent *);
    int (*closedir)(struct fs_dir_t *);
    int (*mount)(struct fs_mount_t *);
    int (*unmount)(struct fs_mount_t *);
    int (*unlink)(struct fs_mount_t *, const char *);
    int (*rename)(struct fs_mount_t *, const char *, const char *);
    int (*mkdir)(struct fs_mount_t *, const char *);
    int (*stat)(struct fs_mount_t *, const char *, struct fs_dirent *);
    int (*statvfs)(struct fs_mount_t *, const char *, struct fs_statvfs *);
#ifdef CONFIG_FILE_SYSTEM_MKFS
    int (*mkfs)(uintptr_t, void *, int);
#endif
};

#endif
