/* FlashLight: a power-safe file system for raw NAND in 16 KiB of RAM, without a heap.
 *
 * Made by cbindgen from device/flashlight-c/src: do not edit. docs/flashlight-c.md is the guide.
 *
 * Every call gives 0 or more when it succeeds, and one of FLASHLIGHT_E_* when it fails. A path is
 * bytes that end with a zero; slashes separate its names; it starts at the root. */

#ifndef FLASHLIGHT_H
#define FLASHLIGHT_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of RAM that a volume needs on a chip of this shape: what flashlight_ram_needed gives, as a
 * constant. More makes it faster, see docs/flashlight-c.md. */
#define FLASHLIGHT_RAM(page_size, pages_per_block, blocks) \
  (6u * (page_size) + 384u + \
   (FLASHLIGHT_PAGED_(page_size, pages_per_block, blocks) \
        ? (page_size) + 9u * FLASHLIGHT_PAGES_(page_size, pages_per_block, blocks) + \
              (2u + FLASHLIGHT_ENTRY_(pages_per_block)) * \
                  (FLASHLIGHT_FULL_(page_size, pages_per_block, blocks) + 96u) + \
              65u * (2u + ((pages_per_block) + 7u) / 8u) \
        : FLASHLIGHT_ENTRY_(pages_per_block) * FLASHLIGHT_BLOCKS_(blocks) + \
              161u * (2u + ((pages_per_block) + 7u) / 8u)))

/* What the macro above is made of. */
#define FLASHLIGHT_BLOCKS_(blocks) ((blocks) > 65535u ? 65535u : (blocks))
#define FLASHLIGHT_ENTRY_(pages_per_block) ((pages_per_block) > 120u ? 2u : 1u)
#define FLASHLIGHT_PER_PAGE_(page_size, pages_per_block) \
  (((page_size) - 36u) / FLASHLIGHT_ENTRY_(pages_per_block))
#define FLASHLIGHT_PAGES_(page_size, pages_per_block, blocks) \
  ((FLASHLIGHT_BLOCKS_(blocks) + FLASHLIGHT_PER_PAGE_(page_size, pages_per_block) - 1u) / \
   FLASHLIGHT_PER_PAGE_(page_size, pages_per_block))
#define FLASHLIGHT_FULL_(page_size, pages_per_block, blocks) \
  (72u + 2u * FLASHLIGHT_PAGES_(page_size, pages_per_block, blocks) < \
           FLASHLIGHT_PER_PAGE_(page_size, pages_per_block) \
       ? 72u + 2u * FLASHLIGHT_PAGES_(page_size, pages_per_block, blocks) \
       : FLASHLIGHT_PER_PAGE_(page_size, pages_per_block))
#define FLASHLIGHT_PAGED_(page_size, pages_per_block, blocks) \
  (FLASHLIGHT_ENTRY_(pages_per_block) * FLASHLIGHT_BLOCKS_(blocks) > (page_size) && \
   FLASHLIGHT_FULL_(page_size, pages_per_block, blocks) >= \
       3u * FLASHLIGHT_PAGES_(page_size, pages_per_block, blocks) && \
   FLASHLIGHT_PAGES_(page_size, pages_per_block, blocks) <= 128u && \
   320u + 8u * FLASHLIGHT_PAGES_(page_size, pages_per_block, blocks) + \
           (2u + FLASHLIGHT_ENTRY_(pages_per_block)) * \
               (FLASHLIGHT_FULL_(page_size, pages_per_block, blocks) + 96u) <= \
       (page_size))

/*
 From `read` and `copy`: more bits are wrong than can be corrected.
 */
#define FLASHLIGHT_CHIP_UNCORRECTABLE -74

/*
 From `program` and `erase`: the chip reports failure, the block is going bad.
 */
#define FLASHLIGHT_CHIP_FAILED 1

/*
 From `copy`: the chip reports that the program failed, the block of `to` is going bad.
 */
#define FLASHLIGHT_CHIP_COPY_FAILED -75

/*
 No such file or directory.
 */
#define FLASHLIGHT_E_NOENT -2

/*
 The chip's driver failed: unmount, and mount again.
 */
#define FLASHLIGHT_E_IO -5

/*
 Not an open handle of this volume, or the file was not opened for that.
 */
#define FLASHLIGHT_E_BADF -9

/*
 The slice of RAM is too small: see `flashlight_ram_needed`.
 */
#define FLASHLIGHT_E_NOMEM -12

/*
 A pointer is null, or does not have the alignment of what it points to.
 */
#define FLASHLIGHT_E_FAULT -14

/*
 A call is under way (this one came from a callback), the lock was refused, the volume is mounted
 already, the handle is open already, or files are open at an unmount.
 */
#define FLASHLIGHT_E_BUSY -16

/*
 The name is taken.
 */
#define FLASHLIGHT_E_EXIST -17

/*
 Not a directory.
 */
#define FLASHLIGHT_E_NOTDIR -20

/*
 A directory.
 */
#define FLASHLIGHT_E_ISDIR -21

/*
 An argument that cannot be: flags, a position before the start, more than SIZE_MAX / 2 bytes, a
 directory moved into itself.
 */
#define FLASHLIGHT_E_INVAL -22

/*
 Can never fit: a file that is too large, or too many names of one hash in a directory.
 */
#define FLASHLIGHT_E_FBIG -27

/*
 No space left: deleting makes room.
 */
#define FLASHLIGHT_E_NOSPC -28

/*
 Mounted read-only, or stopped by damage or a driver's failure before: see `flashlight_health`.
 */
#define FLASHLIGHT_E_ROFS -30

/*
 Too many links.
 */
#define FLASHLIGHT_E_MLINK -31

/*
 A name of more than 255 bytes, or a path of more than 4,095.
 */
#define FLASHLIGHT_E_NAMETOOLONG -36

/*
 The directory still has entries.
 */
#define FLASHLIGHT_E_NOTEMPTY -39

/*
 No such extended attribute.
 */
#define FLASHLIGHT_E_NODATA -61

/*
 A page on the chip cannot be read, or is not what it should be.
 */
#define FLASHLIGHT_E_CORRUPT -84

/*
 The volume is not mounted.
 */
#define FLASHLIGHT_E_NOTMOUNTED -107

/*
 The chip holds no FlashLight volume: format it.
 */
#define FLASHLIGHT_E_NOTFORMATTED -1001

/*
 A volume of another version of the format.
 */
#define FLASHLIGHT_E_VERSION -1002

/*
 The chip's shape cannot be, cannot hold a volume, or is not the volume's.
 */
#define FLASHLIGHT_E_GEOMETRY -1003

/*
 More blocks are bad than the volume was made for.
 */
#define FLASHLIGHT_E_TOOMANYBAD -1004

/*
 A callback of the chip is missing, or gave what it may not give.
 */
#define FLASHLIGHT_E_CALLBACK -1005

/*
 A programmer has written a volume to the chip, from an image of `mkfs --slack`: only the library
 for Rust mounts such. Do not format it.
 */
#define FLASHLIGHT_E_TRANSFERRED -1006

/*
 For reading.
 */
#define FLASHLIGHT_O_RDONLY 1

/*
 For writing.
 */
#define FLASHLIGHT_O_WRONLY 2

/*
 For both.
 */
#define FLASHLIGHT_O_RDWR 3

/*
 Makes the file if there is none; for writing.
 */
#define FLASHLIGHT_O_CREAT 256

/*
 With FLASHLIGHT_O_CREAT: fails if there is one.
 */
#define FLASHLIGHT_O_EXCL 512

/*
 Cuts a file that is there to nothing; for writing.
 */
#define FLASHLIGHT_O_TRUNC 1024

/*
 For writing, each time at the end.
 */
#define FLASHLIGHT_O_APPEND 2048

/*
 `flashlight_seek` counts from the start.
 */
#define FLASHLIGHT_SEEK_SET 0

/*
 `flashlight_seek` counts from the position.
 */
#define FLASHLIGHT_SEEK_CUR 1

/*
 `flashlight_seek` counts from the end.
 */
#define FLASHLIGHT_SEEK_END 2

/*
 A file.
 */
#define FLASHLIGHT_TYPE_FILE 1

/*
 A directory.
 */
#define FLASHLIGHT_TYPE_DIR 2

/*
 A symbolic link, made by another program; it is not followed.
 */
#define FLASHLIGHT_TYPE_SYMLINK 3

/*
 A device, a pipe or a socket, made by another program.
 */
#define FLASHLIGHT_TYPE_SPECIAL 4

/*
 Words of 64 bits of a `flashlight`.
 */
#define FLASHLIGHT_NUMBERS 200

/*
 Words of a pointer's size of a `flashlight`.
 */
#define FLASHLIGHT_POINTERS 92

/*
 Words of a `flashlight_file`.
 */
#define FLASHLIGHT_FILE_WORDS 6

/*
 Words of a `flashlight_dir`.
 */
#define FLASHLIGHT_DIR_WORDS 5

/*
 A chip: its shape, and functions of yours, each given `context`. What they promise is in
 docs/porting.md. A negative result but FLASHLIGHT_CHIP_UNCORRECTABLE and
 FLASHLIGHT_CHIP_COPY_FAILED says that the driver failed (a bus, a timeout), and nothing of the
 medium. None may call a function of the volume whose chip this is. Copied at the mount.
 */
typedef struct flashlight_chip {
  /*
   Handed to each function.
   */
  void *context;
  /*
   Data bytes of a page: a power of two from 1,024 to 16,384.
   */
  uint32_t page_size;
  /*
   Spare bytes of a page that neither ECC nor the bad-block marker takes; 24 or more are of
   use.
   */
  uint32_t spare_size;
  /*
   Pages of an erase block, 8 to 1,024.
   */
  uint32_t pages_per_block;
  /*
   Erase blocks, bad ones included.
   */
  uint32_t blocks;
  /*
   Wrong bits of a page that the ECC corrects at least, 1 or more.
   */
  uint32_t correctable_bits;
  /*
   Reads `len` bytes of a page from byte `offset`, and the first `spare_len` usable spare
   bytes. Either length may be 0. Gives the bits that had to be corrected, 0 if none, or
   FLASHLIGHT_CHIP_UNCORRECTABLE. An erased page reads as 0xff and 0.
   */
  int (*read)(void *context, uint32_t page, uint32_t offset, uint8_t *data, size_t len, uint8_t *spare, size_t spare_len);
  /*
   Programs a page: `len` bytes from byte 0, `spare_len` spare bytes from byte 0; the rest
   stays 0xff. Durable when this gives 0; or FLASHLIGHT_CHIP_FAILED.
   */
  int (*program)(void *context, uint32_t page, const uint8_t *data, size_t len, const uint8_t *spare, size_t spare_len);
  /*
   Erases a block. Gives 0, or FLASHLIGHT_CHIP_FAILED.
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
   Copies the data of a page to another one inside the chip, corrected by its ECC. The spare
   bytes of `to` become these, and 0xff behind them. Durable when it succeeds. Gives what
   `read` would of `from`; of FLASHLIGHT_CHIP_UNCORRECTABLE nothing was programmed. Or
   FLASHLIGHT_CHIP_COPY_FAILED. May be null: then pages go over the bus twice.
   */
  int (*copy)(void *context, uint32_t from, uint32_t to, const uint8_t *spare, size_t spare_len);
  /*
   Called before each flash operation, for a watchdog or other threads. May be null.
   */
  void (*yield)(void *context);
  /*
   Reads `len` bytes from byte `offset` of the page that the last `read` was of, and no other
   function is called between. A SPI NAND has that page in its cache. Gives 0. With it only
   the bytes that a page uses go over the bus; without, null, whole pages do.
   */
  int (*read_more)(void *context, uint32_t offset, uint8_t *data, size_t len);
  /*
   Whether `copy` may copy from one page to another: 0 or 1, ever the same. Some chips do not
   from one plane to another. Null: any page to any.
   */
  int (*copies)(void *context, uint32_t from, uint32_t to);
} flashlight_chip;

/*
 A volume, besides its slice of RAM. All zeros before the first mount, as a `static` is. It stays
 where it is, and is given to nobody else, until the unmount.
 */
typedef struct flashlight {
  uint64_t opaque_numbers[FLASHLIGHT_NUMBERS];
  size_t opaque_pointers[FLASHLIGHT_POINTERS];
} flashlight;

/*
 An open file. All zeros before it is first opened. It stays where it is until it is closed.
 */
typedef struct flashlight_file {
  uint64_t opaque[FLASHLIGHT_FILE_WORDS];
} flashlight_file;

/*
 What a path names.
 */
typedef struct flashlight_info {
  /*
   Bytes of a file; entries of a directory.
   */
  uint64_t size;
  /*
   When it was changed, in seconds since 1970, by `flashlight_options.now`.
   */
  int64_t mtime;
  /*
   Its number on the volume.
   */
  uint32_t inode;
  /*
   Names that it has; of a directory, 2 and its subdirectories.
   */
  uint32_t links;
  /*
   FLASHLIGHT_TYPE_*.
   */
  uint32_t kind;
} flashlight_info;

/*
 A directory that is being listed.
 */
typedef struct flashlight_dir {
  uint64_t opaque[FLASHLIGHT_DIR_WORDS];
} flashlight_dir;

/*
 An entry of a directory.
 */
typedef struct flashlight_entry {
  /*
   Its number on the volume.
   */
  uint32_t inode;
  /*
   FLASHLIGHT_TYPE_*.
   */
  uint32_t kind;
  /*
   Its name, with a zero at the end.
   */
  char name[256];
} flashlight_entry;

/*
 Choices of a mount. All zeros, or no `flashlight_options` at all: one thread, no clock.
 */
typedef struct flashlight_options {
  /*
   Handed to each function.
   */
  void *context;
  /*
   Waits until no other thread is in a call of this volume, and gives 0. Anything else: this
   thread is in one already, and the call gives FLASHLIGHT_E_BUSY. A recursive lock that gives
   0 then will do as well. May be null.
   */
  int (*lock)(void *context);
  /*
   The end of it. Null if `lock` is.
   */
  void (*unlock)(void *context);
  /*
   Seconds since 1970, for the times of what is changed. May be null: all times are 0.
   */
  int64_t (*now)(void *context);
  /*
   1: nothing can be changed. A volume that was not unmounted is recovered all the same. Else
   0.
   */
  uint8_t read_only;
} flashlight_options;

/*
 What a step of scrubbing has done.
 */
typedef struct flashlight_scrubbed {
  /*
   Pages read.
   */
  uint32_t read;
  /*
   Blocks written anew because bits in them had to be corrected: 0 or 1.
   */
  uint32_t refreshed;
  /*
   1: a page in use cannot be read; it is of the inode `inode`, 0 if that is not known. Else 0.
   */
  uint32_t unreadable;
  /*
   See there.
   */
  uint32_t inode;
  /*
   1: everything in use has been read since the round began. Else 0.
   */
  uint32_t done;
} flashlight_scrubbed;

/*
 Space of a volume.
 */
typedef struct flashlight_space {
  /*
   Bytes of a page.
   */
  uint32_t page_size;
  /*
   Pages for data and metadata together.
   */
  uint32_t pages;
  /*
   Of them, free.
   */
  uint32_t pages_free;
  /*
   Bytes of a name at most.
   */
  uint32_t name_max;
} flashlight_space;

/*
 How a volume and its chip are. Counts are since the mount, but for blocks.
 */
typedef struct flashlight_report {
  /*
   Blocks of the chip.
   */
  uint32_t blocks;
  /*
   Of them, bad: from the factory, or gone bad in use.
   */
  uint32_t bad_blocks;
  /*
   1: so many blocks have gone bad that nothing is changed any more. Else 0.
   */
  uint32_t is_worn;
  /*
   Why nothing is written until the next mount: 0 nothing is wrong, 1 a driver's failure, 2 a
   change was made in part, 3 the block table cannot be read or written.
   */
  uint32_t stopped;
  /*
   The driver's last failure, as it gave it; FLASHLIGHT_E_CALLBACK for nonsense; 0 for none.
   */
  int driver_error;
  /*
   1: what a file or a name was lately has been lost by damage; the next sync says so. Else 0.
   */
  uint32_t lost_change;
  /*
   Reads with bits that had to be corrected.
   */
  uint32_t corrected_reads;
  /*
   The most bits of one read.
   */
  uint32_t corrected_most;
  /*
   Reads with more wrong bits than can be corrected. Power cuts leave pages that give such.
   */
  uint32_t unreadable_reads;
  /*
   Programs that the chip said have failed.
   */
  uint32_t failed_programs;
  /*
   Erases that the chip said have failed.
   */
  uint32_t failed_erases;
  /*
   Erases.
   */
  uint64_t erases;
  /*
   Pages of file data written for the program.
   */
  uint64_t written_pages;
  /*
   Pages moved: by cleaning, for wear, and for the sake of bits that had to be corrected.
   */
  uint64_t moved_pages;
  /*
   Blocks written anew because bits in them had to be corrected.
   */
  uint64_t refreshed_blocks;
  /*
   The debt of cleaning: pages that hold nothing valid, in blocks that hold something valid.
   */
  uint32_t obsolete_pages;
  /*
   Pages that can be written before a write waits for cleaning.
   */
  uint32_t pages_before_cleaning;
} flashlight_report;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Gives the bytes of RAM that a volume on this chip needs in `bytes`. FLASHLIGHT_RAM gives the
 same as a constant.

 # Safety
 `chip` and `bytes` are null or valid.
 */
int flashlight_ram_needed(const struct flashlight_chip *chip, size_t *bytes);

/*
 Says in words what a code means. The text ends with a zero and is never null.
 */
const char *flashlight_strerror(int code);

/*
 Opens a file, with FLASHLIGHT_O_* or'ed together. A file that is made is durable after its first
 `flashlight_fsync`. Several handles may have one file open.

 # Safety
 Each pointer is null or valid. `file` is all zeros, or was closed; it stays where it is until it
 is closed.
 */
int flashlight_open(struct flashlight *fs,
                    struct flashlight_file *file,
                    const char *path,
                    int flags);

/*
 Closes a file. What was written is no more durable than before. Whatever this gives but
 FLASHLIGHT_E_BADF, FLASHLIGHT_E_BUSY and FLASHLIGHT_E_NOTMOUNTED, the handle is closed.

 # Safety
 Each pointer is null or valid.
 */
int flashlight_close(struct flashlight *fs, struct flashlight_file *file);

/*
 Reads from the position on; gives how many bytes, fewer than `len` only at the end. One page
 read for each page touched, and those of its extents.

 # Safety
 Each pointer is null or valid; `data` has room for `len` bytes.
 */
ptrdiff_t flashlight_read(struct flashlight *fs,
                          struct flashlight_file *file,
                          void *data,
                          size_t len);

/*
 Writes all of `len` bytes at the position, or at the end of a file opened to append; gives
 `len`. Durable after `flashlight_fsync`. One program for each whole page. When it fails the
 position stays, and the pages before may be written: who appends cuts the file to the size it
 had before another try.

 # Safety
 Each pointer is null or valid; `data` has `len` bytes.
 */
ptrdiff_t flashlight_write(struct flashlight *fs,
                           struct flashlight_file *file,
                           const void *data,
                           size_t len);

/*
 Sets the position and gives it. It may be beyond the end: a write there leaves a hole of zeros.

 # Safety
 Each pointer is null or valid.
 */
int64_t flashlight_seek(struct flashlight *fs,
                        struct flashlight_file *file,
                        int64_t offset,
                        int whence);

/*
 Gives the position.

 # Safety
 Each pointer is null or valid.
 */
int64_t flashlight_tell(struct flashlight *fs, struct flashlight_file *file);

/*
 Gives the file's size in bytes.

 # Safety
 Each pointer is null or valid.
 */
int64_t flashlight_size(struct flashlight *fs, struct flashlight_file *file);

/*
 Cuts a file to `size` bytes, or extends it by a hole of zeros. The position stays.

 # Safety
 Each pointer is null or valid.
 */
int flashlight_truncate(struct flashlight *fs, struct flashlight_file *file, int64_t size);

/*
 Makes a file durable: data, size and name. One program, if anything has changed.

 # Safety
 Each pointer is null or valid.
 */
int flashlight_fsync(struct flashlight *fs, struct flashlight_file *file);

/*
 Says what a path names.

 # Safety
 Each pointer is null or valid.
 */
int flashlight_stat(struct flashlight *fs, const char *path, struct flashlight_info *info);

/*
 Makes a directory. Durable when this returns.

 # Safety
 Each pointer is null or valid.
 */
int flashlight_mkdir(struct flashlight *fs, const char *path);

/*
 Removes a file or an empty directory. A directory is gone for good when this returns, a file
 after the next `flashlight_sync`. A file that is open stays usable until it is closed.

 # Safety
 Each pointer is null or valid.
 */
int flashlight_remove(struct flashlight *fs, const char *path);

/*
 Renames, and replaces what has the name: a file by a file, an empty directory by a directory.
 Atomic, and durable when this returns.

 # Safety
 Each pointer is null or valid.
 */
int flashlight_rename(struct flashlight *fs, const char *from, const char *to);

/*
 Begins to list a directory.

 # Safety
 Each pointer is null or valid.
 */
int flashlight_opendir(struct flashlight *fs, struct flashlight_dir *dir, const char *path);

/*
 Goes on to the next entry: 1, and what it is in `entry`; 0 at the end. What stays is listed
 once, whatever comes and goes meanwhile. `info`, if it is not null, is what `flashlight_stat`
 would give; it costs up to three reads more.

 # Safety
 Each pointer is null or valid.
 */
int flashlight_readdir(struct flashlight *fs,
                       struct flashlight_dir *dir,
                       struct flashlight_entry *entry,
                       struct flashlight_info *info);

/*
 Ends a listing.

 # Safety
 Each pointer is null or valid.
 */
int flashlight_closedir(struct flashlight *fs, struct flashlight_dir *dir);

/*
 Makes an empty volume: erases all good blocks. Anything on the chip is lost. `number` should be
 one that no earlier volume on this chip had: a random one will do. `fs` must not be mounted.

 # Safety
 As for `flashlight_mount`.
 */
int flashlight_format(struct flashlight *fs,
                      const struct flashlight_chip *chip,
                      void *ram,
                      size_t ram_len,
                      uint32_t number);

/*
 Mounts a volume, and recovers what was durable when power failed. `ram` is a slice of
 FLASHLIGHT_RAM bytes or more, at any address; it is the volume's until the unmount. `options`
 may be null. Some 40 reads after an unmount, else more, and programs.

 # Safety
 Each pointer is null or valid; `fs` is all zeros, or was mounted before; `ram` has `ram_len`
 bytes that nobody else uses.
 */
int flashlight_mount(struct flashlight *fs,
                     const struct flashlight_chip *chip,
                     void *ram,
                     size_t ram_len,
                     const struct flashlight_options *options);

/*
 Makes everything durable and ends the mount. FLASHLIGHT_E_BUSY while files are open. After any
 other error the mount has ended as well; the next one recovers what was durable.

 # Safety
 `fs` is null or points to a `flashlight`.
 */
int flashlight_unmount(struct flashlight *fs);

/*
 Makes everything durable: a checkpoint, if anything has changed.

 # Safety
 `fs` is null or points to a `flashlight`.
 */
int flashlight_sync(struct flashlight *fs);

/*
 Cleans while nothing else is to be done: about as long as the moves of `pages` pages take. 1 if
 more could be won by going on, else 0.

 # Safety
 `fs` is null or points to a `flashlight`.
 */
int flashlight_gc(struct flashlight *fs, uint32_t pages);

/*
 Pages that can be written before a write waits for cleaning; 2,147,483,647 at most. No flash
 operation.

 # Safety
 `fs` is null or points to a `flashlight`.
 */
int flashlight_pages_before_cleaning(struct flashlight *fs);

/*
 Reads on through what is in use, at most `pages` pages, and writes a block anew whose bits had
 to be corrected. Call it again until `result` says `done`: then all that is stored has been
 read.

 # Safety
 `fs` is null or points to a `flashlight`; `result` is null or valid.
 */
int flashlight_scrub(struct flashlight *fs, uint32_t pages, struct flashlight_scrubbed *result);

/*
 Says how much space there is. No flash operation.

 # Safety
 `fs` is null or points to a `flashlight`; `space` is null or valid.
 */
int flashlight_statvfs(struct flashlight *fs, struct flashlight_space *space);

/*
 Says how the volume and its chip are. No flash operation, but on a chip with more blocks than a
 page has bytes: there one read for each page of the block table.

 # Safety
 `fs` is null or points to a `flashlight`; `report` is null or valid.
 */
int flashlight_health(struct flashlight *fs, struct flashlight_report *report);

#ifdef __cplusplus
} // extern "C"
#endif // __cplusplus

#endif /* FLASHLIGHT_H */
