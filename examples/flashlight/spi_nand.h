/* A driver for the Winbond W25N01GV, a SPI NAND of 128 MiB, as a chip of FlashLight. For another
 * part change what the head of spi_nand.c says of it; docs/spi-nand.md has the parts.
 *
 * The chip's own ECC is on, it has one lane, and every call waits until the chip is done. */

#ifndef SPI_NAND_H
#define SPI_NAND_H

#include "flashlight.h"

enum {
    SPI_NAND_BLOCKS = 1024,
    SPI_NAND_PAGES_PER_BLOCK = 64,
    SPI_NAND_PAGE_SIZE = 2048,
};

/* What went wrong, besides what `transfer` gives. After any of these, and after an error of the
 * bus, open the chip anew before the next mount. */
enum {
    SPI_NAND_E_ID = -2001,      /* another chip, or none */
    SPI_NAND_E_TIMEOUT = -2002, /* it is busy for ever */
    SPI_NAND_E_LOCKED = -2003,  /* a register was not written, or blocks are locked */
    SPI_NAND_E_DISABLED = -2004 /* it takes no write enable */
};

/* The board's part. */
typedef struct spi_nand {
    void *context;
    /* Selects the chip, sends `command`, sends `out` or receives `in`, and no longer selects it.
     * Either length may be 0. Gives 0, or a negative number of yours: the bus failed. Not -74 or -75
     * (EBADMSG, EOVERFLOW on Linux), which would be said of the chip's pages. */
    int (*transfer)(void *context, const uint8_t *command, size_t command_len, const uint8_t *out,
                    size_t out_len, uint8_t *in, size_t in_len);
    void (*delay_us)(void *context, uint32_t us);
} spi_nand;

/* Resets the chip, looks at its id and unlocks all blocks; nothing is written. Then `chip` is what
 * flashlight_mount takes. `nand` must stay where it is. Gives 0, or a negative number. */
int spi_nand_open(spi_nand *nand, flashlight_chip *chip);

#endif
