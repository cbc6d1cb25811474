/* jftl: a block device on raw NAND, for FAT or any other disk file system.
 *
 * Made by cbindgen from device/jftl-c/src: do not edit. docs/jftl-c.md is the guide, for those who
 * have used Dhara as well.
 *
 * Every call gives 0 or more when it succeeds, and one of JFTL_E_* when it fails. */

#ifndef JFTL_H
#define JFTL_H

#include <stddef.h>
#include <stdint.h>

/*
 From `read` and `copy`: more bits are wrong than can be corrected.
 */
#define JFTL_CHIP_UNCORRECTABLE -74

/*
 From `program` and `erase`: the chip reports failure, the block is going bad.
 */
#define JFTL_CHIP_FAILED 1

/*
 From `copy`: the chip reports that the program failed, the block of `to` is going bad.
 */
#define JFTL_CHIP_COPY_FAILED -75

/*
 The chip's driver failed: unmount, and mount again.
 */
#define JFTL_E_IO -5

/*
 The slice of RAM is too small: see `jftl_ram_needed`. After a power cut it must be as large as
 it was before, once.
 */
#define JFTL_E_NOMEM -12

/*
 A pointer is null, or does not have the alignment of what it points to.
 */
#define JFTL_E_FAULT -14

/*
 A call is under way (this one came from a callback), the lock was refused, or the disk is
 mounted already.
 */
#define JFTL_E_BUSY -16

/*
 An argument that cannot be: more than SIZE_MAX / 2 bytes, or a lock without its unlock.
 */
#define JFTL_E_INVAL -22

/*
 No block is left to write to: too many have gone bad.
 */
#define JFTL_E_NOSPC -28

/*
 Not written: a failure or damage came before. Mount again.
 */
#define JFTL_E_ROFS -30

/*
 Sectors beyond the end of the disk.
 */
#define JFTL_E_RANGE -34

/*
 A sector's page has more wrong bits than can be corrected. Writing the sector mends it.
 */
#define JFTL_E_UNREADABLE -74

/*
 A page that the disk itself needs is damaged.
 */
#define JFTL_E_CORRUPT -84

/*
 The disk is not mounted.
 */
#define JFTL_E_NOTMOUNTED -107

/*
 The chip holds no disk: format it.
 */
#define JFTL_E_NOTFORMATTED -1001

/*
 The chip's shape cannot be, cannot hold a disk, or is not the disk's.
 */
#define JFTL_E_GEOMETRY -1003

/*
 A callback of the chip is missing, or gave what it may not give.
 */
#define JFTL_E_CALLBACK -1005

/*
 Words of 64 bits of a `jftl`.
 */
#define JFTL_NUMBERS 100

/*
 Words of a pointer's size of a `jftl`.
 */
#define JFTL_POINTERS 44

/*
 A chip: its shape, and functions of yours, each given `context`. What they promise is in
 docs/porting.md. A negative result but JFTL_CHIP_UNCORRECTABLE and JFTL_CHIP_COPY_FAILED says
 that the driver failed. None may call a function of the disk whose chip this is. Copied at the
 mount.
 */
typedef struct jftl_chip {
  /*
   Handed to each function.
   */
  void *context;
  /*
   Data bytes of a page, and of a sector: a power of two from 512 to 16,384.
   */
  uint32_t page_size;
  /*
   Spare bytes of a page that neither ECC nor the bad-block marker takes. 8 or more are of use;
   with fewer, say 0, a page of each block is used instead.
   */
  uint32_t spare_size;
  /*
   Pages of an erase block, 4 to 1,024.
   */
  uint32_t pages_per_block;
  /*
   Erase blocks, bad ones included; 40 or more.
   */
  uint32_t blocks;
  /*
   Wrong bits of a page that the ECC corrects at least, 1 or more.
   */
  uint32_t correctable_bits;
  /*
   Reads `len` bytes of a page from byte `offset`, and the first `spare_len` usable spare
   bytes. Either length may be 0. Gives the bits that had to be corrected, 0 if none, or
   JFTL_CHIP_UNCORRECTABLE. An erased page reads as 0xff and 0.
   */
  int (*read)(void *context, uint32_t page, uint32_t offset, uint8_t *data, size_t len, uint8_t *spare, size_t spare_len);
  /*
   Programs a page: `len` bytes from byte 0, `spare_len` spare bytes from byte 0; the rest
   stays 0xff. Durable when this gives 0; or JFTL_CHIP_FAILED.
   */
  int (*program)(void *context, uint32_t page, const uint8_t *data, size_t len, const uint8_t *spare, size_t spare_len);
  /*
   Erases a block. Gives 0, or JFTL_CHIP_FAILED.
   */
  int (*erase)(void *context, uint32_t block);
  /*
   Whether a block is marked bad, by the factory or by `mark_bad`: 0 or 1.
   */
  int (*is_bad)(void *context, uint32_t block);
  /*
   Marks a block bad for good. Gives 0, also where that could not be done.
   */
  int (*mark_bad)(void *context, uint32_t block);
  /*
   Not called: jftl remembers which pages are free. A driver for Dhara has it; may be null.
   */
  int (*is_free)(void *context, uint32_t page);
  /*
   Copies the data of a page to another one inside the chip, corrected by its ECC. The spare
   bytes of `to` become these, and 0xff behind them. Durable when it succeeds. Gives what
   `read` would of `from`; of JFTL_CHIP_UNCORRECTABLE nothing was programmed. Or
   JFTL_CHIP_COPY_FAILED. May be null: then pages go over the bus twice.
   */
  int (*copy)(void *context, uint32_t from, uint32_t to, const uint8_t *spare, size_t spare_len);
  /*
   Whether `copy` may copy from one page to another: 0 or 1, ever the same. Some chips do not
   from one plane to another. Null: any page to any.
   */
  int (*copies)(void *context, uint32_t from, uint32_t to);
  /*
   Called before each flash operation, for a watchdog or other threads. May be null.
   */
  void (*yield)(void *context);
} jftl_chip;

/*
 A disk, besides its slice of RAM. All zeros before the first mount, as a `static` is. It stays
 where it is until the unmount.
 */
typedef struct jftl {
  uint64_t opaque_numbers[JFTL_NUMBERS];
  size_t opaque_pointers[JFTL_POINTERS];
} jftl;

/*
 Choices of a mount. All zeros, or no `jftl_options` at all: one thread.
 */
typedef struct jftl_options {
  /*
   Handed to each function.
   */
  void *context;
  /*
   Waits until no other thread is in a call of this disk, and gives 0. Anything else: this
   thread is in one already, and the call gives JFTL_E_BUSY. May be null.
   */
  int (*lock)(void *context);
  /*
   The end of it. Null if `lock` is.
   */
  void (*unlock)(void *context);
} jftl_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Gives the bytes of RAM that a disk on this chip needs in `bytes`, with so many pieces of its map
 in RAM: 4 at least, each of 128 sectors and 524 bytes. 0: all of the map, which is fastest.

 # Safety
 `chip` and `bytes` are null or valid.
 */
int jftl_ram_needed(const struct jftl_chip *chip, uint32_t pieces, size_t *bytes);

/*
 Says in words what a code means. The text ends with a zero and is never null.
 */
const char *jftl_strerror(int code);

/*
 Makes an empty disk: all sectors read as zeros. Anything on the chip is lost. `number` should be
 one that no earlier disk on this chip had: a random one will do. `disk` must not be mounted.

 # Safety
 As for `jftl_mount`.
 */
int jftl_format(struct jftl *disk,
                const struct jftl_chip *chip,
                void *ram,
                size_t ram_len,
                uint32_t number);

/*
 Mounts a disk, and recovers what was durable when power failed. `ram` is a slice of as many
 bytes as `jftl_ram_needed` says or more, at any address; it is the disk's until the unmount.
 `options` may be null.

 # Safety
 Each pointer is null or valid; `disk` is all zeros, or was mounted before; `ram` has `ram_len`
 bytes that nobody else uses.
 */
int jftl_mount(struct jftl *disk,
               const struct jftl_chip *chip,
               void *ram,
               size_t ram_len,
               const struct jftl_options *options);

/*
 Ends in good order: the next mount is short. After an error the mount has ended as well; the
 next one recovers what was durable.

 # Safety
 `disk` is null or points to a `jftl`.
 */
int jftl_unmount(struct jftl *disk);

/*
 Gives the number of sectors. A sector is as long as a page.

 # Safety
 `disk` is null or points to a `jftl`.
 */
int jftl_capacity(struct jftl *disk);

/*
 Reads `count` sectors from `first` on. What was never written, or trimmed, reads as zeros. One
 read a sector, and one for each piece of the map that is not in RAM.

 # Safety
 `disk` is null or points to a `jftl`; `data` is null or has room for the sectors.
 */
int jftl_read(struct jftl *disk, uint32_t first, void *data, uint32_t count);

/*
 Writes `count` sectors from `first` on. Durable after `jftl_sync`. One program a sector that is
 not all zeros, and its share of log, map and cleaning.

 # Safety
 `disk` is null or points to a `jftl`; `data` is null or has the sectors.
 */
int jftl_write(struct jftl *disk, uint32_t first, const void *data, uint32_t count);

/*
 Forgets `count` sectors from `first` on: they read as zeros, after `jftl_sync` for good.

 # Safety
 `disk` is null or points to a `jftl`.
 */
int jftl_trim(struct jftl *disk, uint32_t first, uint32_t count);

/*
 Makes everything durable that was written or trimmed before: one program, unless there is
 nothing to say, and now and then an erase or two.

 # Safety
 `disk` is null or points to a `jftl`.
 */
int jftl_sync(struct jftl *disk);

/*
 Cleans for a moment ahead of need; 1 if there is more to do, else 0.

 # Safety
 `disk` is null or points to a `jftl`.
 */
int jftl_gc(struct jftl *disk);

#ifdef __cplusplus
} // extern "C"
#endif // __cplusplus

#endif /* JFTL_H */
