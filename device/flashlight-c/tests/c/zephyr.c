/* The calls for Zephyr, in a Zephyr that is played here: handles come from a slab of its memory. */

#define CONFIG_FILE_SYSTEM_MKFS 1
#define CONFIG_FLASHLIGHT_OPEN_FILES 4
#define CONFIG_FLASHLIGHT_OPEN_DIRS 2
#include "../../zephyr/flashlight_fs.c"

#define CHIP flashlight_chip
#define STRERROR flashlight_strerror
#include "../../../nand-c/tests/c/chip.h"

static const struct fs_file_system_t *fs;
static uint8_t ram[FLASHLIGHT_RAM(PAGE, PAGES, BLOCKS)];
static struct flashlight_zephyr volume = {.ram = ram, .ram_len = sizeof ram};
static struct fs_mount_t mount = {.fs_data = &volume, .mountp_len = 2};
static unsigned handles;
static int refused;

int k_mem_slab_alloc(struct k_mem_slab *slab, void **mem, k_timeout_t timeout)
{
    CHECK((slab == &files || slab == &dirs) && timeout.ticks == 0);
    (void)files_memory;
    (void)dirs_memory;
    *mem = malloc((size_t)slab->unused);
    CHECK(*mem);
    handles++;
    return 0;
}

/* Zephyr links what it is given into its list, whatever that is. */
void k_mem_slab_free(struct k_mem_slab *slab, void *mem)
{
    CHECK(slab && mem && handles);
    handles--;
    free(mem);
}

uint32_t k_cycle_get_32(void)
{
    return 77;
}

int fs_register(int type, const struct fs_file_system_t *calls_of)
{
    fs = calls_of;
    return type == FLASHLIGHT_FS_TYPE ? 0 : -EINVAL;
}

static int lock(void *context)
{
    (void)context;
    return refused;
}

static void unlock(void *context)
{
    (void)context;
}

/* Zephyr holds a file for open until a close has given 0, and its program closes again. The handle
 * has gone back to the slab by then: null must not follow it. */
static void a_close_that_fails_is_tried_again(struct chip *chip)
{
    struct fs_file_t file = {.mp = &mount}, other = {.mp = &mount};
    struct fs_dir_t dir = {.mp = &mount};
    GIVES(fs->open(&file, "/f/gone", FS_O_READ | FS_O_WRITE | FS_O_CREATE), 0);
    GIVES(fs->open(&other, "/f/kept", FS_O_READ | FS_O_WRITE | FS_O_CREATE), 0);
    GIVES(fs->write(&file, "abc", 3), 3);
    GIVES(fs->unlink(&mount, "/f/gone"), 0);
    GIVES(fs->opendir(&dir, "/f"), 0);
    CHECK(handles == 3);
    refused = 1;
    GIVES(fs->close(&file), -EBUSY);
    GIVES(fs->closedir(&dir), -EBUSY);
    GIVES(fs->closedir(&dir), 0);
    refused = 0;
    GIVES(fs->write(&other, "abc", 3), 3);
    chip->lies = 'p';
    chip->given = -1;
    GIVES(fs->sync(&other), -EIO);
    chip->lies = 0;
    GIVES(fs->close(&file), -EROFS);
    CHECK(handles == 1);
    GIVES(fs->close(&file), 0);
    GIVES(fs->close(&other), -EROFS);
    GIVES(fs->close(&other), 0);
    CHECK(handles == 0 && fs->unmount(&mount) < 0);
}

/* Zephyr says of a close that it flushes, so that no sync is needed before it. The power goes behind
 * it. */
static void what_was_closed_is_durable(void)
{
    static flashlight again;
    static uint8_t others[sizeof ram];
    struct fs_file_t file = {.mp = &mount};
    flashlight_info info;
    GIVES(fs->open(&file, "/f/closed", FS_O_WRITE | FS_O_CREATE), 0);
    GIVES(fs->write(&file, "abc", 3), 3);
    GIVES(fs->close(&file), 0);
    GIVES(flashlight_mount(&again, &volume.chip, others, sizeof others, NULL), 0);
    GIVES(flashlight_stat(&again, "closed", &info), 0);
    CHECK(info.size == 3);
    GIVES(flashlight_unmount(&again), 0);
}

int main(void)
{
    struct chip *chip = chip_new();
    volume.chip = chip_of(chip);
    volume.options = (flashlight_options){.lock = lock, .unlock = unlock};
    GIVES(flashlight_zephyr_register(), 0);
    GIVES(fs->mount(&mount), 0);
    a_close_that_fails_is_tried_again(chip);
    GIVES(fs->mount(&mount), 0);
    what_was_closed_is_durable();
    free(chip);
    return 0;
}
