/* Is linked, never run: that our C libraries, newlib and a program that uses its memory functions go
 * together. */

#include <stdlib.h>
#include <string.h>

#include "flashlight.h"
#include "flashlight_boot.h"
#include "jftl.h"
#include "nanofs.h"

static flashlight fs;
static flashlight_file file;
static flashlight_boot boot;
static jftl disk;
static nanofs card;
static uint8_t ram[FLASHLIGHT_RAM(2048, 64, 1024)];

#ifdef OWN_PANIC
void flashlight_panic(void);
void flashlight_panic(void)
{
    abort();
}
#endif

int main(void)
{
    flashlight_chip chip;
    nanofs_device device;
    memset(&chip, 0, sizeof chip);
    memset(&device, 0, sizeof device);
    nanofs_init(&card, &device);
    int e = flashlight_mount(&fs, &chip, ram, sizeof ram, NULL);
    if (e == 0)
        e = flashlight_open(&fs, &file, "f", FLASHLIGHT_O_RDWR | FLASHLIGHT_O_CREAT);
    char *text = malloc(100);
    if (e == 0 && text)
        e = (int)flashlight_write(&fs, &file, memmove(text, "text", 4), 4);
    flashlight_boot_file kernel;
    e += flashlight_boot_find(&boot, "kernel", &kernel);
    return e + nanofs_mount(&card, 0) + jftl_sync(&disk);
}
