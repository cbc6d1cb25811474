/* Of ESP-IDF's C library: see esp_err.h. */

#ifndef CHECK_DIRENT_H
#define CHECK_DIRENT_H

#define DT_REG 1
#define DT_DIR 2

typedef struct {
    unsigned short dd_vfs_idx;
    unsigned short dd_rsv;
} DIR;

struct dirent {
    int d_ino;
    unsigned char d_type;
    char d_name[256];
};

#endif
