/* FlashLight as a file system of Zephyr. */

#ifndef FLASHLIGHT_ZEPHYR_H
#define FLASHLIGHT_ZEPHYR_H

#include <zephyr/fs/fs.h>

#include "flashlight.h"

#define FLASHLIGHT_FS_TYPE FS_TYPE_EXTERNAL_BASE

/* What the `fs_data` of a mount points to. */
struct flashlight_zephyr {
    flashlight volume;
    flashlight_chip chip;
    flashlight_options options;
    void *ram;
    size_t ram_len;
};

/* Makes the type known; once, before the first mount. */
int flashlight_zephyr_register(void);

#endif
