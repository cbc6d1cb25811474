/* A chip of pages of 2 KiB with 24 spare bytes, 64 in a block, kept in a file: data and spare bytes
 * of a page one after the other. */

#ifndef CHIP_IN_FILE_H
#define CHIP_IN_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flashlight.h"

enum { CHIP_PAGE = 2048, CHIP_SPARE = 24, CHIP_PAGES = 64 };

static int chip_at(FILE *file, uint32_t page, uint32_t offset)
{
    return fseek(file, (long)page * (CHIP_PAGE + CHIP_SPARE) + (long)offset, SEEK_SET);
}

static int chip_read(void *context, uint32_t page, uint32_t offset, uint8_t *data, size_t len,
                     uint8_t *spare, size_t spare_len)
{
    FILE *file = context;
    if ((len && (chip_at(file, page, offset) || fread(data, 1, len, file) != len)) ||
        (spare_len && (chip_at(file, page, CHIP_PAGE) || fread(spare, 1, spare_len, file) != spare_len)))
        return -1;
    return 0;
}

static int chip_program(void *context, uint32_t page, const uint8_t *data, size_t len,
                        const uint8_t *spare, size_t spare_len)
{
    FILE *file = context;
    if ((len && (chip_at(file, page, 0) || fwrite(data, 1, len, file) != len)) ||
        (spare_len &&
         (chip_at(file, page, CHIP_PAGE) || fwrite(spare, 1, spare_len, file) != spare_len)))
        return -1;
    return fflush(file) ? -1 : 0;
}

static int chip_erase(void *context, uint32_t block)
{
    FILE *file = context;
    uint8_t erased[CHIP_PAGE + CHIP_SPARE];
    memset(erased, 0xff, sizeof erased);
    if (chip_at(file, block * CHIP_PAGES, 0))
        return -1;
    for (int i = 0; i < CHIP_PAGES; i++)
        if (fwrite(erased, 1, sizeof erased, file) != sizeof erased)
            return -1;
    return fflush(file) ? -1 : 0;
}

/* No block of a file is bad. */
static int chip_is_bad(void *context, uint32_t block)
{
    (void)context;
    (void)block;
    return 0;
}

/* Opens the file, or makes one that is an erased chip. */
static flashlight_chip chip_in_file(const char *path, uint32_t blocks)
{
    FILE *file = fopen(path, "r+b");
    int is_new = !file;
    if (is_new)
        file = fopen(path, "w+b");
    flashlight_chip chip = {
        .context = file,
        .page_size = CHIP_PAGE,
        .spare_size = CHIP_SPARE,
        .pages_per_block = CHIP_PAGES,
        .blocks = blocks,
        .correctable_bits = 1,
        .read = chip_read,
        .program = chip_program,
        .erase = chip_erase,
        .is_bad = chip_is_bad,
        .mark_bad = chip_is_bad,
    };
    for (uint32_t block = 0; is_new && file && block < blocks; block++)
        if (chip_erase(file, block))
            file = NULL;
    if (!file) {
        perror(path);
        exit(1);
    }
    return chip;
}

#endif
