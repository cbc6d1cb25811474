/* Of Zephyr, what flashlight_fs.c uses: to compile it without Zephyr. Written from its documented
 * interface; a build in Zephyr uses its own. */

#ifndef CHECK_KERNEL_H
#define CHECK_KERNEL_H

#include <stddef.h>
#include <stdint.h>

struct k_mem_slab {
    int unused;
};
typedef struct {
    int64_t ticks;
} k_timeout_t;

#define BIT(n) (1u << (n))
#define K_NO_WAIT ((k_timeout_t){0})
#define K_MEM_SLAB_DEFINE_STATIC(name, size, count, align)                         \
    static char name##_memory[(size) * (count)];                                   \
    static struct k_mem_slab name = {sizeof name##_memory}

int k_mem_slab_alloc(struct k_mem_slab *slab, void **mem, k_timeout_t timeout);
void k_mem_slab_free(struct k_mem_slab *slab, void *mem);
uint32_t k_cycle_get_32(void);

#endif
