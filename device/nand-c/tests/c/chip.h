/* A chip in RAM that keeps to the promises of docs/porting.md, and checks those of its caller. It
 * can be told to break its own. For tests of a C library, which say what its names are: CHIP, the
 * type of its chip, and STRERROR. */

#ifndef CHIP_H
#define CHIP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                \
    do {                                                                           \
        if (!(what)) {                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);             \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

/* A call gives a code. */
#define GIVES(call, code)                                                          \
    do {                                                                           \
        long long given_ = (long long)(call);                                      \
        if (given_ != (code)) {                                                    \
            fprintf(stderr, "%s:%d: %s gave %lld (%s), not %s\n", __FILE__,        \
                    __LINE__, #call, given_, STRERROR((int)given_),     \
                    #code);                                                        \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

enum { PAGE = 2048, SPARE = 24, PAGES = 64, BLOCKS = 64 };

struct chip {
    uint8_t data[BLOCKS * PAGES][PAGE];
    uint8_t spare[BLOCKS * PAGES][SPARE];
    uint8_t next[BLOCKS];
    uint8_t bad[BLOCKS];
    /* What a function gives instead of what is so, if `lies` names it. */
    char lies;
    int given;
    /* Called in each function, if it is not null. */
    void (*inside)(void);
    unsigned reads, programs, erases, yields, copies;
    /* Bytes of pages, that would go over a bus. */
    unsigned long moved;
    /* 1 and the page that the last function has read; 0: it has done something else. */
    uint32_t held;
};

static int chip_says(struct chip *chip, char function, int truth)
{
    if (chip->inside)
        chip->inside();
    return chip->lies == function ? chip->given : truth;
}

static int chip_read(void *context, uint32_t page, uint32_t offset, uint8_t *data, size_t len,
                     uint8_t *spare, size_t spare_len)
{
    struct chip *chip = context;
    CHECK(page < BLOCKS * PAGES && offset + len <= PAGE && spare_len <= SPARE);
    if (len)
        memcpy(data, chip->data[page] + offset, len);
    if (spare_len)
        memcpy(spare, chip->spare[page], spare_len);
    chip->reads++;
    chip->moved += len;
    chip->held = page + 1;
    return chip_says(chip, 'r', 0);
}

static int chip_program(void *context, uint32_t page, const uint8_t *data, size_t len,
                        const uint8_t *spare, size_t spare_len)
{
    struct chip *chip = context;
    CHECK(page < BLOCKS * PAGES && len <= PAGE && spare_len <= SPARE);
    CHECK(!chip->bad[page / PAGES] && chip->next[page / PAGES] <= page % PAGES);
    int says = chip_says(chip, 'p', 0);
    chip->held = 0;
    chip->moved += len;
    chip->next[page / PAGES] = (uint8_t)(page % PAGES + 1);
    if (len)
        memcpy(chip->data[page], data, len);
    if (spare_len)
        memcpy(chip->spare[page], spare, spare_len);
    chip->programs++;
    return says;
}

/* For a chip that is given it: more of the page that is held. */
static inline int chip_read_more(void *context, uint32_t offset, uint8_t *data, size_t len)
{
    struct chip *chip = context;
    CHECK(chip->held && len && offset + len <= PAGE);
    memcpy(data, chip->data[chip->held - 1] + offset, len);
    chip->moved += len;
    return chip_says(chip, 'o', 0);
}

/* The same: within blocks of one parity. */
static inline int chip_copies(void *context, uint32_t from, uint32_t to)
{
    struct chip *chip = context;
    return chip_says(chip, 'q', from / PAGES % 2 == to / PAGES % 2);
}

static inline int chip_copy(void *context, uint32_t from, uint32_t to, const uint8_t *spare,
                            size_t spare_len)
{
    struct chip *chip = context;
    CHECK(from < BLOCKS * PAGES && to < BLOCKS * PAGES && spare_len <= SPARE);
    CHECK(from / PAGES % 2 == to / PAGES % 2);
    CHECK(!chip->bad[to / PAGES] && chip->next[to / PAGES] <= to % PAGES);
    int says = chip_says(chip, 'c', 0);
    chip->held = 0;
    if (says == -74)
        return says;
    chip->next[to / PAGES] = (uint8_t)(to % PAGES + 1);
    memcpy(chip->data[to], chip->data[from], PAGE);
    if (spare_len)
        memcpy(chip->spare[to], spare, spare_len);
    chip->copies++;
    return says;
}

static int chip_erase(void *context, uint32_t block)
{
    struct chip *chip = context;
    CHECK(block < BLOCKS && !chip->bad[block]);
    memset(chip->data[block * PAGES], 0xff, PAGES * PAGE);
    memset(chip->spare[block * PAGES], 0xff, PAGES * SPARE);
    chip->next[block] = 0;
    chip->erases++;
    chip->held = 0;
    return chip_says(chip, 'e', 0);
}

static int chip_is_bad(void *context, uint32_t block)
{
    struct chip *chip = context;
    CHECK(block < BLOCKS);
    chip->held = 0;
    return chip_says(chip, 'b', chip->bad[block]);
}

static int chip_mark_bad(void *context, uint32_t block)
{
    struct chip *chip = context;
    CHECK(block < BLOCKS);
    chip->bad[block] = 1;
    chip->held = 0;
    return chip_says(chip, 'm', 0);
}

static void chip_yield(void *context)
{
    struct chip *chip = context;
    chip->yields++;
}

/* A chip as the factory ships it, with a bad block. */
static inline struct chip *chip_new(void)
{
    struct chip *chip = calloc(1, sizeof *chip);
    CHECK(chip);
    memset(chip->data, 0xff, sizeof chip->data);
    memset(chip->spare, 0xff, sizeof chip->spare);
    chip->bad[9] = 1;
    return chip;
}

static inline CHIP chip_of(struct chip *chip)
{
    CHIP functions = {
        .context = chip,
        .page_size = PAGE,
        .spare_size = SPARE,
        .pages_per_block = PAGES,
        .blocks = BLOCKS,
        .correctable_bits = 4,
        .read = chip_read,
        .program = chip_program,
        .erase = chip_erase,
        .is_bad = chip_is_bad,
        .mark_bad = chip_mark_bad,
        .yield = chip_yield,
    };
    return functions;
}

#endif
