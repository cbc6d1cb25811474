/*
 * A chip of flashkit under YAFFS2, and what YAFFS2 wants of its surroundings.
 *
 * A chunk is a page, and its tags are in the spare bytes with a Hamming code of their own, 28 bytes
 * in all. That, 10 caches and 5 reserved blocks are what U-Boot's own command sets up. Only one
 * thread at a time may be in here: YAFFS2 keeps its open files and its error in variables.
 */

/* Not compiled for itself: what is below needs its table of open files. */
#include "yaffsfs.c"

#include "yaffs_packedtags2.h"

#define CACHES 10
#define RESERVED_BLOCKS 5

/* Answers of a chip. */
#define READ_CORRECTED 1

/* What a chunk is for. As in ../src/yaffs2/ffi.rs. */
enum purpose { DATA, MOVED, HEADERS, SUMMARIES, CHECKPOINTS, PURPOSES };

/* As in ../src/yaffs2/ffi.rs. */
struct flashkit_chip {
    void *context;
    uint32_t page_size, pages_per_block, blocks;
    int (*read)(void *context, uint32_t page, uint8_t *data, uint32_t data_size, uint8_t *spare,
                uint32_t spare_size);
    int (*program)(void *context, uint32_t page, const uint8_t *data, uint32_t data_size,
                   const uint8_t *spare, uint32_t spare_size);
    int (*erase)(void *context, uint32_t block);
    int (*is_bad)(void *context, uint32_t block);
    int (*mark_bad)(void *context, uint32_t block);
};

struct flashkit_yaffs2 {
    struct yaffs_dev dev;
    struct flashkit_chip chip;
    char name[32];
    /* The last complaint. */
    char said[160];
    /* Bytes of memory in use, and the most that were. */
    size_t live, most;
    /* Chunks written, by what they were for. */
    uint64_t written[PURPOSES];
    /* How many chunks cleaning has moved, when one was written last. */
    uint32_t moved;
};

/* Whose call it is. */
static struct flashkit_yaffs2 *current;
static int last_error;

unsigned yaffs_trace_mask = YAFFS_TRACE_ERROR | YAFFS_TRACE_BUG;

/* The surroundings. */

/* In front of each piece of memory; as large as its alignment must be. */
union header {
    size_t size;
    max_align_t align;
};

void *flashkit_yaffs2_alloc(size_t size)
{
    union header *header = malloc(sizeof(*header) + size);

    if (!header)
        return NULL;
    header->size = size;
    current->live += size;
    if (current->live > current->most)
        current->most = current->live;
    return header + 1;
}

void flashkit_yaffs2_free(void *memory)
{
    union header *header = memory;

    if (!header)
        return;
    header--;
    current->live -= header->size;
    free(header);
}

void flashkit_yaffs2_say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(current->said, sizeof(current->said), format, arguments);
    va_end(arguments);
}

void *yaffsfs_malloc(size_t size)
{
    return flashkit_yaffs2_alloc(size);
}

void yaffsfs_free(void *memory)
{
    flashkit_yaffs2_free(memory);
}

void yaffsfs_SetError(int error)
{
    last_error = error;
}

int yaffsfs_GetLastError(void)
{
    return last_error;
}

/* The caller has the lock. */
void yaffsfs_Lock(void)
{
}

void yaffsfs_Unlock(void)
{
}

/* Like U-Boot, this has no clock: the same calls give the same bytes every time. */
u32 yaffsfs_CurrentTime(void)
{
    return 0;
}

void yaffs_bug_fn(const char *file, int line)
{
    flashkit_yaffs2_say("bug at %s:%d", file, line);
}

/* The driver. */

static struct flashkit_chip *chip_of(struct yaffs_dev *dev)
{
    return dev->driver_context;
}

static void count(struct yaffs_dev *dev, const struct yaffs_ext_tags *tags)
{
    struct flashkit_yaffs2 *volume = current;
    enum purpose purpose;

    if (tags->seq_number == YAFFS_SEQUENCE_CHECKPOINT_DATA)
        purpose = CHECKPOINTS;
    else if (tags->obj_id == YAFFS_OBJECTID_SUMMARY)
        purpose = SUMMARIES;
    else if (dev->n_gc_copies != volume->moved)
        purpose = MOVED;
    else
        purpose = tags->chunk_id ? DATA : HEADERS;
    volume->moved = dev->n_gc_copies;
    volume->written[purpose]++;
}

static int write_chunk(struct yaffs_dev *dev, int chunk, const u8 *data,
                       const struct yaffs_ext_tags *tags)
{
    struct flashkit_chip *chip = chip_of(dev);
    struct yaffs_packed_tags2 packed;

    count(dev, tags);
    /* Between its fields is a gap, which is written too. */
    memset(&packed, 0xff, sizeof(packed));
    yaffs_pack_tags2(&packed, tags, 1);
    return chip->program(chip->context, chunk, data, chip->page_size, (u8 *)&packed,
                         sizeof(packed)) < 0 ? YAFFS_FAIL : YAFFS_OK;
}

static int read_chunk(struct yaffs_dev *dev, int chunk, u8 *data, struct yaffs_ext_tags *tags)
{
    struct flashkit_chip *chip = chip_of(dev);
    struct yaffs_packed_tags2 packed;
    int read;

    /* As erased, for a read that brings nothing. */
    memset(&packed, 0xff, sizeof(packed));
    read = chip->read(chip->context, chunk, data, data ? chip->page_size : 0, (u8 *)&packed,
                      tags ? sizeof(packed) : 0);
    if (tags) {
        yaffs_unpack_tags2(tags, &packed, 1);
        if (read < 0) {
            tags->ecc_result = YAFFS_ECC_RESULT_UNFIXED;
            dev->n_ecc_unfixed++;
        } else if (read == READ_CORRECTED && tags->ecc_result == YAFFS_ECC_RESULT_NO_ERROR) {
            tags->ecc_result = YAFFS_ECC_RESULT_FIXED;
            dev->n_ecc_fixed++;
        }
    }
    return read < 0 ? YAFFS_FAIL : YAFFS_OK;
}

static int erase_block(struct yaffs_dev *dev, int block)
{
    struct flashkit_chip *chip = chip_of(dev);

    return chip->erase(chip->context, block) < 0 ? YAFFS_FAIL : YAFFS_OK;
}

static int mark_bad(struct yaffs_dev *dev, int block)
{
    struct flashkit_chip *chip = chip_of(dev);

    return chip->mark_bad(chip->context, block) < 0 ? YAFFS_FAIL : YAFFS_OK;
}

static int query_block(struct yaffs_dev *dev, int block, enum yaffs_block_state *state,
                       u32 *sequence)
{
    struct flashkit_chip *chip = chip_of(dev);
    struct yaffs_ext_tags tags;

    *sequence = 0;
    if (chip->is_bad(chip->context, block)) {
        *state = YAFFS_BLOCK_STATE_DEAD;
        return YAFFS_OK;
    }
    read_chunk(dev, block * dev->param.chunks_per_block, NULL, &tags);
    *state = YAFFS_BLOCK_STATE_EMPTY;
    if (tags.chunk_used) {
        *state = YAFFS_BLOCK_STATE_NEEDS_SCAN;
        *sequence = tags.seq_number;
    }
    return YAFFS_OK;
}

static int initialise(struct yaffs_dev *dev)
{
    (void)dev;
    return YAFFS_OK;
}

/* What Rust calls. */

/* A volume of a name that no other has; it is not mounted. NULL: no memory. */
struct flashkit_yaffs2 *flashkit_yaffs2_new(const char *name, const struct flashkit_chip *chip)
{
    struct flashkit_yaffs2 *volume = calloc(1, sizeof(*volume));
    struct yaffs_param *param;

    if (!volume)
        return NULL;
    volume->chip = *chip;
    snprintf(volume->name, sizeof(volume->name), "%s", name);
    volume->dev.driver_context = &volume->chip;
    param = &volume->dev.param;
    param->name = volume->name;
    param->is_yaffs2 = 1;
    param->use_nand_ecc = 1;
    param->total_bytes_per_chunk = chip->page_size;
    param->chunks_per_block = chip->pages_per_block;
    param->end_block = chip->blocks - 1;
    param->n_reserved_blocks = RESERVED_BLOCKS;
    param->n_caches = CACHES;
    param->write_chunk_tags_fn = write_chunk;
    param->read_chunk_tags_fn = read_chunk;
    param->erase_fn = erase_block;
    param->initialise_flash_fn = initialise;
    param->bad_block_fn = mark_bad;
    param->query_block_fn = query_block;
    /* A mount empties the table of open files as long as this is not said, those of other volumes
     * as well. */
    yaffsfs_InitHandles();
    yaffsfs_handlesInitialised = 1;
    yaffs_add_device(&volume->dev);
    return volume;
}

/* Forgets a volume that is not mounted. */
void flashkit_yaffs2_drop(struct flashkit_yaffs2 *volume)
{
    yaffs_remove_device(&volume->dev);
    free(volume);
}

/* Before each call of YAFFS2. */
void flashkit_yaffs2_enter(struct flashkit_yaffs2 *volume)
{
    current = volume;
    volume->said[0] = 0;
    last_error = 0;
}

/* What it complained about since. */
const char *flashkit_yaffs2_said(const struct flashkit_yaffs2 *volume)
{
    return volume->said;
}

/* The most memory that it had so far, in bytes, its own record included. */
size_t flashkit_yaffs2_memory(const struct flashkit_yaffs2 *volume)
{
    return volume->most + sizeof(volume->dev);
}

/* Chunks written so far, by what they were for: as many as there are purposes. */
const uint64_t *flashkit_yaffs2_written(const struct flashkit_yaffs2 *volume)
{
    return volume->written;
}

/* The size of an open file, or -1. */
int64_t flashkit_yaffs2_size(int file)
{
    struct yaffs_stat stat;

    return yaffs_fstat(file, &stat) < 0 ? -1 : stat.st_size;
}

/* 1: a directory, 0: anything else that exists, -1. */
int flashkit_yaffs2_is_dir(const char *path)
{
    struct yaffs_stat stat;

    return yaffs_lstat(path, &stat) < 0 ? -1 : S_ISDIR(stat.st_mode);
}

/* The next name of an open directory, valid until the next call; NULL at its end. */
const char *flashkit_yaffs2_next(yaffs_DIR *dir)
{
    struct yaffs_dirent *entry = yaffs_readdir(dir);

    return entry ? entry->d_name : NULL;
}
