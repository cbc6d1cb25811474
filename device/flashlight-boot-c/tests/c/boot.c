/* The boot reader from C: what FlashLight has written is read, unmounted or not, and misuse gives a
 * code. Both libraries are linked. */

#include "flashlight.h"
#include "flashlight_boot.h"

#define CHIP flashlight_chip
#define STRERROR flashlight_boot_strerror
#include "../../../nand-c/tests/c/chip.h"

static flashlight fs;
static flashlight_boot boot;
static uint8_t fs_ram[FLASHLIGHT_RAM(PAGE, PAGES, BLOCKS)], ram[FLASHLIGHT_BOOT_RAM(PAGE)];
static uint8_t wrote[100000], found[100000];
static struct chip *chip;
static flashlight_boot_chip functions;

static void put(const char *path, size_t len)
{
    flashlight_file file;
    memset(&file, 0, sizeof file);
    GIVES(flashlight_open(&fs, &file, path, FLASHLIGHT_O_RDWR | FLASHLIGHT_O_CREAT), 0);
    GIVES(flashlight_write(&fs, &file, wrote, len), (long long)len);
    GIVES(flashlight_fsync(&fs, &file), 0);
    GIVES(flashlight_close(&fs, &file), 0);
}

static void is_there(const char *path, size_t len)
{
    flashlight_boot_file file;
    GIVES(flashlight_boot_find(&boot, path, &file), 0);
    CHECK(file.kind == FLASHLIGHT_BOOT_FILE && file.size == len);
    memset(found, 0, sizeof found);
    GIVES(flashlight_boot_read(&boot, &file, 0, found, len), 0);
    CHECK(memcmp(found, wrote, len) == 0);
    GIVES(flashlight_boot_read(&boot, &file, 7, found, len - 7), 0);
    CHECK(memcmp(found, wrote + 7, len - 7) == 0);
    GIVES(flashlight_boot_read(&boot, &file, 8, found, len - 7), FLASHLIGHT_BOOT_E_INVAL);
}

static void all_give(flashlight_boot *at, int code)
{
    flashlight_boot_file file;
    GIVES(flashlight_boot_find(at, "kernel", &file), code);
    GIVES(flashlight_boot_read(at, &file, 0, found, 1), code);
    GIVES(flashlight_boot_close(at), code);
}

static int inside_calls;

static void inside(void)
{
    chip->inside = NULL;
    inside_calls++;
    all_give(&boot, FLASHLIGHT_BOOT_E_BUSY);
    GIVES(flashlight_boot_open(&boot, &functions, ram, sizeof ram), FLASHLIGHT_BOOT_E_BUSY);
    chip->inside = inside;
}

static void what_cannot_be(void)
{
    flashlight_boot_file file;
    memset(&file, 0x5a, sizeof file);
    all_give(NULL, FLASHLIGHT_BOOT_E_FAULT);
    all_give((flashlight_boot *)(void *)((char *)&boot + 1), FLASHLIGHT_BOOT_E_FAULT);
    all_give(&boot, FLASHLIGHT_BOOT_E_NOTOPEN);
    GIVES(flashlight_boot_open(NULL, &functions, ram, sizeof ram), FLASHLIGHT_BOOT_E_FAULT);
    GIVES(flashlight_boot_open(&boot, NULL, ram, sizeof ram), FLASHLIGHT_BOOT_E_FAULT);
    GIVES(flashlight_boot_open(&boot, &functions, NULL, sizeof ram), FLASHLIGHT_BOOT_E_FAULT);
    GIVES(flashlight_boot_open(&boot, &functions, ram, sizeof ram - 1), FLASHLIGHT_BOOT_E_NOMEM);
    GIVES(flashlight_boot_open(&boot, &functions, ram, SIZE_MAX / 2 + 1), FLASHLIGHT_BOOT_E_INVAL);
    chip->lies = 'r';
    chip->given = FLASHLIGHT_BOOT_UNCORRECTABLE;
    GIVES(flashlight_boot_open(&boot, &functions, ram, sizeof ram), FLASHLIGHT_BOOT_E_CORRUPT);
    chip->lies = 0;
    flashlight_boot_chip c = functions;
    c.read = NULL;
    GIVES(flashlight_boot_open(&boot, &c, ram, sizeof ram), FLASHLIGHT_BOOT_E_CALLBACK);
    c = functions;
    c.page_size = 2000;
    GIVES(flashlight_boot_open(&boot, &c, ram, sizeof ram), FLASHLIGHT_BOOT_E_GEOMETRY);
    c = functions;
    c.blocks = BLOCKS - 1;
    GIVES(flashlight_boot_open(&boot, &c, ram, sizeof ram), FLASHLIGHT_BOOT_E_GEOMETRY);

    GIVES(flashlight_boot_open(&boot, &functions, ram, sizeof ram), 0);
    GIVES(flashlight_boot_open(&boot, &functions, ram, sizeof ram), FLASHLIGHT_BOOT_E_BUSY);
    GIVES(flashlight_boot_read(&boot, &file, 0, found, 1), FLASHLIGHT_BOOT_E_INVAL);
    GIVES(flashlight_boot_find(&boot, NULL, &file), FLASHLIGHT_BOOT_E_FAULT);
    GIVES(flashlight_boot_find(&boot, "kernel", NULL), FLASHLIGHT_BOOT_E_FAULT);
    GIVES(flashlight_boot_find(&boot, "../kernel", &file), FLASHLIGHT_BOOT_E_INVAL);
    GIVES(flashlight_boot_find(&boot, "none", &file), FLASHLIGHT_BOOT_E_NOENT);
    GIVES(flashlight_boot_find(&boot, "kernel/x", &file), FLASHLIGHT_BOOT_E_NOTDIR);
    GIVES(flashlight_boot_find(&boot, "boot", &file), 0);
    CHECK(file.kind == FLASHLIGHT_BOOT_DIR);
    GIVES(flashlight_boot_read(&boot, &file, 0, found, 1), FLASHLIGHT_BOOT_E_NODATA);
    char path[600];
    memset(path, 'x', sizeof path);
    path[599] = 0;
    GIVES(flashlight_boot_find(&boot, path, &file), FLASHLIGHT_BOOT_E_NAMETOOLONG);
    chip->lies = 'r';
    chip->given = -5;
    GIVES(flashlight_boot_find(&boot, "kernel", &file), FLASHLIGHT_BOOT_E_IO);
    chip->given = FLASHLIGHT_BOOT_UNCORRECTABLE;
    GIVES(flashlight_boot_find(&boot, "kernel", &file), FLASHLIGHT_BOOT_E_CORRUPT);
    chip->lies = 0;
    chip->inside = inside;
    is_there("kernel", 90000);
    chip->inside = NULL;
    CHECK(inside_calls > 10);
    GIVES(flashlight_boot_close(&boot), 0);
    all_give(&boot, FLASHLIGHT_BOOT_E_NOTOPEN);
}

int main(void)
{
    for (size_t i = 0; i < sizeof wrote; i++)
        wrote[i] = (uint8_t)(i * 7 + i / 251);
    flashlight_boot_file file;
    chip = chip_new();
    flashlight_chip whole = chip_of(chip);
    functions = (flashlight_boot_chip){
        .context = whole.context,
        .page_size = whole.page_size,
        .spare_size = whole.spare_size,
        .pages_per_block = whole.pages_per_block,
        .blocks = whole.blocks,
        .read = whole.read,
        .is_bad = whole.is_bad,
        .yield = whole.yield,
    };
    GIVES(flashlight_boot_open(&boot, &functions, ram, sizeof ram), FLASHLIGHT_BOOT_E_NOTFORMATTED);
    /* A programmer has been here (docs/format.md, 12). */
    memcpy(chip->data[0] + 4, "FLtr", 4);
    GIVES(flashlight_boot_open(&boot, &functions, ram, sizeof ram), FLASHLIGHT_BOOT_E_TRANSFERRED);
    memset(chip->data[0], 0xff, PAGE);
    GIVES(flashlight_format(&fs, &whole, fs_ram, sizeof fs_ram, 5), 0);
    GIVES(flashlight_mount(&fs, &whole, fs_ram, sizeof fs_ram, NULL), 0);
    GIVES(flashlight_mkdir(&fs, "boot"), 0);
    put("kernel", 90000);
    put("boot/config", 300);
    unsigned changed = chip->programs + chip->erases;

    /* While it is mounted, as after a cut. */
    GIVES(flashlight_boot_open(&boot, &functions, ram, sizeof ram), 0);
    is_there("kernel", 90000);
    is_there("/boot//config", 300);
    GIVES(flashlight_boot_close(&boot), 0);
    what_cannot_be();
    CHECK(changed == chip->programs + chip->erases);

    GIVES(flashlight_unmount(&fs), 0);
    GIVES(flashlight_boot_open(&boot, &functions, ram, sizeof ram), 0);
    is_there("boot/config", 300);
    GIVES(flashlight_boot_close(&boot), 0);

    /* Where the page stays in the chip, a few bytes of most go over the bus. */
    chip->moved = chip->reads = 0;
    GIVES(flashlight_boot_open(&boot, &functions, ram, sizeof ram), 0);
    GIVES(flashlight_boot_close(&boot), 0);
    unsigned long moved = chip->moved;
    unsigned reads = chip->reads;
    chip->moved = chip->reads = 0;
    functions.read_more = chip_read_more;
    GIVES(flashlight_boot_open(&boot, &functions, ram, sizeof ram), 0);
    CHECK(chip->reads == reads && 4 * chip->moved < moved);
    is_there("boot/config", 300);
    chip->lies = 'o';
    chip->given = 1;
    GIVES(flashlight_boot_find(&boot, "kernel", &file), FLASHLIGHT_BOOT_E_IO);
    chip->lies = 0;
    GIVES(flashlight_boot_close(&boot), 0);
    for (int code = -1010; code <= 1; code++)
        CHECK(strlen(flashlight_boot_strerror(code)) > 0);
    free(chip);
    return 0;
}
