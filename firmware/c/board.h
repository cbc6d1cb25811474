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
/* A call of the emulator, with what it takes. */
uint32_t semihost(uint32_t call, const void *argument);
/* What the emulator was told to hand over, as words with a zero at the end. */
void board_command_line(char *words, uint32_t len);
/* Has the clock count instructions instead of seconds; a reading of it; instructions since that. See
 * src/board.rs. */
void board_count_instructions(void);
uint32_t board_clock(void);
uint32_t board_instructions(uint32_t since);
/* Paints so many bytes below the caller's frame; bytes of them that have been used since; the same
 * and all that is above them. */
void stack_paint(uint32_t bytes);
uint32_t stack_used(void);
uint32_t stack_deepest(void);

#endif
