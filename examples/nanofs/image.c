/* Nano-FS from C: a volume in a file.
 *
 *   image IMAGE format BLOCKS        makes a volume of so many blocks, for 16 files
 *   image IMAGE put NAME             stores what comes on standard input
 *   image IMAGE append NAME          adds what comes on standard input
 *   image IMAGE get NAME             prints a file
 *   image IMAGE list                 lists the files
 *   image IMAGE delete NAME          deletes a file
 *
 * `flashkit ls`, `cp`, `fsck` and `mount` open such a volume, too.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nanofs.h"

enum { KEY = 0, FILES = 16 };

/* All the memory that the file system needs. */
static nanofs fs;

static int file_read(void *context, uint32_t first, uint8_t *data, uint32_t n)
{
    ssize_t len = (ssize_t)n * NANOFS_BLOCK;
    return pread(*(int *)context, data, (size_t)len, (off_t)first * NANOFS_BLOCK) != len;
}

static int file_write(void *context, uint32_t first, const uint8_t *data, uint32_t n)
{
    ssize_t len = (ssize_t)n * NANOFS_BLOCK;
    return pwrite(*(int *)context, data, (size_t)len, (off_t)first * NANOFS_BLOCK) != len;
}

static int file_flush(void *context) { return fsync(*(int *)context); }

/* Ends the program if a call has failed. */
static int must(const char *what, int result)
{
    if (result < 0) {
        fprintf(stderr, "%s: error %d (see nanofs.h)\n", what, result);
        exit(1);
    }
    return result;
}

static void store(int file)
{
    uint8_t data[4096];
    for (size_t n; (n = fread(data, 1, sizeof data, stdin)) > 0;)
        must("write", nanofs_append(&fs, file, data, (uint32_t)n));
    must("close", nanofs_close(&fs, file));
}

static int usage(void)
{
    fputs("usage: image IMAGE format BLOCKS | put NAME | append NAME | get NAME | list | delete NAME\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return usage();
    const char *verb = argv[2];
    int formats = strcmp(verb, "format") == 0;
    if (argc != (strcmp(verb, "list") == 0 ? 3 : 4))
        return usage();

    int fd = open(argv[1], formats ? O_RDWR | O_CREAT : O_RDWR, 0644);
    struct stat status;
    if (fd < 0 || (formats && ftruncate(fd, atol(argv[3]) * NANOFS_BLOCK)) || fstat(fd, &status)) {
        fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    nanofs_device device = {
        .context = &fd,
        .blocks = (uint32_t)(status.st_size / NANOFS_BLOCK),
        .read = file_read,
        .write = file_write,
        .flush = file_flush,
    };
    nanofs_init(&fs, &device);
    if (formats)
        return must("format", nanofs_format(&fs, KEY, FILES, (uint32_t)time(0)));
    must("mount", nanofs_mount(&fs, KEY));

    uint8_t data[4096];
    if (strcmp(verb, "list") == 0) {
        uint32_t size;
        for (int cursor = 0; (cursor = must("list", nanofs_next_file(&fs, cursor))) != 0;) {
            int len = nanofs_entry(&fs, data, &size);
            printf("%10u %.*s\n", (unsigned)size, len, (char *)data);
        }
        return 0;
    }

    const uint8_t *name = (const uint8_t *)argv[3];
    uint32_t len = (uint32_t)strlen(argv[3]);
    int file = nanofs_open(&fs, name, len);
    if (strcmp(verb, "put") == 0) {
        if (file == NANOFS_E_NOT_FOUND)
            file = nanofs_create(&fs, name, len);
        must("open", file);
        must("truncate", nanofs_truncate(&fs, file, 0));
        store(file);
    } else if (strcmp(verb, "append") == 0) {
        store(must("open", file));
    } else if (strcmp(verb, "get") == 0) {
        must("open", file);
        for (int n; (n = must("read", nanofs_read(&fs, file, data, sizeof data))) > 0;)
            fwrite(data, 1, (size_t)n, stdout);
    } else if (strcmp(verb, "delete") == 0) {
        must("close", nanofs_close(&fs, must("open", file)));
        must("delete", nanofs_delete(&fs, name, len));
        /* There is nothing else to do. */
        must("clean", nanofs_clean(&fs, UINT32_MAX));
    } else {
        return usage();
    }
    must("sync", nanofs_sync(&fs));
    return 0;
}
