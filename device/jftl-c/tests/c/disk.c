/* A disk from C: what each call does, and what it says to what cannot be. */

#include "jftl.h"

#define CHIP jftl_chip
#define STRERROR jftl_strerror
#include "../../../nand-c/tests/c/chip.h"

static jftl disk;
static uint8_t ram[40000], sector[2 * PAGE], found[2 * PAGE];
static struct chip *chip;
static jftl_chip functions;

/* Calls everything on a disk; all give the same code. */
static void all_give(jftl *at, int code)
{
    GIVES(jftl_unmount(at), code);
    GIVES(jftl_capacity(at), code);
    GIVES(jftl_read(at, 0, found, 1), code);
    GIVES(jftl_write(at, 0, sector, 1), code);
    GIVES(jftl_trim(at, 0, 1), code);
    GIVES(jftl_sync(at), code);
    GIVES(jftl_gc(at), code);
}

static void what_cannot_be(size_t needed)
{
    size_t n;
    all_give(NULL, JFTL_E_FAULT);
    all_give((jftl *)(void *)((char *)&disk + 1), JFTL_E_FAULT);
    all_give(&disk, JFTL_E_NOTMOUNTED);
    GIVES(jftl_ram_needed(NULL, 4, &n), JFTL_E_FAULT);
    GIVES(jftl_ram_needed(&functions, 4, NULL), JFTL_E_FAULT);
    GIVES(jftl_mount(NULL, &functions, ram, needed, NULL), JFTL_E_FAULT);
    GIVES(jftl_mount(&disk, NULL, ram, needed, NULL), JFTL_E_FAULT);
    GIVES(jftl_mount(&disk, &functions, NULL, needed, NULL), JFTL_E_FAULT);
    GIVES(jftl_mount(&disk, &functions, ram, needed - 1, NULL), JFTL_E_NOMEM);
    GIVES(jftl_mount(&disk, &functions, ram, SIZE_MAX / 2 + 1, NULL), JFTL_E_INVAL);
    GIVES(jftl_mount(&disk, &functions, ram, needed, NULL), JFTL_E_NOTFORMATTED);
    jftl_options one_sided = {.unlock = chip_yield};
    GIVES(jftl_mount(&disk, &functions, ram, needed, &one_sided), JFTL_E_INVAL);
    for (int missing = 0; missing < 5; missing++) {
        jftl_chip c = functions;
        if (missing == 0)
            c.read = NULL;
        if (missing == 1)
            c.program = NULL;
        if (missing == 2)
            c.erase = NULL;
        if (missing == 3)
            c.is_bad = NULL;
        if (missing == 4)
            c.mark_bad = NULL;
        GIVES(jftl_format(&disk, &c, ram, sizeof ram, 1), JFTL_E_CALLBACK);
    }
    static const uint32_t shapes[][4] = {
        {2000, 24, 64, 64}, {2048, 600, 64, 64}, {2048, 24, 3, 64}, {2048, 24, 64, 39},
    };
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        jftl_chip c = functions;
        c.page_size = shapes[i][0];
        c.spare_size = shapes[i][1];
        c.pages_per_block = shapes[i][2];
        c.blocks = shapes[i][3];
        GIVES(jftl_format(&disk, &c, ram, sizeof ram, 1), JFTL_E_GEOMETRY);
        GIVES(jftl_ram_needed(&c, 4, &n), JFTL_E_GEOMETRY);
    }
}

static int inside_calls;

static void inside(void)
{
    chip->inside = NULL;
    inside_calls++;
    all_give(&disk, JFTL_E_BUSY);
    GIVES(jftl_mount(&disk, &functions, ram, sizeof ram, NULL), JFTL_E_BUSY);
    chip->inside = inside;
}

/* Sectors, with spare bytes for tags and without, as drivers for Dhara have none. */
static void sectors(uint32_t spare_size)
{
    size_t needed = 0;
    functions.spare_size = spare_size;
    GIVES(jftl_ram_needed(&functions, 4, &needed), 0);
    CHECK(needed < sizeof ram);
    GIVES(jftl_format(&disk, &functions, ram, needed, 3), 0);
    chip->inside = inside;
    GIVES(jftl_mount(&disk, &functions, ram, needed, NULL), 0);
    GIVES(jftl_mount(&disk, &functions, ram, needed, NULL), JFTL_E_BUSY);
    int count = jftl_capacity(&disk);
    CHECK(count > BLOCKS * PAGES / 3 && count < BLOCKS * PAGES);
    for (int round = 0; round < 3; round++)
        for (int n = 0; n < count; n++) {
            memset(sector, n % 250 + 1 + round, sizeof sector);
            GIVES(jftl_write(&disk, (uint32_t)n, sector, 1), 0);
        }
    GIVES(jftl_write(&disk, (uint32_t)count - 2, sector, 2), 0);
    GIVES(jftl_trim(&disk, 5, 2), 0);
    GIVES(jftl_sync(&disk), 0);
    CHECK(inside_calls > 100);
    chip->inside = NULL;
    GIVES(jftl_read(&disk, (uint32_t)count, found, 1), JFTL_E_RANGE);
    GIVES(jftl_write(&disk, (uint32_t)count - 1, sector, 2), JFTL_E_RANGE);
    GIVES(jftl_trim(&disk, UINT32_MAX, 2), JFTL_E_RANGE);
    GIVES(jftl_read(&disk, 0, NULL, 1), JFTL_E_FAULT);
    GIVES(jftl_write(&disk, 0, NULL, 1), JFTL_E_FAULT);
    GIVES(jftl_read(&disk, 0, NULL, 0), 0);
    while (jftl_gc(&disk) == 1)
        ;
    /* The power goes: what was synced is there, after a mount and after an unmount. */
    for (int mounts = 0; mounts < 2; mounts++) {
        memset(&disk, 0, sizeof disk);
        GIVES(jftl_mount(&disk, &functions, ram, needed, NULL), 0);
        for (int n = 0; n < count - 2; n++) {
            GIVES(jftl_read(&disk, (uint32_t)n, found, 1), 0);
            uint8_t expected = (uint8_t)(n == 5 || n == 6 ? 0 : n % 250 + 3);
            CHECK(found[0] == expected && found[PAGE - 1] == expected);
        }
        GIVES(jftl_unmount(&disk), 0);
    }
    all_give(&disk, JFTL_E_NOTMOUNTED);
}

/* What goes over the bus when sectors are written here and there. Each says its number and how
 * often it was written. */
static unsigned long scattered(void)
{
    static uint32_t written[BLOCKS * PAGES], number = 4;
    memset(written, 0, sizeof written);
    GIVES(jftl_format(&disk, &functions, ram, sizeof ram, ++number), 0);
    GIVES(jftl_mount(&disk, &functions, ram, sizeof ram, NULL), 0);
    uint32_t count = (uint32_t)jftl_capacity(&disk), seed = 1;
    unsigned long before = chip->moved;
    for (uint32_t i = 0; i < 4 * count; i++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t n = i < count ? i : (seed >> 8) % count;
        uint32_t says[2] = {n, ++written[n]};
        memset(sector, 0x5a, PAGE);
        memcpy(sector, says, sizeof says);
        GIVES(jftl_write(&disk, n, sector, 1), 0);
    }
    GIVES(jftl_sync(&disk), 0);
    unsigned long moved = chip->moved - before;
    GIVES(jftl_unmount(&disk), 0);
    GIVES(jftl_mount(&disk, &functions, ram, sizeof ram, NULL), 0);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t says[2];
        GIVES(jftl_read(&disk, n, found, 1), 0);
        memcpy(says, found, sizeof says);
        CHECK(says[0] == n && says[1] == written[n] && found[PAGE - 1] == 0x5a);
    }
    return moved;
}

/* A chip that copies pages by itself, with spare bytes for tags and without. */
static void copies(uint32_t spare_size)
{
    functions.spare_size = spare_size;
    unsigned long moved = scattered();
    GIVES(jftl_unmount(&disk), 0);
    CHECK(chip->copies == 0);
    functions.copy = chip_copy;
    functions.copies = chip_copies;
    CHECK(scattered() < moved * 3 / 4 && chip->copies > 3000);
    /* A driver that fails in a copy. */
    int code = 0;
    chip->lies = 'c';
    chip->given = -1;
    for (uint32_t n = 0; code == 0; n++)
        code = jftl_write(&disk, n * 7919 % (uint32_t)jftl_capacity(&disk), sector, 1);
    chip->lies = 0;
    GIVES(code, JFTL_E_IO);
    GIVES(jftl_unmount(&disk), JFTL_E_ROFS);
    functions.copy = NULL;
    functions.copies = NULL;
    chip->copies = 0;
}

/* Callbacks that give what they may not, or fail. */
static void callbacks_that_lie(void)
{
    static const struct {
        int given, code;
    } lies[] = {{2, JFTL_E_CALLBACK}, {-1, JFTL_E_IO}, {INT32_MIN, JFTL_E_IO}};
    for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++) {
        GIVES(jftl_mount(&disk, &functions, ram, sizeof ram, NULL), 0);
        memset(sector, 0x77, sizeof sector);
        chip->lies = 'p';
        chip->given = lies[i].given;
        GIVES(jftl_write(&disk, 9, sector, 1), lies[i].code);
        chip->lies = 0;
        GIVES(jftl_write(&disk, 9, sector, 1), JFTL_E_ROFS);
        GIVES(jftl_unmount(&disk), JFTL_E_ROFS);
        all_give(&disk, JFTL_E_NOTMOUNTED);
    }
    /* No page can be read: a program that is told that there is no disk makes one. */
    chip->lies = 'r';
    chip->given = JFTL_CHIP_UNCORRECTABLE;
    GIVES(jftl_mount(&disk, &functions, ram, sizeof ram, NULL), JFTL_E_CORRUPT);
    chip->lies = 0;
}

int main(void)
{
    size_t needed = 0, whole = 0;
    chip = chip_new();
    functions = chip_of(chip);
    GIVES(jftl_ram_needed(&functions, 4, &needed), 0);
    GIVES(jftl_ram_needed(&functions, 0, &whole), 0);
    CHECK(needed < whole && whole < sizeof ram);
    what_cannot_be(needed);
    sectors(SPARE);
    callbacks_that_lie();
    sectors(0);
    copies(SPARE);
    copies(0);
    for (int code = 1; code > -1100; code--)
        CHECK(strlen(jftl_strerror(code)) > 2);
    free(chip);
    return 0;
}
