#include "link.h"

#include <string.h>

#include "board.h"

/* The messages, and what a transaction ends with. */
enum { WRITE = 1, READ = 2, END = 3, DELAY = 4, BEGIN = 5, ENDED = 6, DONE = 0x5a };
/* Semihosting. */
enum { SYS_OPEN = 1, SYS_WRITE = 5, SYS_READ = 6, READ_BINARY = 1, WRITE_BINARY = 5 };

static uint32_t to, from, begun;

static uint32_t open(const char *path, uint32_t mode)
{
    uint32_t handle = semihost(SYS_OPEN, (uint32_t[]){(uint32_t)path, mode, strlen(path)});
    if (handle == UINT32_MAX)
        board_exit(0);
    return handle;
}

void link_open(void)
{
    to = open("/dev/stdout", WRITE_BINARY);
    from = open("/dev/stdin", READ_BINARY);
}

static void send(const uint8_t *bytes, size_t len)
{
    if (len && semihost(SYS_WRITE, (uint32_t[]){to, (uint32_t)bytes, len}) != 0)
        board_exit(0);
}

static void receive(uint8_t *bytes, size_t len)
{
    while (len) {
        uint32_t left = semihost(SYS_READ, (uint32_t[]){from, (uint32_t)bytes, len});
        /* The host is gone. */
        if (left >= len)
            board_exit(0);
        bytes += len - left;
        len = left;
    }
}

/* Puts a message at `at`; gives where the next one goes. */
static uint8_t *message(uint8_t *at, uint8_t kind, uint32_t number)
{
    *at++ = kind;
    for (int i = 0; i < 4; i++, number >>= 8)
        *at++ = (uint8_t)number;
    return at;
}

static void send_one(uint8_t kind, uint32_t number)
{
    uint8_t bytes[5];
    message(bytes, kind, number);
    send(bytes, sizeof bytes);
}

int link_transfer(void *context, const uint8_t *command, size_t command_len, const uint8_t *out,
                  size_t out_len, uint8_t *in, size_t in_len)
{
    uint8_t bytes[32], *at = message(bytes, WRITE, command_len);
    (void)context;
    if (command_len > 8)
        board_exit(0);
    memcpy(at, command, command_len);
    at += command_len;
    if (out_len) {
        at = message(at, WRITE, out_len);
        send(bytes, (size_t)(at - bytes));
        send(out, out_len);
        at = bytes;
    }
    if (in_len)
        at = message(at, READ, in_len);
    at = message(at, END, 0);
    send(bytes, (size_t)(at - bytes));
    receive(in, in_len);
    uint8_t done;
    receive(&done, 1);
    if (done != DONE)
        board_exit(0);
    return 0;
}

void link_delay_us(void *context, uint32_t us)
{
    (void)context;
    send_one(DELAY, us * 1000);
}

void link_begin(uint32_t which)
{
    send_one(BEGIN, which);
    begun = board_clock();
}

void link_ended(void)
{
    uint32_t spent = board_instructions(begun);
    send_one(ENDED, spent);
}
