/* SD Physical Layer Simplified Specification, chapter 7. */

#include "sd.h"

#include "board.h"

enum { PATIENCE = 1000000 };

/* Cards of up to 2 GB are addressed in bytes. */
static uint32_t shift;

/* Selects the card, sends a command and gives the first byte of the answer. */
static uint8_t sd_send(uint8_t number, uint32_t argument)
{
    spi_select(1);
    spi_exchange(0xff);
    spi_exchange(0x40 | number);
    for (int i = 24; i >= 0; i -= 8)
        spi_exchange((uint8_t)(argument >> i));
    /* The checksum counts for these two only. */
    spi_exchange(number == 0 ? 0x95 : number == 8 ? 0x87 : 0xff);
    for (int i = 0; i < 16; i++) {
        uint8_t answer = spi_exchange(0xff);
        if (!(answer & 0x80))
            return answer;
    }
    return 0xff;
}

static uint8_t sd_command(uint8_t number, uint32_t argument)
{
    uint8_t answer = sd_send(number, argument);
    spi_select(0);
    return answer;
}

static int sd_wait(uint8_t token)
{
    for (int i = 0; i < PATIENCE; i++)
        if (spi_exchange(0xff) == token)
            return 0;
    return 1;
}

/* Takes the data that follow an answer, and lets the card go. */
static int sd_receive(uint8_t answer, uint8_t *data, uint32_t n)
{
    int failed = answer || sd_wait(0xfe);
    if (!failed) {
        for (uint32_t i = 0; i < n; i++)
            data[i] = spi_exchange(0xff);
        spi_exchange(0xff);
        spi_exchange(0xff);
    }
    spi_select(0);
    return failed;
}

static int sd_read(void *context, uint32_t first, uint8_t *data, uint32_t n)
{
    (void)context;
    for (; n; n--, first++, data += 512)
        if (sd_receive(sd_send(17, first << shift), data, 512))
            return 1;
    return 0;
}

static int sd_write(void *context, uint32_t first, const uint8_t *data, uint32_t n)
{
    (void)context;
    for (; n; n--, first++, data += 512) {
        int failed = sd_send(24, first << shift);
        if (!failed) {
            spi_exchange(0xff);
            spi_exchange(0xfe);
            for (int i = 0; i < 512; i++)
                spi_exchange(data[i]);
            spi_exchange(0xff);
            spi_exchange(0xff);
            failed = (spi_exchange(0xff) & 0x1f) != 5 || sd_wait(0xff);
        }
        spi_select(0);
        if (failed)
            return 1;
    }
    return 0;
}

static int sd_trim(void *context, uint32_t first, uint32_t n)
{
    (void)context;
    if (sd_command(32, first << shift) || sd_command(33, (first + n - 1) << shift))
        return 1;
    int failed = sd_send(38, 0) || sd_wait(0xff);
    spi_select(0);
    return failed;
}

int sd_start(nanofs_device *device)
{
    uint8_t rest[4], csd[16];
    spi_select(0);
    for (int i = 0; i < 10; i++)
        spi_exchange(0xff);
    if (sd_command(0, 0) != 1)
        return 1;
    uint32_t large = sd_send(8, 0x1aa) == 1 ? 1u << 30 : 0;
    for (int i = 0; i < 4; i++)
        rest[i] = spi_exchange(0xff);
    spi_select(0);
    for (int i = 0; i < PATIENCE; i++) {
        if (sd_command(55, 0) > 1)
            return 1;
        if (sd_command(41, large) == 0)
            break;
    }
    uint8_t answer = sd_send(58, 0);
    for (int i = 0; i < 4; i++)
        rest[i] = spi_exchange(0xff);
    spi_select(0);
    shift = answer == 0 && rest[0] & 0x40 ? 0 : 9;
    if (sd_command(16, 512) || sd_receive(sd_send(9, 0), csd, 16))
        return 1;
    if (csd[0] >> 6 == 1)
        device->blocks = (((csd[7] & 0x3fu) << 16 | csd[8] << 8 | csd[9]) + 1) << 10;
    else
        device->blocks = (((csd[6] & 3u) << 10 | csd[7] << 2 | csd[8] >> 6) + 1)
                         << (((csd[9] & 3) << 1 | csd[10] >> 7) + 2 + (csd[5] & 15)) >> 9;
    device->read = sd_read;
    device->write = sd_write;
    device->trim = sd_trim;
    /* A write returns when the card has programmed the block. */
    device->flush = 0;
    return 0;
}
