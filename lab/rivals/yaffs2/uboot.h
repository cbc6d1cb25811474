/*
 * What the copy of YAFFS2 in U-Boot takes from U-Boot's headers: here from the C library.
 *
 * The compiler includes this before each of its files; the headers that they name are empty
 * (see ../build.rs).
 */
#ifndef FLASHKIT_UBOOT_H
#define FLASHKIT_UBOOT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint32_t __u32;

/* Memory of a volume, which is counted. */
void *flashkit_yaffs2_alloc(size_t size);
void flashkit_yaffs2_free(void *memory);
#define GFP_NOFS 0
#define kmalloc(size, flags) flashkit_yaffs2_alloc(size)
#define kfree(memory) flashkit_yaffs2_free(memory)
#define vmalloc(size) flashkit_yaffs2_alloc(size)
#define vfree(memory) flashkit_yaffs2_free(memory)

/* What YAFFS2 complains about, which is kept. */
void flashkit_yaffs2_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define printf(...) flashkit_yaffs2_say(__VA_ARGS__)

#define cond_resched() ((void)0)
#define hweight8(bits) __builtin_popcount((uint8_t)(bits))
#define hweight32(bits) __builtin_popcount(bits)
#define lldiv(dividend, divisor) ((uint64_t)(dividend) / (divisor))

/* Lists in a ring: each element has a node, the head is a node of no element. */
struct list_head {
    struct list_head *next, *prev;
};

#define LIST_HEAD(name) struct list_head name = { &(name), &(name) }
#define INIT_LIST_HEAD(node) ((node)->next = (node)->prev = (node))
#define list_entry(node, type, member) ((type *)((char *)(node) - offsetof(type, member)))
#define list_for_each(node, head) \
    for ((node) = (head)->next; (node) != (head); (node) = (node)->next)
#define list_for_each_safe(node, after, head) \
    for ((node) = (head)->next, (after) = (node)->next; (node) != (head); \
         (node) = (after), (after) = (node)->next)

static inline int list_empty(const struct list_head *head)
{
    return head->next == head;
}

static inline void list_add(struct list_head *node, struct list_head *head)
{
    node->prev = head;
    node->next = head->next;
    head->next->prev = node;
    head->next = node;
}

static inline void list_del(struct list_head *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
}

static inline void list_del_init(struct list_head *node)
{
    list_del(node);
    INIT_LIST_HEAD(node);
}

#endif
