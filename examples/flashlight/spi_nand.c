#include "spi_nand.h"

/* The part: its id behind the dummy byte; how long it works at most; where usable spare bytes are
 * behind the data of a page, and what the status says of a read. Winbond's data sheet. */
static const uint8_t ID[3] = {0xef, 0xaa, 0x21};
enum { READ_US = 60, PROGRAM_US = 700, ERASE_US = 10000, RESET_US = 2000 };
enum { RUNS = 4, RUN_FIRST = 2, RUN_EVERY = 16, RUN_LEN = 6 };
enum { ECC_CORRECTED = 1, ECC_BITS = 1 };

/* Registers and their bits. */
enum { PROTECTION = 0xa0, CONFIG = 0xb0, STATUS = 0xc0 };
enum { ECC_ON = 0x10, BUFFER = 0x08 };
enum { BUSY = 1, WRITE_ENABLED = 2, ERASE_FAILED = 4, PROGRAM_FAILED = 8 };

static int command(spi_nand *nand, const uint8_t *bytes, size_t len)
{
    return nand->transfer(nand->context, bytes, len, NULL, 0, NULL, 0);
}

/* A register's value, or a negative number. */
static int get(spi_nand *nand, uint8_t which)
{
    uint8_t value;
    int e = nand->transfer(nand->context, (uint8_t[]){0x0f, which}, 2, NULL, 0, &value, 1);
    return e < 0 ? e : value;
}

static int set(spi_nand *nand, uint8_t which, uint8_t value)
{
    int e = command(nand, (uint8_t[]){0x1f, which, value}, 3);
    if (e >= 0)
        e = get(nand, which);
    return e < 0 ? e : e == value ? 0 : SPI_NAND_E_LOCKED;
}

/* Waits until the chip is done, twice as long as it may take and a millisecond; the status. */
static int wait(spi_nand *nand, uint32_t us)
{
    uint32_t step = us / 16 < 5 ? 5 : us / 16;
    for (uint32_t waited = 0;; waited += step) {
        int status = get(nand, STATUS);
        if (status < 0 || !(status & BUSY))
            return status;
        if (waited > 2 * us + 1000)
            return SPI_NAND_E_TIMEOUT;
        nand->delay_us(nand->context, step);
    }
}

/* A command with the number of a page; the status when it is done. */
static int with_page(spi_nand *nand, uint8_t code, uint32_t page, uint32_t us)
{
    uint8_t bytes[4] = {code, (uint8_t)(page >> 16), (uint8_t)(page >> 8), (uint8_t)page};
    int e = command(nand, bytes, 4);
    return e < 0 ? e : wait(nand, us);
}

/* Bytes of the chip's cache, from a column on. */
static int from_cache(spi_nand *nand, uint32_t column, uint8_t *data, size_t len)
{
    uint8_t bytes[4] = {0x03, (uint8_t)(column >> 8), (uint8_t)column, 0};
    return nand->transfer(nand->context, bytes, 4, NULL, 0, data, len);
}

/* Bytes into the cache; the first load of a page makes the rest of it 0xff. */
static int to_cache(spi_nand *nand, uint8_t code, uint32_t column, const uint8_t *data, size_t len)
{
    uint8_t bytes[3] = {code, (uint8_t)(column >> 8), (uint8_t)column};
    return nand->transfer(nand->context, bytes, 3, data, len, NULL, 0);
}

static int enable_write(spi_nand *nand) { return command(nand, (uint8_t[]){0x06}, 1); }

/* Programs the cache, or erases. A chip that is gone has no failure to tell of: so a write enable
 * that it has not taken is an error. One whose blocks are locked again has lost its supply: what it
 * was at may not be done, though nothing has failed. */
static int execute(spi_nand *nand, uint8_t code, uint32_t page, uint32_t us, int failed)
{
    int status = get(nand, STATUS);
    if (status >= 0 && !(status & WRITE_ENABLED))
        return SPI_NAND_E_DISABLED;
    if (status >= 0)
        status = with_page(nand, code, page, us);
    int locked = status < 0 ? status : get(nand, PROTECTION);
    if (locked)
        return locked < 0 ? locked : SPI_NAND_E_LOCKED;
    return status & failed ? FLASHLIGHT_CHIP_FAILED : 0;
}

/* Brings a page to the cache. The bits that the ECC has corrected, or a negative number. */
static int page_to_cache(spi_nand *nand, uint32_t page)
{
    int status = with_page(nand, 0x13, page, READ_US);
    if (status < 0)
        return status;
    int code = status >> 4 & 3;
    if (code > ECC_CORRECTED)
        return FLASHLIGHT_CHIP_UNCORRECTABLE;
    return code ? ECC_BITS : 0;
}

static int nand_read(void *context, uint32_t page, uint32_t offset, uint8_t *data, size_t len,
                     uint8_t *spare, size_t spare_len)
{
    spi_nand *nand = context;
    int bits = page_to_cache(nand, page);
    if (bits < 0)
        return bits;
    int e = len ? from_cache(nand, offset, data, len) : 0;
    for (uint32_t run = 0; run < RUNS && spare_len && e >= 0; run++) {
        size_t part = spare_len < RUN_LEN ? spare_len : RUN_LEN;
        e = from_cache(nand, SPI_NAND_PAGE_SIZE + RUN_FIRST + RUN_EVERY * run, spare, part);
        spare += part;
        spare_len -= part;
    }
    return e < 0 ? e : bits;
}

/* More of the page that is in the cache since nand_read. */
static int nand_read_more(void *context, uint32_t offset, uint8_t *data, size_t len)
{
    int e = from_cache(context, offset, data, len);
    return e < 0 ? e : 0;
}

static int nand_program(void *context, uint32_t page, const uint8_t *data, size_t len,
                        const uint8_t *spare, size_t spare_len)
{
    static const uint8_t blank = 0xff;
    spi_nand *nand = context;
    int e = enable_write(nand);
    if (e >= 0)
        e = to_cache(nand, 0x02, 0, len ? data : &blank, len ? len : 1);
    for (uint32_t run = 0; run < RUNS && spare_len && e >= 0; run++) {
        size_t part = spare_len < RUN_LEN ? spare_len : RUN_LEN;
        e = to_cache(nand, 0x84, SPI_NAND_PAGE_SIZE + RUN_FIRST + RUN_EVERY * run, spare, part);
        spare += part;
        spare_len -= part;
    }
    return e < 0 ? e : execute(nand, 0x10, page, PROGRAM_US, PROGRAM_FAILED);
}

/* The page goes to the cache and from there into the array; over the bus go its new spare bytes. */
static int nand_copy(void *context, uint32_t from, uint32_t to, const uint8_t *spare,
                     size_t spare_len)
{
    spi_nand *nand = context;
    int bits = page_to_cache(nand, from);
    if (bits < 0)
        return bits;
    int e = enable_write(nand);
    for (uint32_t run = 0; run < RUNS && e >= 0; run++) {
        uint8_t bytes[RUN_LEN];
        for (uint32_t i = 0; i < RUN_LEN; i++) {
            bytes[i] = spare_len ? *spare++ : 0xff;
            spare_len -= spare_len > 0;
        }
        e = to_cache(nand, 0x84, SPI_NAND_PAGE_SIZE + RUN_FIRST + RUN_EVERY * run, bytes, RUN_LEN);
    }
    if (e >= 0)
        e = execute(nand, 0x10, to, PROGRAM_US, PROGRAM_FAILED);
    if (e == FLASHLIGHT_CHIP_FAILED)
        return FLASHLIGHT_CHIP_COPY_FAILED;
    return e < 0 ? e : bits;
}

static int nand_erase(void *context, uint32_t block)
{
    spi_nand *nand = context;
    int e = enable_write(nand);
    uint32_t page = block * SPI_NAND_PAGES_PER_BLOCK;
    return e < 0 ? e : execute(nand, 0xd8, page, ERASE_US, ERASE_FAILED);
}

/* The mark is the first spare byte of the first two pages. With the ECC on, one of the factory
 * would be taken for wrong bits. */
static int nand_is_bad(void *context, uint32_t block)
{
    spi_nand *nand = context;
    int bad = 0, e = set(nand, CONFIG, BUFFER);
    for (uint32_t page = 0; page < 2 && e >= 0 && !bad; page++) {
        uint8_t mark = 0xff;
        e = with_page(nand, 0x13, block * SPI_NAND_PAGES_PER_BLOCK + page, READ_US);
        if (e >= 0)
            e = from_cache(nand, SPI_NAND_PAGE_SIZE, &mark, 1);
        bad = mark != 0xff;
    }
    int on = set(nand, CONFIG, BUFFER | ECC_ON);
    return e < 0 ? e : on < 0 ? on : bad;
}

static int nand_mark_bad(void *context, uint32_t block)
{
    spi_nand *nand = context;
    int e = set(nand, CONFIG, BUFFER);
    for (uint32_t page = 0; page < 2 && e >= 0; page++) {
        e = enable_write(nand);
        if (e >= 0)
            e = to_cache(nand, 0x02, SPI_NAND_PAGE_SIZE, (uint8_t[]){0}, 1);
        /* Whether that fails is nothing to anyone: the block is bad. */
        if (e >= 0)
            e = execute(nand, 0x10, block * SPI_NAND_PAGES_PER_BLOCK + page, PROGRAM_US,
                        PROGRAM_FAILED);
    }
    int on = set(nand, CONFIG, BUFFER | ECC_ON);
    return e < 0 ? e : on;
}

int spi_nand_open(spi_nand *nand, flashlight_chip *chip)
{
    uint8_t id[3];
    int e = command(nand, (uint8_t[]){0xff}, 1);
    nand->delay_us(nand->context, 1000);
    if (e >= 0)
        e = wait(nand, RESET_US);
    if (e >= 0)
        e = nand->transfer(nand->context, (uint8_t[]){0x9f, 0}, 2, NULL, 0, id, 3);
    if (e >= 0 && (id[0] != ID[0] || id[1] != ID[1] || id[2] != ID[2]))
        return SPI_NAND_E_ID;
    if (e >= 0)
        e = set(nand, CONFIG, BUFFER | ECC_ON);
    if (e >= 0)
        e = set(nand, PROTECTION, 0);
    *chip = (flashlight_chip){
        .context = nand,
        .page_size = SPI_NAND_PAGE_SIZE,
        .spare_size = RUNS * RUN_LEN,
        .pages_per_block = SPI_NAND_PAGES_PER_BLOCK,
        .blocks = SPI_NAND_BLOCKS,
        .correctable_bits = ECC_BITS,
        .read = nand_read,
        .program = nand_program,
        .erase = nand_erase,
        .is_bad = nand_is_bad,
        .mark_bad = nand_mark_bad,
        .copy = nand_copy,
        .read_more = nand_read_more,
    };
    return e < 0 ? e : 0;
}
