/* Blocks of a disk that change together: a journal written once.
 *
 *   blocks DISK set N TEXT [N TEXT]...   gives blocks new contents, all of them or none
 *   blocks DISK free N...                gives blocks up, all of them or none
 *   blocks DISK get N                    prints a block
 *
 * DISK is what `flashkit attach --ftl page IMAGE DIR` shows as DIR/disk. A journal at the disk's
 * start takes the new contents; then one call maps them to their homes. So nothing is written
 * twice, and after a crash there is nothing to replay: the call has happened, or it has not.
 */

#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { JOURNAL_BLOCKS = 64 };

/* One run of a transaction, in bytes of the disk and in whole blocks, little-endian. */
struct entry {
    uint64_t home;
    uint64_t journal; /* NOTHING: the home is given up */
    uint64_t bytes;
};
#define NOTHING UINT64_MAX

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t home_of(const char *number, uint64_t block)
{
    return (JOURNAL_BLOCKS + strtoull(number, NULL, 10)) * block;
}

/* All of it, durably, and what was written before; or nothing. */
static void commit(int disk, const struct entry *entries, size_t n)
{
    if (fsetxattr(disk, "user.flashkit.remap", entries, n * sizeof *entries, 0) != 0)
        fail("commit");
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: blocks DISK set N TEXT... | free N... | get N\n");
        return 2;
    }
    /* Past the cache of the kernel, which does not know what a commit changes. */
    int disk = open(argv[1], O_RDWR | O_DIRECT);
    struct statvfs about;
    if (disk < 0 || fstatvfs(disk, &about) != 0)
        fail(argv[1]);
    uint64_t block = about.f_bsize;
    char *data = aligned_alloc(4096, (block + 4095) / 4096 * 4096);
    if (data == NULL)
        fail("memory");
    struct entry entries[JOURNAL_BLOCKS];
    size_t n = 0;
    if (strcmp(argv[2], "get") == 0) {
        if (pread(disk, data, block, (off_t)home_of(argv[3], block)) != (ssize_t)block)
            fail("read");
        printf("%.*s\n", (int)block, data);
    } else if (strcmp(argv[2], "free") == 0) {
        for (int i = 3; i < argc && n < JOURNAL_BLOCKS; i++)
            entries[n++] = (struct entry){htole64(home_of(argv[i], block)), NOTHING, htole64(block)};
        commit(disk, entries, n);
    } else {
        for (int i = 3; i + 1 < argc && n < JOURNAL_BLOCKS; i += 2, n++) {
            uint64_t at = n * block;
            memset(data, 0, block);
            strncpy(data, argv[i + 1], block - 1);
            if (pwrite(disk, data, block, (off_t)at) != (ssize_t)block)
                fail("write");
            entries[n] = (struct entry){htole64(home_of(argv[i], block)), htole64(at), htole64(block)};
        }
        commit(disk, entries, n);
    }
    close(disk);
    return 0;
}
