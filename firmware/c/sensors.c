/* Eight sensors that are stored once a second on an SD card: what src/main.rs does, from C. It
 * prints the same words, so that test.py runs it, too. */

#include "board.h"
#include "nanofs.h"
#include "sd.h"

enum { KEY = 0x5e450125, SENSORS = 8, RECORD = 20, LONGEST = 60000, BUDGET = 400 };

static nanofs fs;
static nanofs_device device;

static void print1(const char *what, uint32_t a) { print(what, 1, (uint32_t[]){a}); }

/* Ends the run if a call has failed. */
static int must(const char *what, int result)
{
    if (result < 0) {
        print1(what, (uint32_t)-result);
        board_exit(0);
    }
    return result;
}

static void record(uint32_t sensor, uint32_t second, uint32_t words[5])
{
    uint32_t value = (second ^ sensor << 28) * 0x9e3779b1u;
    words[0] = sensor;
    words[1] = second;
    words[2] = value;
    words[3] = ~value;
    words[4] = value << 9 | value >> 23;
}

static int open_or_create(const char *name, uint32_t len)
{
    int file = nanofs_open(&fs, (const uint8_t *)name, len);
    if (file == NANOFS_E_NOT_FOUND)
        file = nanofs_create(&fs, (const uint8_t *)name, len);
    return must("open", file);
}

static uint32_t size_of(int file)
{
    uint32_t size;
    must("size", nanofs_size(&fs, file, &size));
    return size;
}

/* Reads a sensor's file; gives the last second in it. */
static uint32_t verify(uint32_t sensor, int file)
{
    uint32_t last = 0, found[5], expected[5];
    must("seek", nanofs_seek(&fs, file, 0));
    while (must("read", nanofs_read(&fs, file, (uint8_t *)found, RECORD)) == RECORD) {
        record(sensor, found[1], expected);
        for (int i = 0; i < 5; i++)
            if (found[i] != expected[i] || found[1] <= last) {
                print("wrong", 3, (uint32_t[]){sensor, last, found[1]});
                board_exit(0);
            }
        if (last && found[1] != last + 1)
            print("gap", 3, (uint32_t[]){sensor, last + 1, found[1] - 1});
        last = found[1];
    }
    uint32_t size = size_of(file);
    if (size % RECORD) {
        print("torn", 2, (uint32_t[]){sensor, size});
        must("truncate", nanofs_truncate(&fs, file, size / RECORD * RECORD));
    }
    print("found", 3, (uint32_t[]){sensor, size / RECORD, last});
    return last;
}

/* What else can be done. */
static void more(int state, uint32_t second)
{
    static uint8_t bytes[200];
    for (uint32_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)second;
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t at = second * (7 * i + 1) % 1800;
        must("seek", nanofs_seek(&fs, state, size_of(state) >= 2000 ? at : NANOFS_END));
        must("overwrite", nanofs_write(&fs, state, bytes, sizeof bytes));
    }
    const uint8_t *new = (const uint8_t *)"new", *old = (const uint8_t *)"old";
    int kept = must("create", nanofs_create(&fs, new, 3));
    must("append", nanofs_append(&fs, kept, bytes, sizeof bytes));
    must("close", nanofs_close(&fs, kept));
    must("rename", nanofs_rename(&fs, new, 3, old, 3));
    must("delete", nanofs_delete(&fs, old, 3));
    uint32_t files = 0, size, pos;
    uint8_t name[NANOFS_NAME_MAX];
    for (int cursor = 0; (cursor = must("list", nanofs_next_file(&fs, cursor))) != 0; files++)
        nanofs_entry(&fs, name, &size);
    must("tell", nanofs_tell(&fs, state, &pos));
    print1("files", files);
}

int main(void)
{
    stack_paint(4096);
    board_start();
    if (sd_start(&device)) {
        print1("no card", 0);
        board_exit(0);
    }
    nanofs_init(&fs, &device);
    int mounted = nanofs_mount(&fs, KEY);
    if (mounted == NANOFS_E_NOT_FORMATTED) {
        must("format", nanofs_format(&fs, KEY, 16, 0x12345678));
        print("formatted", 0, 0);
    } else {
        must("mount", mounted);
    }
    /* What a cut has left of a file that comes and goes. */
    nanofs_delete(&fs, (const uint8_t *)"new", 3);
    nanofs_delete(&fs, (const uint8_t *)"old", 3);
    int files[SENSORS];
    uint32_t second = 0, space, busiest = 0;
    for (uint32_t i = 0; i < SENSORS; i++) {
        char name[] = "sensor0";
        name[6] += (char)i;
        files[i] = open_or_create(name, 7);
        uint32_t last = verify(i, files[i]);
        if (second < last)
            second = last;
    }
    int state = open_or_create("state", 5);
    must("space", nanofs_space_left(&fs, &space));
    print1("space", space);
    for (;;) {
        next_second();
        second++;
        for (uint32_t i = 0; i < SENSORS; i++) {
            uint32_t words[5];
            record(i, second, words);
            if (size_of(files[i]) >= LONGEST)
                must("truncate", nanofs_truncate(&fs, files[i], 0));
            must("append", nanofs_append(&fs, files[i], (uint8_t *)words, RECORD));
        }
        must("sync", nanofs_sync(&fs));
        print1("synced", second);
        if (second % 16 == 0) {
            more(state, second);
            print("ram", 3, (uint32_t[]){sizeof fs, stack_used(), busiest});
        }
        must("clean", nanofs_clean(&fs, BUDGET));
        uint32_t spent = board_spent();
        if (busiest < spent)
            busiest = spent;
    }
}
