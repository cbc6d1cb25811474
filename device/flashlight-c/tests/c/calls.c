/* Every call, used as it is meant to be. */

#include "flashlight.h"

#define CHIP flashlight_chip
#define STRERROR flashlight_strerror
#include "../../../nand-c/tests/c/chip.h"

static flashlight fs;
static uint8_t ram[FLASHLIGHT_RAM(PAGE, PAGES, BLOCKS)];
static int locked, locks;

static int lock(void *context)
{
    CHECK(context == &locked && !locked);
    locks++;
    return locked++;
}

static void unlock(void *context)
{
    CHECK(context == &locked && locked);
    locked--;
}

static int64_t now(void *context)
{
    CHECK(context == &locked && locked);
    return 1700000000;
}

static const flashlight_options options = {
    .context = &locked,
    .lock = lock,
    .unlock = unlock,
    .now = now,
};

static void files(void)
{
    flashlight_file file = {0}, other = {0};
    uint8_t data[5000], found[6000];
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i / 7);
    int both = FLASHLIGHT_O_RDWR | FLASHLIGHT_O_CREAT;
    GIVES(flashlight_open(&fs, &file, "log", both), 0);
    GIVES(flashlight_write(&fs, &file, data, sizeof data), sizeof data);
    GIVES(flashlight_tell(&fs, &file), sizeof data);
    GIVES(flashlight_size(&fs, &file), sizeof data);
    GIVES(flashlight_seek(&fs, &file, 100, FLASHLIGHT_SEEK_SET), 100);
    GIVES(flashlight_read(&fs, &file, found, 50), 50);
    CHECK(memcmp(found, data + 100, 50) == 0);
    GIVES(flashlight_seek(&fs, &file, -50, FLASHLIGHT_SEEK_CUR), 100);
    GIVES(flashlight_seek(&fs, &file, -10, FLASHLIGHT_SEEK_END), 4990);
    GIVES(flashlight_read(&fs, &file, found, sizeof found), 10);
    GIVES(flashlight_read(&fs, &file, found, sizeof found), 0);
    GIVES(flashlight_truncate(&fs, &file, 4000), 0);
    GIVES(flashlight_size(&fs, &file), 4000);
    /* A second handle appends; the first sees it. */
    GIVES(flashlight_open(&fs, &other, "/log", FLASHLIGHT_O_APPEND), 0);
    GIVES(flashlight_write(&fs, &other, "more", 4), 4);
    GIVES(flashlight_fsync(&fs, &other), 0);
    GIVES(flashlight_seek(&fs, &file, 4000, FLASHLIGHT_SEEK_SET), 4000);
    GIVES(flashlight_read(&fs, &file, found, sizeof found), 4);
    CHECK(memcmp(found, "more", 4) == 0);
    /* Renamed and removed while they are open. */
    GIVES(flashlight_rename(&fs, "log", "old"), 0);
    GIVES(flashlight_write(&fs, &other, "!", 1), 1);
    GIVES(flashlight_remove(&fs, "old"), 0);
    GIVES(flashlight_write(&fs, &other, "?", 1), 1);
    GIVES(flashlight_seek(&fs, &file, 4000, FLASHLIGHT_SEEK_SET), 4000);
    GIVES(flashlight_read(&fs, &file, found, sizeof found), 6);
    CHECK(memcmp(found, "more!?", 6) == 0);
    GIVES(flashlight_close(&fs, &file), 0);
    GIVES(flashlight_close(&fs, &other), 0);
    GIVES(flashlight_open(&fs, &file, "old", FLASHLIGHT_O_RDONLY), FLASHLIGHT_E_NOENT);
}

static void names(void)
{
    flashlight_file file = {0};
    flashlight_dir dir;
    flashlight_entry entry;
    flashlight_info info;
    GIVES(flashlight_mkdir(&fs, "d"), 0);
    GIVES(flashlight_mkdir(&fs, "d"), FLASHLIGHT_E_EXIST);
    for (int i = 0; i < 20; i++) {
        char path[32] = {0};
        snprintf(path, sizeof path, "d/f%02d", i);
        GIVES(flashlight_open(&fs, &file, path, FLASHLIGHT_O_WRONLY | FLASHLIGHT_O_CREAT), 0);
        GIVES(flashlight_write(&fs, &file, path, (size_t)i), i);
        GIVES(flashlight_close(&fs, &file), 0);
    }
    GIVES(flashlight_stat(&fs, "d/f07", &info), 0);
    CHECK(info.size == 7 && info.kind == FLASHLIGHT_TYPE_FILE && info.mtime == 1700000000);
    GIVES(flashlight_stat(&fs, "d", &info), 0);
    CHECK(info.size == 20 && info.kind == FLASHLIGHT_TYPE_DIR);
    unsigned seen = 0;
    GIVES(flashlight_opendir(&fs, &dir, "d/"), 0);
    for (int more; (more = flashlight_readdir(&fs, &dir, &entry, &info)) != 0;) {
        GIVES(more, 1);
        int i = atoi(entry.name + 1);
        CHECK(strlen(entry.name) == 3 && entry.kind == FLASHLIGHT_TYPE_FILE);
        CHECK(info.size == (uint64_t)i && info.inode == entry.inode && !(seen >> i & 1));
        seen |= 1u << i;
    }
    CHECK(seen == (1u << 20) - 1);
    GIVES(flashlight_readdir(&fs, &dir, &entry, NULL), 0);
    GIVES(flashlight_closedir(&fs, &dir), 0);
    GIVES(flashlight_remove(&fs, "d"), FLASHLIGHT_E_NOTEMPTY);
    GIVES(flashlight_opendir(&fs, &dir, "d/f01"), FLASHLIGHT_E_NOTDIR);
    GIVES(flashlight_open(&fs, &file, "d", FLASHLIGHT_O_RDONLY), FLASHLIGHT_E_ISDIR);
    int new = FLASHLIGHT_O_WRONLY | FLASHLIGHT_O_CREAT | FLASHLIGHT_O_EXCL;
    GIVES(flashlight_open(&fs, &file, "d/f01", new), FLASHLIGHT_E_EXIST);
    GIVES(flashlight_rename(&fs, "d", "d/e"), FLASHLIGHT_E_INVAL);
    GIVES(flashlight_rename(&fs, "d/f01", "d/f02"), 0);
    GIVES(flashlight_stat(&fs, "d/f02", &info), 0);
    CHECK(info.size == 1);
}

static void health(struct chip *chip)
{
    flashlight_space space;
    flashlight_report report;
    flashlight_scrubbed scrubbed;
    GIVES(flashlight_sync(&fs), 0);
    GIVES(flashlight_statvfs(&fs, &space), 0);
    CHECK(space.page_size == PAGE && space.name_max == 255);
    CHECK(space.pages_free < space.pages && space.pages < BLOCKS * PAGES);
    chip->lies = 'r';
    chip->given = 3;
    int steps = 0;
    do {
        GIVES(flashlight_scrub(&fs, 16, &scrubbed), 0);
        CHECK(!scrubbed.unreadable && steps++ < 1000);
        chip->lies = steps > 2 ? 0 : 'r';
    } while (!scrubbed.done);
    GIVES(flashlight_health(&fs, &report), 0);
    CHECK(report.blocks == BLOCKS && report.bad_blocks == 1 && !report.is_worn);
    CHECK(report.stopped == 0 && report.driver_error == 0 && !report.lost_change);
    CHECK(report.corrected_reads > 0 && report.corrected_most == 3);
    CHECK(report.refreshed_blocks > 0 && report.moved_pages > 0 && report.obsolete_pages > 0);
    CHECK(report.erases > 0 && report.written_pages > 0 && report.unreadable_reads == 0);
    int before = flashlight_pages_before_cleaning(&fs);
    CHECK(before >= 0 && (uint32_t)before == report.pages_before_cleaning);
    for (steps = 0; flashlight_gc(&fs, 16) == 1;)
        CHECK(steps++ < 1000);
    CHECK(flashlight_gc(&fs, 16) == 0);
}

/* Bytes that the data of pages takes over the bus, of a mount and of an unmount. */
static unsigned long mount_moves(struct chip *chip, const flashlight_chip *functions)
{
    unsigned long before = chip->moved;
    GIVES(flashlight_mount(&fs, functions, ram, sizeof ram, NULL), 0);
    unsigned long moved = chip->moved - before;
    GIVES(flashlight_unmount(&fs), 0);
    return moved;
}

/* A page of a file whose pages are all different. */
static void fill(uint8_t *page, unsigned index, unsigned round)
{
    for (unsigned i = 0; i < PAGE; i++)
        page[i] = (uint8_t)(index * 7 + round * 31 + i);
}

static int chip_never(void *context, uint32_t from, uint32_t to)
{
    CHECK(context && from != UINT32_MAX && to != UINT32_MAX);
    return 0;
}

/* A file of which every ninth page is written over, so that cleaning moves the others. */
static void overwrite(struct chip *chip, const flashlight_chip *functions, int says)
{
    enum { FILE_PAGES = 1500, ROUNDS = 40 };
    static uint8_t rounds[FILE_PAGES], page[PAGE], is[PAGE];
    flashlight_file file = {0};
    flashlight_report report;
    int once = says != 0;
    chip->given = says;
    memset(rounds, 0, sizeof rounds);
    GIVES(flashlight_mount(&fs, functions, ram, sizeof ram, NULL), 0);
    GIVES(flashlight_open(&fs, &file, "moved", FLASHLIGHT_O_RDWR | FLASHLIGHT_O_CREAT), 0);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = round % 9; i < FILE_PAGES; i += round ? 9 : 1) {
            fill(page, i, round);
            GIVES(flashlight_seek(&fs, &file, (int64_t)i * PAGE, FLASHLIGHT_SEEK_SET), i * PAGE);
            unsigned copies = chip->copies;
            chip->lies = once && round >= 20 ? 'c' : 0;
            GIVES(flashlight_write(&fs, &file, page, PAGE), PAGE);
            if (chip->copies != copies)
                once = once && !chip->lies;
            rounds[i] = (uint8_t)round;
        }
    chip->lies = 0;
    GIVES(flashlight_health(&fs, &report), 0);
    CHECK((report.corrected_most == 3) == (says == 3));
    CHECK((report.failed_programs > 0) == (says == FLASHLIGHT_CHIP_COPY_FAILED));
    GIVES(flashlight_fsync(&fs, &file), 0);
    GIVES(flashlight_close(&fs, &file), 0);
    GIVES(flashlight_unmount(&fs), 0);
    GIVES(flashlight_mount(&fs, functions, ram, sizeof ram, NULL), 0);
    GIVES(flashlight_open(&fs, &file, "moved", FLASHLIGHT_O_RDONLY), 0);
    for (unsigned i = 0; i < FILE_PAGES; i++) {
        fill(page, i, rounds[i]);
        GIVES(flashlight_read(&fs, &file, is, PAGE), PAGE);
        CHECK(memcmp(page, is, PAGE) == 0);
    }
    GIVES(flashlight_close(&fs, &file), 0);
    GIVES(flashlight_remove(&fs, "moved"), 0);
    GIVES(flashlight_unmount(&fs), 0);
}

/* A chip that reads on in a page, and one that copies pages: less goes over the bus, and the flash
 * operations and what is read are the same. */
static void bus(void)
{
    struct chip *chip = chip_new();
    flashlight_chip plain = chip_of(chip), more = plain, copying = plain;
    more.read_more = chip_read_more;
    copying.copy = chip_copy;
    copying.copies = chip_copies;
    GIVES(flashlight_format(&fs, &plain, ram, sizeof ram, 78), 0);
    unsigned long whole = mount_moves(chip, &plain), used = mount_moves(chip, &more);
    printf("a clean mount moves %lu bytes, %lu with read_more\n", whole, used);
    CHECK(10 * used < whole);
    overwrite(chip, &plain, 0);
    CHECK(chip->copies == 0);
    unsigned long through = chip->moved;
    overwrite(chip, &copying, 0);
    unsigned long inside = chip->moved - through;
    printf("overwrites move %lu bytes, %lu with copies inside the chip\n", through, inside);
    CHECK(chip->copies > 500 && inside < through);
    /* Reads of copies that were corrected are counted as others are. */
    overwrite(chip, &copying, 3);
    /* A program of a copy that fails has another block taken. */
    overwrite(chip, &copying, FLASHLIGHT_CHIP_COPY_FAILED);
    /* A chip that says of no two pages that it may is asked for no copy. */
    unsigned copies = chip->copies;
    copying.copies = chip_never;
    overwrite(chip, &copying, 0);
    CHECK(chip->copies == copies);
    free(chip);
}

/* What was synced is there after the power has gone; what is said of each code is a text. */
int main(void)
{
    static flashlight again;
    bus();
    struct chip *chip = chip_new();
    flashlight_chip functions = chip_of(chip);
    flashlight_file file = {0};
    flashlight_info info;
    size_t needed = 0;
    GIVES(flashlight_ram_needed(&functions, &needed), 0);
    CHECK(needed == sizeof ram);
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, &options), FLASHLIGHT_E_NOTFORMATTED);
    GIVES(flashlight_format(&fs, &functions, ram, sizeof ram, 77), 0);
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, &options), 0);
    files();
    names();
    health(chip);
    CHECK(!locked && locks > 100 && chip->yields >= chip->programs + chip->erases + chip->reads);
    GIVES(flashlight_open(&fs, &file, "last", FLASHLIGHT_O_RDWR | FLASHLIGHT_O_CREAT), 0);
    GIVES(flashlight_write(&fs, &file, "x", 1), 1);
    unsigned programs = chip->programs;
    GIVES(flashlight_fsync(&fs, &file), 0);
    CHECK(chip->programs == programs + 1);
    /* The power goes here. The RAM is another, at an odd address. */
    uint8_t *odd = malloc(sizeof ram + 1);
    CHECK(odd);
    flashlight_options reading = {.read_only = 1};
    GIVES(flashlight_mount(&again, &functions, odd + 1, sizeof ram, &reading), 0);
    GIVES(flashlight_stat(&again, "last", &info), 0);
    CHECK(info.size == 1);
    GIVES(flashlight_remove(&again, "last"), FLASHLIGHT_E_ROFS);
    GIVES(flashlight_unmount(&again), 0);
    GIVES(flashlight_mount(&again, &functions, odd + 1, sizeof ram, NULL), 0);
    GIVES(flashlight_remove(&again, "last"), 0);
    GIVES(flashlight_unmount(&again), 0);
    for (int code = 1; code > -1100; code--)
        CHECK(strlen(flashlight_strerror(code)) > 2);
    free(odd);
    free(chip);
    return 0;
}
