/* A data logger on FlashLight on a SPI NAND: what src/bin/logger.rs does, from C, with
 * libflashlight.a and the driver of examples/flashlight. It prints the same words. */

#include <string.h>

#include "board.h"
#include "flashlight.h"
#include "link.h"
#include "spi_nand.h"

enum { RECORD = 100, SLOT = 4096, SLOTS = 16, PAGE = 2048, LONGEST = 256, STACK = 36 << 10 };
/* The calls that are measured. */
enum { MOUNT = 1, APPEND = 2, OVERWRITE = 3, READ = 4, UNMOUNT = 5, RENAME = 6 };

static flashlight fs;
static flashlight_file log_file, ring, reader;
static uint8_t ram[16 << 10], bytes[SLOT];
static uint32_t last;
static int forgets;

static void print1(const char *word, uint32_t a) { print(word, 1, (uint32_t[]){a}); }

static void give_up(const char *what, uint32_t number)
{
    print1(what, number);
    board_exit(0);
}

/* Ends the run if a call has failed. */
static int64_t must(const char *what, int64_t result)
{
    if (result < 0)
        give_up(what, (uint32_t)-result);
    return result;
}

/* A word of what belongs to a number. */
static uint32_t word(uint32_t number, uint32_t index)
{
    uint32_t mixed = number * 0x9e3779b1u ^ index * 0x85ebca6bu, by = index % 31;
    return by ? mixed << by | mixed >> (32 - by) : mixed;
}

static void fill(uint8_t *at, uint32_t len, uint32_t number)
{
    for (uint32_t index = 0; index < len / 4; index++) {
        uint32_t value = index ? word(number, index) : number;
        memcpy(at + 4 * index, &value, 4);
    }
}

/* Whether bytes belong to the number at their start, which may be 0 for zeros. */
static int belongs(const uint8_t *at, uint32_t len, uint32_t *number)
{
    memcpy(number, at, 4);
    for (uint32_t index = 1; index < len / 4; index++) {
        uint32_t value;
        memcpy(&value, at + 4 * index, 4);
        if (value != (*number ? word(*number, index) : 0))
            return 0;
    }
    return 1;
}

/* Reads a log from its start on and says what it has: whether there is anything. */
static int look_at_log(const char *path, const char *which, uint32_t *first, uint32_t *end)
{
    uint8_t record[RECORD];
    uint32_t number;
    int64_t len;
    int e = flashlight_open(&fs, &reader, path, FLASHLIGHT_O_RDONLY);
    *first = *end = 0;
    if (e == FLASHLIGHT_E_NOENT)
        return 0;
    must("open", e);
    while ((len = must("read", flashlight_read(&fs, &reader, record, RECORD))) != 0) {
        if (len != RECORD || !belongs(record, RECORD, &number) || !number)
            give_up("wrong", *end);
        if (*first && number != *end + 1)
            give_up("gap", *end);
        if (!*first)
            *first = number;
        *end = number;
    }
    must("close", flashlight_close(&fs, &reader));
    if (*first)
        print(which, 2, (uint32_t[]){*first, *end});
    return *first != 0;
}

static void look_at_ring(void)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        uint32_t pages[2];
        must("seek", flashlight_seek(&fs, &ring, (int64_t)slot * SLOT, FLASHLIGHT_SEEK_SET));
        int64_t len = must("read", flashlight_read(&fs, &ring, bytes, SLOT));
        if (len == 0)
            break;
        if (len < SLOT)
            give_up("short", slot);
        if (!belongs(bytes, PAGE, &pages[0]) || !belongs(bytes + PAGE, PAGE, &pages[1]))
            give_up("torn", slot);
        print("slot", 3, (uint32_t[]){slot, pages[0], pages[1]});
    }
}

/* Appends a number of records and makes them durable. What is measured is one and its sync. */
static void append(uint32_t count)
{
    uint8_t record[RECORD];
    for (uint32_t more = count; more-- > 0;) {
        fill(record, RECORD, ++last);
        if (count == 1)
            link_begin(APPEND);
        must("append", flashlight_write(&fs, &log_file, record, RECORD));
        if (more == 0 && !forgets)
            must("sync", flashlight_fsync(&fs, &log_file));
        if (count == 1)
            link_ended();
    }
    print1("synced", last);
}

/* Overwrites a slot of the ring and makes it durable. */
static void put(void)
{
    int64_t at = (int64_t)(last / 4 % SLOTS) * SLOT;
    must("seek", flashlight_seek(&fs, &ring, at, FLASHLIGHT_SEEK_SET));
    fill(bytes, PAGE, last);
    fill(bytes + PAGE, PAGE, last);
    /* What is measured is an overwrite: not the first round of the ring. */
    int is_new = must("size", flashlight_size(&fs, &ring)) <= at;
    if (!is_new)
        link_begin(OVERWRITE);
    must("put", flashlight_write(&fs, &ring, bytes, SLOT));
    must("sync", flashlight_fsync(&fs, &ring));
    if (!is_new)
        link_ended();
    print1("put", last);
}

/* Reads a record that was written before. */
static void read_old(uint32_t first)
{
    uint8_t record[RECORD];
    uint32_t index = last * 7919u % (last - first + 1), number;
    must("open", flashlight_open(&fs, &reader, "log", FLASHLIGHT_O_RDONLY));
    must("seek", flashlight_seek(&fs, &reader, (int64_t)index * RECORD, FLASHLIGHT_SEEK_SET));
    link_begin(READ);
    int64_t len = must("read", flashlight_read(&fs, &reader, record, RECORD));
    link_ended();
    if (len != RECORD || !belongs(record, RECORD, &number) || number != first + index)
        give_up("wrong", first + index);
    must("close", flashlight_close(&fs, &reader));
}

/* From a mount to the unmount. */
static void session(void)
{
    uint32_t old[2], log[2];
    if (look_at_log("log.old", "old", &old[0], &old[1]))
        last = old[1];
    if (look_at_log("log", "log", &log[0], &log[1]))
        last = log[1];
    uint32_t first = log[0] ? log[0] : last + 1;
    int flags = FLASHLIGHT_O_APPEND | FLASHLIGHT_O_CREAT;
    must("open", flashlight_open(&fs, &log_file, "log", flags));
    must("open", flashlight_open(&fs, &ring, "ring", FLASHLIGHT_O_RDWR | FLASHLIGHT_O_CREAT));
    look_at_ring();
    print1("ready", last);
    for (uint32_t round = 1; round <= 100; round++) {
        append(round % 8 ? 1 : 3);
        if (last % 4 == 0)
            put();
        if (round % 5 == 0)
            read_old(first);
        if (round % 16 == 0) {
            must("clean", flashlight_gc(&fs, 8));
            print1("stack", stack_deepest());
        }
        if (last - first >= LONGEST) {
            must("close", flashlight_close(&fs, &log_file));
            link_begin(RENAME);
            must("rename", flashlight_rename(&fs, "log", "log.old"));
            link_ended();
            print1("turned", last);
            first = last + 1;
            must("open", flashlight_open(&fs, &log_file, "log", flags));
        }
    }
    must("close", flashlight_close(&fs, &log_file));
    must("close", flashlight_close(&fs, &ring));
    link_begin(UNMOUNT);
    must("unmount", flashlight_unmount(&fs));
    link_ended();
    print("unmounted", 0, 0);
}

int main(void)
{
    static char words[16];
    spi_nand nand = {.transfer = link_transfer, .delay_us = link_delay_us};
    flashlight_chip chip;
    stack_paint(STACK);
    board_start();
    board_count_instructions();
    board_command_line(words, sizeof words);
    forgets = strcmp(words, "logger forget") == 0;
    link_open();
    int e = spi_nand_open(&nand, &chip);
    if (e < 0)
        give_up("no chip", (uint32_t)-e);
    for (;;) {
        link_begin(MOUNT);
        e = flashlight_mount(&fs, &chip, ram, sizeof ram, NULL);
        if (e == FLASHLIGHT_E_NOTFORMATTED) {
            must("format", flashlight_format(&fs, &chip, ram, sizeof ram, 0x5eed));
            print("formatted", 0, 0);
            continue;
        }
        must("mount", e);
        link_ended();
        print1("mounted", stack_deepest());
        session();
    }
}
