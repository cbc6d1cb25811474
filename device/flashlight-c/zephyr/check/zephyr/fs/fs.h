/* Of Zephyr, what flashlight_fs.c uses: see kernel.h. */

#ifndef CHECK_FS_H
#define CHECK_FS_H

#include <sys/types.h>
#include <zephyr/kernel.h>

#define MAX_FILE_NAME 255
#define FS_TYPE_EXTERNAL_BASE 3
#define FS_MOUNT_FLAG_NO_FORMAT BIT(0)
#define FS_MOUNT_FLAG_READ_ONLY BIT(1)
#define FS_O_READ 0x01
#define FS_O_WRITE 0x02
#define FS_O_CREATE 0x10
#define FS_O_APPEND 0x20
#define FS_O_TRUNC 0x40
#define FS_SEEK_SET 0
#define FS_SEEK_CUR 1
#define FS_SEEK_END 2

typedef uint8_t fs_mode_t;
struct fs_file_system_t;

struct fs_mount_t {
    void *fs_data;
    size_t mountp_len;
    uint8_t flags;
};
struct fs_file_t {
    void *filep;
    const struct fs_mount_t *mp;
};
struct fs_dir_t {
    void *dirp;
    const struct fs_mount_t *mp;
};
enum fs_dir_entry_type { FS_DIR_ENTRY_FILE, FS_DIR_ENTRY_DIR };
struct fs_dirent {
    enum fs_dir_entry_type type;
    char name[MAX_FILE_NAME + 1];
    size_t size;
};
struct fs_statvfs {
    unsigned long f_bsize, f_frsize, f_blocks, f_bfree;
};

int fs_register(int type, const struct fs_file_system_t *fs);

#endif
