/* A boot log on FlashLight: a line for each start, durable before anything else happens. The chip is
 * a file here; on a board its functions drive a bus. */

#include <stdio.h>

#include "chip_in_file.h"
#include "flashlight.h"

static flashlight fs;
static flashlight_file log_file;
static uint8_t ram[FLASHLIGHT_RAM(2048, 64, 128)];

static int boot(const flashlight_chip *chip)
{
    int e = flashlight_mount(&fs, chip, ram, sizeof ram, NULL);
    if (e == FLASHLIGHT_E_NOTFORMATTED) { /* the first time */
        e = flashlight_format(&fs, chip, ram, sizeof ram, 0x5eed);
        if (e == 0)
            e = flashlight_mount(&fs, chip, ram, sizeof ram, NULL);
    }
    if (e == 0)
        e = flashlight_open(&fs, &log_file, "boot.log", FLASHLIGHT_O_APPEND | FLASHLIGHT_O_CREAT);
    if (e == 0)
        e = (int)flashlight_write(&fs, &log_file, "up\n", 3);
    if (e == 3)
        e = flashlight_fsync(&fs, &log_file); /* durable from here on */
    return e;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: boot_log IMAGE\n", stderr);
        return 2;
    }
    const flashlight_chip chip = chip_in_file(argv[1], 128);
    int e = boot(&chip);
    if (e != 0) {
        fprintf(stderr, "%s\n", flashlight_strerror(e));
        return 1;
    }
    /* The power may go at any time: nothing is closed or unmounted. */
    printf("%lld starts\n", (long long)flashlight_size(&fs, &log_file) / 3);
    return 0;
}
