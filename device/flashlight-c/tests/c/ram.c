/* The macro FLASHLIGHT_RAM is what a volume needs, on chips of many shapes. */

#include "flashlight.h"

#define CHIP flashlight_chip
#define STRERROR flashlight_strerror
#include "../../../nand-c/tests/c/chip.h"

/* It is a constant. */
_Static_assert(FLASHLIGHT_RAM(2048, 64, 2048) == 16330, "the size in the documents");

int main(void)
{
    struct chip *chip = calloc(1, sizeof *chip);
    flashlight_chip shape = chip_of(chip);
    unsigned shapes = 0;
    for (uint32_t page = 512; page <= 16384; page *= 2)
        for (uint32_t pages = 4; pages <= 1024; pages += pages < 160 ? 1 : 37)
            for (uint32_t blocks = 8; blocks < 1u << 20; blocks += blocks < 96 ? 8 : blocks / 6) {
                size_t needed = 0;
                shape.page_size = page;
                shape.pages_per_block = pages;
                shape.blocks = blocks;
                if (flashlight_ram_needed(&shape, &needed) != 0) {
                    CHECK((uint64_t)pages * blocks >= 1u << 31);
                    continue;
                }
                shapes++;
                if (needed != FLASHLIGHT_RAM(page, pages, blocks)) {
                    fprintf(stderr, "pages of %u, %u a block, %u blocks: %zu bytes, not %u\n", page,
                            pages, blocks, needed, FLASHLIGHT_RAM(page, pages, blocks));
                    return 1;
                }
            }
    CHECK(shapes > 50000);
    free(chip);
    return 0;
}
