/* What cannot be is answered with a code. */

#include "flashlight.h"

#define CHIP flashlight_chip
#define STRERROR flashlight_strerror
#include "../../../nand-c/tests/c/chip.h"

static flashlight fs, second;
static flashlight_file file, other;
static flashlight_dir dir;
static uint8_t ram[FLASHLIGHT_RAM(PAGE, PAGES, BLOCKS)], ram2[sizeof ram];
static struct chip *chip, *chip2;
static flashlight_chip functions, functions2;

enum { RDWR = FLASHLIGHT_O_RDWR, CREAT = FLASHLIGHT_O_CREAT };

/* Calls everything on a volume; all give the same code. */
static void all_give(flashlight *at, int code)
{
    uint8_t data[4];
    flashlight_entry entry;
    flashlight_info info;
    flashlight_space space;
    flashlight_report report;
    flashlight_scrubbed scrubbed;
    static flashlight_file new;
    flashlight_dir new_dir;
    GIVES(flashlight_unmount(at), code);
    GIVES(flashlight_sync(at), code);
    GIVES(flashlight_gc(at, 1), code);
    GIVES(flashlight_pages_before_cleaning(at), code);
    GIVES(flashlight_scrub(at, 1, &scrubbed), code);
    GIVES(flashlight_statvfs(at, &space), code);
    GIVES(flashlight_health(at, &report), code);
    GIVES(flashlight_open(at, &new, "f", RDWR), code);
    GIVES(flashlight_close(at, &file), code);
    GIVES(flashlight_read(at, &file, data, 1), code);
    GIVES(flashlight_write(at, &file, data, 1), code);
    GIVES(flashlight_seek(at, &file, 0, FLASHLIGHT_SEEK_SET), code);
    GIVES(flashlight_tell(at, &file), code);
    GIVES(flashlight_size(at, &file), code);
    GIVES(flashlight_truncate(at, &file, 0), code);
    GIVES(flashlight_fsync(at, &file), code);
    GIVES(flashlight_stat(at, "f", &info), code);
    GIVES(flashlight_mkdir(at, "m"), code);
    GIVES(flashlight_remove(at, "f"), code);
    GIVES(flashlight_rename(at, "f", "g"), code);
    GIVES(flashlight_opendir(at, &new_dir, ""), code);
    GIVES(flashlight_readdir(at, &dir, &entry, NULL), code);
    GIVES(flashlight_closedir(at, &dir), code);
}

/* Calls everything on a handle; all give the same code. */
static void all_of_file_give(flashlight_file *at, int code)
{
    uint8_t data[4] = {0};
    GIVES(flashlight_read(&fs, at, data, 1), code);
    GIVES(flashlight_write(&fs, at, data, 1), code);
    GIVES(flashlight_seek(&fs, at, 0, FLASHLIGHT_SEEK_END), code);
    GIVES(flashlight_tell(&fs, at), code);
    GIVES(flashlight_size(&fs, at), code);
    GIVES(flashlight_truncate(&fs, at, 0), code);
    GIVES(flashlight_fsync(&fs, at), code);
    GIVES(flashlight_close(&fs, at), code);
}

static void no_mount_and_no_volume(void)
{
    all_give(NULL, FLASHLIGHT_E_FAULT);
    all_give((flashlight *)(void *)((char *)&fs + 1), FLASHLIGHT_E_FAULT);
    all_give(&fs, FLASHLIGHT_E_NOTMOUNTED);
    /* Memory that was something else. */
    flashlight *rubbish = malloc(sizeof *rubbish);
    CHECK(rubbish);
    memset(rubbish, 0xa5, sizeof *rubbish);
    all_give(rubbish, FLASHLIGHT_E_NOTMOUNTED);
    free(rubbish);
}

static void chips_that_cannot_be(void)
{
    size_t needed;
    GIVES(flashlight_ram_needed(NULL, &needed), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_ram_needed(&functions, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_mount(&fs, NULL, ram, sizeof ram, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_mount(NULL, &functions, ram, sizeof ram, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_mount(&fs, &functions, NULL, sizeof ram, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_mount(&fs, &functions, NULL, 0, NULL), FLASHLIGHT_E_NOMEM);
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram - 1, NULL), FLASHLIGHT_E_NOMEM);
    GIVES(flashlight_format(&fs, &functions, ram, sizeof ram - 1, 1), FLASHLIGHT_E_NOMEM);
    GIVES(flashlight_mount(&fs, &functions, ram, SIZE_MAX / 2 + 1, NULL), FLASHLIGHT_E_INVAL);
    for (int missing = 0; missing < 5; missing++) {
        flashlight_chip c = functions;
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
        GIVES(flashlight_mount(&fs, &c, ram, sizeof ram, NULL), FLASHLIGHT_E_CALLBACK);
        GIVES(flashlight_format(&fs, &c, ram, sizeof ram, 1), FLASHLIGHT_E_CALLBACK);
    }
    static const uint32_t shapes[][5] = {
        {0, 24, 64, 64, 4},        {2000, 24, 64, 64, 4}, {512, 0, 64, 64, 4},
        {32768, 24, 64, 64, 4},    {2048, 513, 64, 64, 4}, {2048, 24, 0, 64, 4},
        {2048, 24, 1025, 64, 4},   {2048, 24, 64, 0, 4},   {2048, 24, 64, 7, 4},
        {2048, 24, 64, 43, 4},     {2048, 24, 64, UINT32_MAX, 4}, {2048, 24, 64, 64, 0},
    };
    static uint8_t enough[200000];
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        flashlight_chip c = functions;
        c.page_size = shapes[i][0];
        c.spare_size = shapes[i][1];
        c.pages_per_block = shapes[i][2];
        c.blocks = shapes[i][3];
        c.correctable_bits = shapes[i][4];
        GIVES(flashlight_format(&fs, &c, enough, sizeof enough, 1), FLASHLIGHT_E_GEOMETRY);
    }
    flashlight_options one_sided = {.unlock = (void (*)(void *))chip_yield};
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, &one_sided), FLASHLIGHT_E_INVAL);
    flashlight_options odd = {.read_only = 2};
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, &odd), FLASHLIGHT_E_INVAL);
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), FLASHLIGHT_E_NOTFORMATTED);
    all_give(&fs, FLASHLIGHT_E_NOTMOUNTED);
}

static void pointers_and_lengths(void)
{
    uint8_t data[4];
    flashlight_entry entry;
    const size_t many = SIZE_MAX / 2 + 1;
    char *endless = malloc(4096);
    CHECK(endless);
    memset(endless, 'n', 4096);
    GIVES(flashlight_open(&fs, &other, endless, RDWR), FLASHLIGHT_E_NAMETOOLONG);
    GIVES(flashlight_mkdir(&fs, endless), FLASHLIGHT_E_NAMETOOLONG);
    endless[256] = 0;
    GIVES(flashlight_mkdir(&fs, endless), FLASHLIGHT_E_NAMETOOLONG);
    free(endless);
    GIVES(flashlight_open(&fs, NULL, "f", RDWR), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_open(&fs, (flashlight_file *)(void *)((char *)&other + 2), "f", RDWR),
          FLASHLIGHT_E_FAULT);
    GIVES(flashlight_open(&fs, &other, NULL, RDWR), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_stat(&fs, "f", NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_stat(&fs, NULL, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_mkdir(&fs, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_remove(&fs, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_rename(&fs, NULL, "g"), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_rename(&fs, "f", NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_opendir(&fs, NULL, ""), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_opendir(&fs, &dir, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_readdir(&fs, NULL, &entry, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_readdir(&fs, &dir, NULL, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_closedir(&fs, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_statvfs(&fs, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_health(&fs, NULL), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_scrub(&fs, 1, NULL), FLASHLIGHT_E_FAULT);
    all_of_file_give(NULL, FLASHLIGHT_E_FAULT);
    GIVES(flashlight_read(&fs, &file, NULL, 1), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_write(&fs, &file, NULL, 1), FLASHLIGHT_E_FAULT);
    GIVES(flashlight_read(&fs, &file, data, many), FLASHLIGHT_E_INVAL);
    GIVES(flashlight_write(&fs, &file, data, many), FLASHLIGHT_E_INVAL);
    GIVES(flashlight_write(&fs, &file, NULL, SIZE_MAX), FLASHLIGHT_E_INVAL);
    /* No bytes are none, wherever they are. */
    GIVES(flashlight_read(&fs, &file, NULL, 0), 0);
    GIVES(flashlight_write(&fs, &file, NULL, 0), 0);
    GIVES(flashlight_seek(&fs, &file, -1, FLASHLIGHT_SEEK_SET), FLASHLIGHT_E_INVAL);
    GIVES(flashlight_seek(&fs, &file, INT64_MIN, FLASHLIGHT_SEEK_CUR), FLASHLIGHT_E_INVAL);
    GIVES(flashlight_seek(&fs, &file, INT64_MAX, FLASHLIGHT_SEEK_END), FLASHLIGHT_E_INVAL);
    GIVES(flashlight_seek(&fs, &file, 0, 3), FLASHLIGHT_E_INVAL);
    GIVES(flashlight_truncate(&fs, &file, -1), FLASHLIGHT_E_INVAL);
    GIVES(flashlight_truncate(&fs, &file, INT64_MAX), FLASHLIGHT_E_FBIG);
    static const int flags[] = {0, CREAT, 0x1000, -1, FLASHLIGHT_O_RDONLY | CREAT,
                                FLASHLIGHT_O_RDONLY | FLASHLIGHT_O_TRUNC, RDWR | FLASHLIGHT_O_EXCL};
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++)
        GIVES(flashlight_open(&fs, &other, "new", flags[i]), FLASHLIGHT_E_INVAL);
    static const char *const roots[] = {"", "/", ".", "..", "//."};
    for (unsigned i = 0; i < sizeof roots / sizeof *roots; i++) {
        GIVES(flashlight_remove(&fs, roots[i]), FLASHLIGHT_E_INVAL);
        GIVES(flashlight_open(&fs, &other, roots[i], RDWR), FLASHLIGHT_E_ISDIR);
    }
}

static void handles(void)
{
    flashlight_file closed;
    flashlight_entry entry;
    memset(&closed, 0xa5, sizeof closed);
    all_of_file_give(&closed, FLASHLIGHT_E_BADF);
    /* Open already; with another path, too. */
    GIVES(flashlight_open(&fs, &file, "f", RDWR), FLASHLIGHT_E_BUSY);
    GIVES(flashlight_open(&second, &file, "f", RDWR | CREAT), FLASHLIGHT_E_BUSY);
    /* Of another volume. */
    GIVES(flashlight_open(&second, &other, "f", RDWR | CREAT), 0);
    all_of_file_give(&other, FLASHLIGHT_E_BADF);
    GIVES(flashlight_write(&second, &file, "x", 1), FLASHLIGHT_E_BADF);
    GIVES(flashlight_opendir(&second, &dir, ""), 0);
    GIVES(flashlight_readdir(&fs, &dir, &entry, NULL), FLASHLIGHT_E_BADF);
    GIVES(flashlight_closedir(&fs, &dir), FLASHLIGHT_E_BADF);
    GIVES(flashlight_closedir(&second, &dir), 0);
    GIVES(flashlight_closedir(&second, &dir), FLASHLIGHT_E_BADF);
    /* Closed, and a copy of one that is open. */
    GIVES(flashlight_unmount(&second), FLASHLIGHT_E_BUSY);
    GIVES(flashlight_close(&second, &other), 0);
    GIVES(flashlight_close(&second, &other), FLASHLIGHT_E_BADF);
    closed = file;
    all_of_file_give(&closed, FLASHLIGHT_E_BADF);
    /* Not opened for that. */
    GIVES(flashlight_open(&fs, &other, "f", FLASHLIGHT_O_RDONLY), 0);
    GIVES(flashlight_write(&fs, &other, "x", 1), FLASHLIGHT_E_BADF);
    GIVES(flashlight_truncate(&fs, &other, 0), FLASHLIGHT_E_BADF);
    GIVES(flashlight_close(&fs, &other), 0);
    GIVES(flashlight_open(&fs, &other, "f", FLASHLIGHT_O_WRONLY), 0);
    GIVES(flashlight_read(&fs, &other, &closed, 1), FLASHLIGHT_E_BADF);
    GIVES(flashlight_close(&fs, &other), 0);
    /* A listing does not outlive its mount. */
    GIVES(flashlight_opendir(&second, &dir, ""), 0);
    GIVES(flashlight_unmount(&second), 0);
    GIVES(flashlight_mount(&second, &functions2, ram2, sizeof ram2, NULL), 0);
    GIVES(flashlight_readdir(&second, &dir, &entry, NULL), FLASHLIGHT_E_BADF);
    /* Mounted twice. */
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), FLASHLIGHT_E_BUSY);
    GIVES(flashlight_format(&fs, &functions, ram, sizeof ram, 1), FLASHLIGHT_E_BUSY);
}

static int inside_calls;

static void inside(void)
{
    chip->inside = NULL;
    inside_calls++;
    all_give(&fs, FLASHLIGHT_E_BUSY);
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), FLASHLIGHT_E_BUSY);
    GIVES(flashlight_format(&fs, &functions, ram, sizeof ram, 1), FLASHLIGHT_E_BUSY);
    chip->inside = inside;
}

/* A lock that knows who holds it, and one that counts. */
static int held, counts;

static int lock(void *context)
{
    (void)context;
    if (held && !counts)
        return 1;
    held++;
    return 0;
}

static void unlock(void *context)
{
    (void)context;
    CHECK(held > 0);
    held--;
}

static void calls_from_callbacks(void)
{
    flashlight_options options = {.lock = lock, .unlock = unlock};
    for (int kind = 0; kind < 3; kind++) {
        counts = kind == 2;
        chip->inside = inside;
        inside_calls = 0;
        GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, kind ? &options : NULL), 0);
        CHECK(inside_calls > 10 && held == 0);
        inside_calls = 0;
        GIVES(flashlight_open(&fs, &file, "f", RDWR | CREAT), 0);
        GIVES(flashlight_write(&fs, &file, "abcd", 4), 4);
        GIVES(flashlight_fsync(&fs, &file), 0);
        GIVES(flashlight_close(&fs, &file), 0);
        GIVES(flashlight_unmount(&fs), 0);
        CHECK(inside_calls > 0 && held == 0);
        chip->inside = NULL;
    }
    held = 1;
    counts = 0;
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, &options), FLASHLIGHT_E_BUSY);
    held = 0;
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, &options), 0);
    held = 1;
    all_give(&fs, FLASHLIGHT_E_BUSY);
    held = 0;
    GIVES(flashlight_unmount(&fs), 0);
}

/* A thread that waits for its lock while others do something: here the lock's function does it. */
static void (*meanwhile)(void);

static int slow_lock(void *context)
{
    void (*work)(void) = meanwhile;
    meanwhile = NULL;
    if (work)
        work();
    return lock(context);
}

static flashlight_options other_lock = {.lock = lock, .unlock = unlock, .context = &held};

static void mounted_and_written(void)
{
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, &other_lock), 0);
    GIVES(flashlight_open(&fs, &file, "raced", RDWR | CREAT), 0);
    GIVES(flashlight_write(&fs, &file, "abcd", 4), 4);
}

static void mounted_anew(void)
{
    GIVES(flashlight_unmount(&fs), 0);
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, &other_lock), 0);
}

/* Two threads mount at once: the second would mount over what the first has written. And a call
 * that waited for the lock of a mount which has ended must not go on under that lock. */
static void threads_that_wait(void)
{
    flashlight_options options = {.lock = slow_lock, .unlock = unlock};
    flashlight_info info;
    counts = 0;
    meanwhile = mounted_and_written;
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, &options), FLASHLIGHT_E_BUSY);
    CHECK(held == 0);
    GIVES(flashlight_fsync(&fs, &file), 0);
    GIVES(flashlight_close(&fs, &file), 0);
    GIVES(flashlight_stat(&fs, "raced", &info), 0);
    CHECK(info.size == 4);
    GIVES(flashlight_unmount(&fs), 0);

    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, &options), 0);
    meanwhile = mounted_anew;
    GIVES(flashlight_stat(&fs, "raced", &info), FLASHLIGHT_E_BUSY);
    CHECK(held == 0);
    GIVES(flashlight_stat(&fs, "raced", &info), 0);
    GIVES(flashlight_unmount(&fs), 0);
}

/* What a function of the chip gives from now on, whatever is so. */
static void tell(char function, int given)
{
    chip->lies = function;
    chip->given = given;
}

/* Callbacks that give what they may not, or fail. What was synced before is there afterwards. */
static void callbacks_that_lie(void)
{
    static const struct {
        char function;
        int given, code;
    } lies[] = {
        {'r', 17000, FLASHLIGHT_E_CALLBACK}, {'p', 2, FLASHLIGHT_E_CALLBACK},
        {'e', INT32_MAX, FLASHLIGHT_E_CALLBACK}, {'r', -5, FLASHLIGHT_E_IO},
        {'p', -1, FLASHLIGHT_E_IO}, {'e', INT32_MIN, FLASHLIGHT_E_IO},
        {'p', FLASHLIGHT_CHIP_UNCORRECTABLE, FLASHLIGHT_E_IO},
    };
    for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++) {
        flashlight_report report;
        flashlight_info info;
        GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), 0);
        if (lies[i].function == 'r') {
            tell(lies[i].function, lies[i].given);
            GIVES(flashlight_open(&fs, &file, "g", FLASHLIGHT_O_RDONLY), lies[i].code);
            tell(0, 0);
            GIVES(flashlight_unmount(&fs), 0);
        } else {
            int code = 0;
            static uint8_t page[PAGE * PAGES];
            GIVES(flashlight_open(&fs, &file, "g", RDWR | CREAT), 0);
            tell(lies[i].function, lies[i].given);
            for (int n = 0; n < 9 && code >= 0; n++)
                code = (int)flashlight_write(&fs, &file, page, sizeof page);
            GIVES(code, lies[i].code);
            GIVES(flashlight_health(&fs, &report), 0);
            CHECK(report.stopped == 1);
            CHECK(report.driver_error ==
                  (lies[i].given < 0 ? lies[i].given : FLASHLIGHT_E_CALLBACK));
            tell(0, 0);
            CHECK(flashlight_write(&fs, &file, page, 1) < 0);
            GIVES(flashlight_close(&fs, &file), 0);
            CHECK(flashlight_unmount(&fs) < 0);
        }
        all_give(&fs, FLASHLIGHT_E_NOTMOUNTED);
        GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), 0);
        GIVES(flashlight_stat(&fs, "f", &info), 0);
        CHECK(info.size == 4);
        GIVES(flashlight_unmount(&fs), 0);
        if (lies[i].function == 'r') {
            tell(lies[i].function, lies[i].given);
            GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), lies[i].code);
            tell(0, 0);
        }
    }
    /* No page can be read: a program that is told that there is no volume makes one. */
    tell('r', FLASHLIGHT_CHIP_UNCORRECTABLE);
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), FLASHLIGHT_E_CORRUPT);
    tell(0, 0);
    /* Functions that need not be there. */
    static const int mores[][2] = {{1, FLASHLIGHT_E_CALLBACK}, {-5, FLASHLIGHT_E_IO}};
    functions.read_more = chip_read_more;
    for (unsigned i = 0; i < sizeof mores / sizeof *mores; i++) {
        tell('o', mores[i][0]);
        GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), mores[i][1]);
        tell(0, 0);
    }
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), 0);
    GIVES(flashlight_unmount(&fs), 0);
    tell('b', 7);
    GIVES(flashlight_format(&second, &functions, ram2, sizeof ram2, 1), FLASHLIGHT_E_CALLBACK);
    tell(0, 0);
}

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* A chip that a programmer has written with an image of `mkfs --slack` (docs/format.md, 12). The
 * library cannot mount it; said to be without a volume it would be formatted, and all be lost. */
static void written_by_a_programmer(void)
{
    const uint32_t slack = 5;
    const uint32_t fields[] = {PAGE, PAGES, BLOCKS, slack, SPARE, 0};
    uint8_t record[36] = {0};
    memcpy(record + 4, "FLtr\1", 5);
    for (int i = 0; i < 6; i++)
        put32(record + 12 + 4 * i, fields[i]);
    uint32_t crc = 0xffffffff;
    for (size_t i = 4; i < sizeof record; i++) {
        crc ^= record[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    put32(record, ~crc);
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), FLASHLIGHT_E_NOTFORMATTED);
    for (int block = 0; block < 2; block++) {
        memcpy(chip->data[block * PAGES], record, sizeof record);
        GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), FLASHLIGHT_E_TRANSFERRED);
        memset(chip->data[0], 0, PAGE);
    }
    CHECK(chip->programs == 0 && chip->erases == 0);
    GIVES(flashlight_format(&fs, &functions, ram, sizeof ram, 4), 0);
}

int main(void)
{
    chip = chip_new();
    chip2 = chip_new();
    functions = chip_of(chip);
    functions2 = chip_of(chip2);
    no_mount_and_no_volume();
    chips_that_cannot_be();
    written_by_a_programmer();
    GIVES(flashlight_format(&fs, &functions, ram, sizeof ram, 5), 0);
    GIVES(flashlight_format(&second, &functions2, ram2, sizeof ram2, 6), 0);
    GIVES(flashlight_mount(&fs, &functions, ram, sizeof ram, NULL), 0);
    GIVES(flashlight_mount(&second, &functions2, ram2, sizeof ram2, NULL), 0);
    GIVES(flashlight_open(&fs, &file, "f", RDWR | CREAT), 0);
    pointers_and_lengths();
    handles();
    GIVES(flashlight_close(&fs, &file), 0);
    GIVES(flashlight_unmount(&fs), 0);
    GIVES(flashlight_unmount(&second), 0);
    calls_from_callbacks();
    threads_that_wait();
    callbacks_that_lie();
    free(chip);
    free(chip2);
    return 0;
}
