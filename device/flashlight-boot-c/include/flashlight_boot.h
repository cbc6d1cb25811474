/* The boot reader of FlashLight: files by path from raw NAND, whatever a power cut has left.
 *
 * Made by cbindgen from device/flashlight-boot-c/src: do not edit. docs/boot.md is the guide.
 *
 * Every call gives 0 or more when it succeeds, and one of FLASHLIGHT_BOOT_E_* when it fails. */

#ifndef FLASHLIGHT_BOOT_H
#define FLASHLIGHT_BOOT_H

#include <stddef.h>
#include <stdint.h>
/* Bytes of RAM for flashlight_boot_open, on a chip with pages of so many bytes. */
#define FLASHLIGHT_BOOT_RAM(page_size) (3 * (size_t)(page_size) + 800)

/*
 From `read`: more bits are wrong than can be corrected.
 */
#define FLASHLIGHT_BOOT_UNCORRECTABLE -74

/*
 Nothing has this name.
 */
#define FLASHLIGHT_BOOT_E_NOENT -2

/*
 The chip's driver failed, or a callback gave what it may not give.
 */
#define FLASHLIGHT_BOOT_E_IO -5

/*
 The slice of RAM is smaller than FLASHLIGHT_BOOT_RAM.
 */
#define FLASHLIGHT_BOOT_E_NOMEM -12

/*
 A pointer is null, or does not have the alignment of what it points to.
 */
#define FLASHLIGHT_BOOT_E_FAULT -14

/*
 A call is under way (this one came from a callback), or the volume is open already.
 */
#define FLASHLIGHT_BOOT_E_BUSY -16

/*
 A name on the way is not a directory's.
 */
#define FLASHLIGHT_BOOT_E_NOTDIR -20

/*
 A directory, a device, a pipe or a socket has no data.
 */
#define FLASHLIGHT_BOOT_E_NODATA -21

/*
 A path with `..`; a file that `flashlight_boot_find` has not found on this volume; or more than
 SIZE_MAX / 2 bytes.
 */
#define FLASHLIGHT_BOOT_E_INVAL -22

/*
 A name of more than 255 bytes, or a path of more than 512 with the links on the way.
 */
#define FLASHLIGHT_BOOT_E_NAMETOOLONG -36

/*
 More than 8 symbolic links on the way.
 */
#define FLASHLIGHT_BOOT_E_LOOP -40

/*
 More than 12 names of a directory share a hash, which no usual one comes to.
 */
#define FLASHLIGHT_BOOT_E_CROWDED -75

/*
 A page that is needed cannot be read, or is not what it should be.
 */
#define FLASHLIGHT_BOOT_E_CORRUPT -84

/*
 The volume is not open.
 */
#define FLASHLIGHT_BOOT_E_NOTOPEN -107

/*
 The chip holds no volume.
 */
#define FLASHLIGHT_BOOT_E_NOTFORMATTED -1001

/*
 The volume has another version of the format.
 */
#define FLASHLIGHT_BOOT_E_VERSION -1002

/*
 The chip's shape cannot be, or is not the volume's.
 */
#define FLASHLIGHT_BOOT_E_GEOMETRY -1003

/*
 A programmer has written the volume, from an image of `mkfs --slack`: only the library for Rust
 opens such.
 */
#define FLASHLIGHT_BOOT_E_TRANSFERRED -1006

/*
 A callback of the chip is missing.
 */
#define FLASHLIGHT_BOOT_E_CALLBACK -1005

/*
 Words of 64 bits of a `flashlight_boot`.
 */
#define FLASHLIGHT_BOOT_NUMBERS 24

/*
 Words of a pointer's size of a `flashlight_boot`.
 */
#define FLASHLIGHT_BOOT_POINTERS 32

/*
 Words of 64 bits of a `flashlight_boot_file` besides what it shows.
 */
#define FLASHLIGHT_BOOT_FILE_NUMBERS 8

/*
 A file with data.
 */
#define FLASHLIGHT_BOOT_FILE 1

/*
 A directory.
 */
#define FLASHLIGHT_BOOT_DIR 2

/*
 A device, a pipe or a socket.
 */
#define FLASHLIGHT_BOOT_SPECIAL 4

/*
 An open volume, besides its slice of RAM. All zeros before the first open, as a `static` is. It
 stays where it is until it is closed.
 */
typedef struct flashlight_boot {
  uint64_t opaque_numbers[FLASHLIGHT_BOOT_NUMBERS];
  size_t opaque_pointers[FLASHLIGHT_BOOT_POINTERS];
} flashlight_boot;

/*
 A chip: its shape, which must be the one that it was formatted with, and functions of yours,
 each given `context`. A negative result but FLASHLIGHT_BOOT_UNCORRECTABLE says that the driver
 failed. Copied when the volume is opened.
 */
typedef struct flashlight_boot_chip {
  /*
   Handed to each function.
   */
  void *context;
  /*
   Data bytes of a page: a power of two from 1,024 to 16,384.
   */
  uint32_t page_size;
  /*
   Usable spare bytes of a page.
   */
  uint32_t spare_size;
  /*
   Pages of an erase block.
   */
  uint32_t pages_per_block;
  /*
   Erase blocks, bad ones included.
   */
  uint32_t blocks;
  /*
   Reads `len` bytes of a page from byte `offset`, and the first `spare_len` usable spare
   bytes. Either length may be 0. Gives the bits that had to be corrected, 0 if none, or
   FLASHLIGHT_BOOT_UNCORRECTABLE. An erased page reads as 0xff and 0.
   */
  int (*read)(void *context, uint32_t page, uint32_t offset, uint8_t *data, size_t len, uint8_t *spare, size_t spare_len);
  /*
   Whether a block is marked bad: 0 or 1. Asked of some of the first 64.
   */
  int (*is_bad)(void *context, uint32_t block);
  /*
   Called before each read, for a watchdog. May be null.
   */
  void (*yield)(void *context);
  /*
   Reads `len` bytes from byte `offset` of the page that the last `read` was of, and no other
   function is called between. A SPI NAND has that page in its cache. Gives 0. With it only
   the bytes that a page uses go over the bus; without, null, whole pages do.
   */
  int (*read_more)(void *context, uint32_t offset, uint8_t *data, size_t len);
} flashlight_boot_chip;

/*
 A file that was found. It is not open: nothing has to be closed.
 */
typedef struct flashlight_boot_file {
  /*
   Bytes.
   */
  uint64_t size;
  /*
   FLASHLIGHT_BOOT_FILE, FLASHLIGHT_BOOT_DIR or FLASHLIGHT_BOOT_SPECIAL.
   */
  uint32_t kind;
  uint32_t opaque;
  uint64_t opaque_numbers[FLASHLIGHT_BOOT_FILE_NUMBERS];
  size_t opaque_pointer;
} flashlight_boot_file;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Says in words what a code means. The text ends with a zero and is never null.
 */
const char *flashlight_boot_strerror(int code);

/*
 Opens the volume of a chip. Of `ram` FLASHLIGHT_BOOT_RAM(page_size) bytes are used until it is
 closed; they need no alignment. Nothing is written to the chip, now or later. Opened while
 somebody writes to the chip, it shows anything: open it again after that.

 # Safety
 `boot` and `chip` are null or valid, `ram` is null or points to `ram_len` bytes. The chip's
 functions may be called until the volume is closed.
 */
int flashlight_boot_open(struct flashlight_boot *boot,
                         const struct flashlight_boot_chip *chip,
                         void *ram,
                         size_t ram_len);

/*
 Forgets the volume: its RAM and the chip are the caller's again.

 # Safety
 `boot` is null or valid.
 */
int flashlight_boot_close(struct flashlight_boot *boot);

/*
 Finds what a path leads to, from the root of the volume. Symbolic links are followed; a path
 with `..` is refused.

 # Safety
 `boot` and `file` are null or valid; `path` is null or ends with a zero.
 */
int flashlight_boot_find(struct flashlight_boot *boot,
                         const char *path,
                         struct flashlight_boot_file *file);

/*
 Reads `len` bytes of a file from byte `offset`. Gives 0 when all of them are read. Bytes beyond
 its end are FLASHLIGHT_BOOT_E_INVAL. After a failure there is anything in `data`.

 # Safety
 `boot` and `file` are null or valid; `data` is null or points to room for `len` bytes.
 */
int flashlight_boot_read(struct flashlight_boot *boot,
                         const struct flashlight_boot_file *file,
                         uint64_t offset,
                         void *data,
                         size_t len);

#ifdef __cplusplus
} // extern "C"
#endif // __cplusplus

#endif /* FLASHLIGHT_BOOT_H */
