#include "board.h"

#define REGISTER(at) (*(volatile uint32_t *)(at))

enum {
    RCGC1 = 0x400fe104, RCGC2 = 0x400fe108,
    UART0 = 0x4000c000, SSI0 = 0x40008000,
    GPIO_A = 0x40004000, GPIO_D = 0x40007000,
    SECOND = 12500000,
};
#define SYSTICK 0xe000e010u
#define ICSR 0xe000ed04u

extern uint32_t stack_top[], bss_start[], bss_end[];
int main(void);

void reset(void)
{
    for (volatile uint32_t *at = bss_start; at < bss_end; at++)
        *at = 0;
    main();
}

static void stop(void) { board_exit(0); }

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    stack_top, reset, stop, stop, stop, stop, stop, 0, 0, 0, 0, stop, stop, 0, stop, stop,
};

void board_start(void)
{
    REGISTER(RCGC1) = 1 << 0 | 1 << 4;
    REGISTER(RCGC2) = 1 << 0 | 1 << 3;
    REGISTER(GPIO_A + 0x420) = 0x37;
    REGISTER(GPIO_A + 0x51c) = 0x37;
    REGISTER(GPIO_D + 0x400) = 1;
    REGISTER(GPIO_D + 0x51c) = 1;
    spi_select(0);
    REGISTER(UART0 + 0x24) = 6;
    REGISTER(UART0 + 0x28) = 50;
    REGISTER(UART0 + 0x2c) = 0x70;
    REGISTER(UART0 + 0x30) = 0x301;
    REGISTER(SSI0) = 7;
    REGISTER(SSI0 + 0x10) = 2;
    REGISTER(SSI0 + 4) = 2;
    REGISTER(SYSTICK + 4) = SECOND - 1;
    REGISTER(SYSTICK + 8) = 0;
    REGISTER(SYSTICK) = 7;
    __asm__ volatile("cpsid i");
}

void spi_select(int on) { REGISTER(GPIO_D + (1 << 2)) = !on; }

uint8_t spi_exchange(uint8_t byte)
{
    REGISTER(SSI0 + 8) = byte;
    while (!(REGISTER(SSI0 + 0xc) & 4))
        ;
    return (uint8_t)REGISTER(SSI0 + 8);
}

void next_second(void)
{
    while (!(REGISTER(SYSTICK) & 1 << 16))
        __asm__ volatile("wfi");
    REGISTER(ICSR) = 1 << 25;
}

uint32_t board_spent(void) { return (SECOND - REGISTER(SYSTICK + 8)) * 2 / 25; }

static void put(char byte)
{
    while (REGISTER(UART0 + 0x18) & 1 << 5)
        ;
    REGISTER(UART0) = (uint8_t)byte;
}

void print(const char *word, uint32_t n, const uint32_t *numbers)
{
    while (*word)
        put(*word++);
    for (uint32_t i = 0; i < n; i++) {
        char digits[10];
        int count = 0;
        uint32_t number = numbers[i];
        do
            digits[count++] = (char)('0' + number % 10);
        while ((number /= 10) != 0);
        put(' ');
        while (count)
            put(digits[--count]);
    }
    put('\n');
}

uint32_t semihost(uint32_t call, const void *argument)
{
    register uint32_t r0 __asm__("r0") = call;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void board_exit(int good)
{
    for (;;)
        semihost(0x18, (const void *)(good ? 0x20026 : 0x20023));
}

void board_command_line(char *words, uint32_t len)
{
    uint32_t block[2] = {(uint32_t)words, len};
    if (semihost(0x15, block) != 0)
        words[0] = 0;
}

enum { LONGEST = 0xffffff, PER_TICK = 80 };

void board_count_instructions(void)
{
    REGISTER(SYSTICK) = 0;
    REGISTER(SYSTICK + 4) = LONGEST;
    REGISTER(SYSTICK + 8) = 0;
    REGISTER(SYSTICK) = 5;
}

uint32_t board_clock(void) { return REGISTER(SYSTICK + 8); }

uint32_t board_instructions(uint32_t since)
{
    return ((since - board_clock()) & LONGEST) * PER_TICK;
}

enum { PAINT = 0x5afe57ac };
static uint32_t *painted_from, painted;

__attribute__((noinline)) void stack_paint(uint32_t bytes)
{
    uint32_t *top = __builtin_frame_address(0);
    for (volatile uint32_t *at = top - bytes / 4; at < top - 8; at++)
        *at = PAINT;
    painted_from = top;
    painted = bytes;
}

static char *lowest(void)
{
    volatile uint32_t *at = painted_from - painted / 4;
    while (at < painted_from && *at == PAINT)
        at++;
    return (char *)at;
}

uint32_t stack_used(void) { return (uint32_t)((char *)painted_from - lowest()); }

uint32_t stack_deepest(void) { return (uint32_t)((char *)stack_top - lowest()); }
