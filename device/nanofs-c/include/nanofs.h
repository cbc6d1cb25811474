/* Nano-FS: a file system in 8 KB for SD cards and other managed media of 512-byte blocks.
 *
 * Made by cbindgen from device/nanofs-c/src/lib.rs: do not edit. Functions give 0 or what they say
 * when they succeed, and one of NANOFS_E_* when they fail. One thread at a time. */

#ifndef NANOFS_H
#define NANOFS_H

#include <stdint.h>

/*
 Bytes in a block of the device.
 */
#define NANOFS_BLOCK 512

/*
 Longest name in bytes.
 */
#define NANOFS_NAME_MAX 64

/*
 Files that can be open at a time.
 */
#define NANOFS_HANDLES 64

/*
 The end of the file, for `nanofs_seek`.
 */
#define NANOFS_END UINT32_MAX

/*
 Words of a `nanofs`.
 */
#define NANOFS_WORDS 271

/*
 The device failed: mount again before going on.
 */
#define NANOFS_E_DEVICE -1

/*
 The device is too small for so many files.
 */
#define NANOFS_E_GEOMETRY -2

/*
 There is no volume: format it. A device of which none of the first three blocks can be read is
 told so too: read one before you format. Of any call but `nanofs_mount`: no volume is mounted.
 */
#define NANOFS_E_NOT_FORMATTED -3

/*
 A volume of another version of the format.
 */
#define NANOFS_E_VERSION -4

/*
 A volume with another key.
 */
#define NANOFS_E_WRONG_KEY -5

/*
 The device has fewer blocks than the volume.
 */
#define NANOFS_E_DEVICE_TOO_SMALL -6

/*
 A file's header is damaged.
 */
#define NANOFS_E_BAD_HEADER -7

/*
 A block of the bitmap is damaged, or it disagrees with a file.
 */
#define NANOFS_E_BAD_BITMAP -8

/*
 A node or a tail is damaged, or is not what the list says.
 */
#define NANOFS_E_BAD_NODE -9

/*
 No free block, now: deleting makes room.
 */
#define NANOFS_E_FULL -10

/*
 The volume was made for no more files.
 */
#define NANOFS_E_TOO_MANY_FILES -11

/*
 All handles are in use.
 */
#define NANOFS_E_TOO_MANY_OPEN -12

/*
 A name of more than 64 bytes.
 */
#define NANOFS_E_NAME_TOO_LONG -13

/*
 An empty name.
 */
#define NANOFS_E_BAD_NAME -14

/*
 The name is taken.
 */
#define NANOFS_E_EXISTS -15

/*
 No such file.
 */
#define NANOFS_E_NOT_FOUND -16

/*
 Not a handle of an open file.
 */
#define NANOFS_E_BAD_HANDLE -17

/*
 Beyond the end of the file.
 */
#define NANOFS_E_BEYOND_END -18

/*
 The file is open.
 */
#define NANOFS_E_BUSY -19

/*
 No bytes where there must be some, or more than 2,147,483,647 of them.
 */
#define NANOFS_E_BAD_ARGUMENT -20

/*
 A volume and all the RAM it needs.
 */
typedef struct nanofs {
  uint64_t opaque[NANOFS_WORDS];
} nanofs;

/*
 A device of 512-byte blocks. Each function is given `context` and returns 0, or anything else
 when it failed. A cut write may leave a block torn or unreadable, but no other block.

 A read that fails is done again, twice; a block that cannot be read then counts as one that a
 cut has torn. So a driver repeats what fails on the way, such as a transfer with a wrong CRC.
 */
typedef struct nanofs_device {
  /*
   Handed to each function.
   */
  void *context;
  /*
   Blocks of the device.
   */
  uint32_t blocks;
  /*
   Reads blocks.
   */
  int (*read)(void *context, uint32_t first, uint8_t *data, uint32_t n);
  /*
   Writes blocks.
   */
  int (*write)(void *context, uint32_t first, const uint8_t *data, uint32_t n);
  /*
   Says that blocks are no longer needed. May be null.
   */
  int (*trim)(void *context, uint32_t first, uint32_t n);
  /*
   Returns when all that was written is durable. May be null.
   */
  int (*flush)(void *context);
} nanofs_device;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Makes a volume that knows its device. `nanofs_format` or `nanofs_mount` comes next.

 # Safety
 Both pointers are valid; the device stays for as long as the volume is used.
 */
void nanofs_init(struct nanofs *fs, const struct nanofs_device *device);

/*
 Makes an empty volume for at most `files` files, and mounts it. What the device held is lost.
 `seed` should be a number that no earlier volume on this device had.

 # Safety
 `fs` was given to `nanofs_init`.
 */
int nanofs_format(struct nanofs *fs, uint32_t key, uint32_t files, uint32_t seed);

/*
 Mounts the volume; recovers files that were open when power failed.

 # Safety
 `fs` was given to `nanofs_init`.
 */
int nanofs_mount(struct nanofs *fs, uint32_t key);

/*
 Opens a file and gives its handle.

 # Safety
 `fs` was given to `nanofs_init`; `name` has `len` bytes.
 */
int nanofs_open(struct nanofs *fs, const uint8_t *name, uint32_t len);

/*
 Makes an empty file, opens it and gives its handle. Durable when it returns.

 # Safety
 `fs` was given to `nanofs_init`; `name` has `len` bytes.
 */
int nanofs_create(struct nanofs *fs, const uint8_t *name, uint32_t len);

/*
 Closes a file.

 # Safety
 `fs` was given to `nanofs_init`.
 */
int nanofs_close(struct nanofs *fs, int handle);

/*
 Reads from the position on; gives how many bytes, fewer than asked for only at the end.

 # Safety
 `fs` was given to `nanofs_init`; `data` has room for `n` bytes.
 */
int nanofs_read(struct nanofs *fs, int handle, uint8_t *data, uint32_t n);

/*
 Writes at the position.

 # Safety
 `fs` was given to `nanofs_init`; `data` has `n` bytes.
 */
int nanofs_write(struct nanofs *fs, int handle, const uint8_t *data, uint32_t n);

/*
 Writes at the end of the file.

 # Safety
 `fs` was given to `nanofs_init`; `data` has `n` bytes.
 */
int nanofs_append(struct nanofs *fs, int handle, const uint8_t *data, uint32_t n);

/*
 Sets the position of the next read or write.

 # Safety
 `fs` was given to `nanofs_init`.
 */
int nanofs_seek(struct nanofs *fs, int handle, uint32_t pos);

/*
 Gives the position of the next read or write in `pos`.

 # Safety
 `fs` was given to `nanofs_init`; `pos` is valid.
 */
int nanofs_tell(struct nanofs *fs, int handle, uint32_t *pos);

/*
 Gives the bytes in a file in `size`.

 # Safety
 `fs` was given to `nanofs_init`; `size` is valid.
 */
int nanofs_size(struct nanofs *fs, int handle, uint32_t *size);

/*
 Cuts a file to `size` bytes.

 # Safety
 `fs` was given to `nanofs_init`.
 */
int nanofs_truncate(struct nanofs *fs, int handle, uint32_t size);

/*
 Deletes a file that is not open. Durable when it returns.

 # Safety
 `fs` was given to `nanofs_init`; `name` has `len` bytes.
 */
int nanofs_delete(struct nanofs *fs, const uint8_t *name, uint32_t len);

/*
 Gives a file another name that is not taken. Durable when it returns.

 # Safety
 `fs` was given to `nanofs_init`; the names have so many bytes.
 */
int nanofs_rename(struct nanofs *fs,
                  const uint8_t *from,
                  uint32_t from_len,
                  const uint8_t *to,
                  uint32_t to_len);

/*
 Goes on to the file behind `cursor`, 0 for the first; gives the next cursor, 0 behind the last.
 `nanofs_entry` tells of the file.

 # Safety
 `fs` was given to `nanofs_init`.
 */
int nanofs_next_file(struct nanofs *fs, int cursor);

/*
 The file that `nanofs_next_file` has found: its size in `size`, its name (not ended by a zero)
 in `name`, which has room for `NANOFS_NAME_MAX` bytes. Gives the length of the name.

 # Safety
 `fs` was given to `nanofs_init`; `name` and `size` are valid.
 */
int nanofs_entry(struct nanofs *fs, uint8_t *name, uint32_t *size);

/*
 Makes everything written so far durable.

 # Safety
 `fs` was given to `nanofs_init`.
 */
int nanofs_sync(struct nanofs *fs);

/*
 Gives the bytes that can still be written in `space`.

 # Safety
 `fs` was given to `nanofs_init`; `space` is valid.
 */
int nanofs_space_left(struct nanofs *fs, uint32_t *space);

/*
 Cleans with at most `budget` operations; 1 if more is left, else 0.

 # Safety
 `fs` was given to `nanofs_init`.
 */
int nanofs_clean(struct nanofs *fs, uint32_t budget);

#ifdef __cplusplus
} // extern "C"
#endif // __cplusplus

#endif /* NANOFS_H */
