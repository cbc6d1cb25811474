/* The LM3S6965 evaluation board. */

#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

/* Everything on; the device on the SPI bus is not selected. */
void board_start(void);
/* Selects the device on the SPI bus, or no one. */
void spi_select(int on);
/* Sends a byte over SPI and gives the one that came back. */
uint8_t spi_exchange(uint8_t byte);
/* Waits for the next second; how much of this one is over, in microseconds. */
void next_second(void);
uint32_t board_spent(void);
/* Prints a word and numbers in a line. */
void print(const char *word, uint32_t n, const uint32_t *numbers);
/* Ends the emulation. */
void board_exit(int good) __attribute__((noreturn));
/* Paints what lies below the caller's frame; bytes of it that have been used since. */
void stack_paint(void);
uint32_t stack_used(void);

#endif
