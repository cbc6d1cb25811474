/* A SPI bus whose chip is a program on the host: see src/link.rs. */

#ifndef LINK_H
#define LINK_H

#include <stddef.h>
#include <stdint.h>

/* Opens the two streams to the host. */
void link_open(void);
/* A transaction, and a delay on the chip's clock, as spi_nand.h wants them. */
int link_transfer(void *context, const uint8_t *command, size_t command_len, const uint8_t *out,
                  size_t out_len, uint8_t *in, size_t in_len);
void link_delay_us(void *context, uint32_t us);
/* A call that is measured begins; and has ended well. */
void link_begin(uint32_t which);
void link_ended(void);

#endif
