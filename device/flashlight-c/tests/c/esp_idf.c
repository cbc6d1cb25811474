/* The calls for ESP-IDF, and two tasks that make them at once. */

/* For the names of kinds of files. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>
/* As wide as it is there. */
#define off_t int32_t
#include "../../esp-idf/flashlight_vfs.c"

#define CHIP flashlight_chip
#define STRERROR flashlight_strerror
#include "../../../nand-c/tests/c/chip.h"

static esp_vfs_t calls;
static struct flashlight_vfs vfs;
static uint8_t ram[FLASHLIGHT_RAM(PAGE, PAGES, BLOCKS)];
static int held;

esp_err_t esp_vfs_register(const char *base_path, const esp_vfs_t *given, void *ctx)
{
    CHECK(base_path && ctx == &vfs);
    calls = *given;
    return 0;
}

/* A task that waits for the lock while another does something: here the lock's function does it. */
static void (*meanwhile)(void);

static int lock(void *context)
{
    void (*work)(void) = meanwhile;
    (void)context;
    meanwhile = NULL;
    if (work)
        work();
    CHECK(!held);
    held = 1;
    return 0;
}

static void unlock(void *context)
{
    (void)context;
    held = 0;
}

static void put(const char *path)
{
    int fd = calls.open_p(&vfs, path, O_WRONLY | O_CREAT | O_TRUNC, 0);
    CHECK(fd >= 0);
    GIVES(calls.write_p(&vfs, fd, path, 5), 5);
    GIVES(calls.close_p(&vfs, fd), 0);
}

static DIR *listed;
static int opened;

static void list_b(void)
{
    listed = calls.opendir_p(&vfs, "/b");
}

static void open_b(void)
{
    opened = calls.open_p(&vfs, "/b/in", O_RDONLY, 0);
}

/* Each has a listing of its own: with one for both, who removes what it lists in one directory is
 * given names of the other. */
static void two_tasks_list(void)
{
    meanwhile = list_b;
    DIR *of_a = calls.opendir_p(&vfs, "/a");
    CHECK(of_a && listed && of_a != listed);
    struct dirent *entry = calls.readdir_p(&vfs, of_a);
    CHECK(entry && strcmp(entry->d_name, "1") == 0);
    entry = calls.readdir_p(&vfs, listed);
    CHECK(entry && strcmp(entry->d_name, "in") == 0);
    GIVES(calls.closedir_p(&vfs, listed), 0);
    /* Nor does the end of one end another. */
    meanwhile = list_b;
    GIVES(calls.closedir_p(&vfs, of_a), 0);
    entry = calls.readdir_p(&vfs, listed);
    CHECK(entry && strcmp(entry->d_name, "in") == 0);
    GIVES(calls.closedir_p(&vfs, listed), 0);
}

static void two_tasks_open(void)
{
    char found[5];
    meanwhile = open_b;
    int of_a = calls.open_p(&vfs, "/a/1", O_RDONLY, 0);
    CHECK(of_a >= 0 && opened >= 0 && of_a != opened);
    GIVES(calls.read_p(&vfs, of_a, found, 5), 5);
    CHECK(memcmp(found, "/a/1", 5) == 0);
    GIVES(calls.read_p(&vfs, opened, found, 5), 5);
    CHECK(memcmp(found, "/b/in", 5) == 0);
    GIVES(calls.close_p(&vfs, of_a), 0);
    GIVES(calls.close_p(&vfs, opened), 0);
}

/* What could not be opened leaves its place to others. */
static void places_are_free_again(void)
{
    int fds[FLASHLIGHT_VFS_FILES];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < FLASHLIGHT_VFS_FILES; i++) {
            GIVES(calls.open_p(&vfs, "/none", O_RDONLY, 0), -1);
            CHECK(errno == ENOENT && calls.opendir_p(&vfs, "/none") == NULL);
        }
        for (int i = 0; i < FLASHLIGHT_VFS_FILES; i++) {
            fds[i] = calls.open_p(&vfs, "/a/1", O_RDONLY, 0);
            CHECK(fds[i] >= 0);
        }
        GIVES(calls.open_p(&vfs, "/a/1", O_RDONLY, 0), -1);
        CHECK(errno == ENFILE);
        for (int i = 0; i < FLASHLIGHT_VFS_FILES; i++)
            GIVES(calls.close_p(&vfs, fds[i]), 0);
        GIVES(calls.close_p(&vfs, fds[0]), -1);
        CHECK(errno == EBADF);
    }
}

/* A file larger than the C library can tell. With a position that has no number, or is negative, who
 * then writes does so where nobody looks for it. */
static void a_file_beyond_2_gib(void)
{
    struct stat found;
    flashlight_file file = {0};
    GIVES(flashlight_open(&vfs.volume, &file, "/a/1", FLASHLIGHT_O_RDWR), 0);
    GIVES(flashlight_truncate(&vfs.volume, &file, 3ll << 30), 0);
    int fd = calls.open_p(&vfs, "/a/1", O_RDWR, 0);
    GIVES(calls.lseek_p(&vfs, fd, 2, SEEK_SET), 2);
    errno = 0;
    GIVES(calls.lseek_p(&vfs, fd, 0, SEEK_END), -1);
    CHECK(errno == EOVERFLOW);
    GIVES(calls.lseek_p(&vfs, fd, 0, SEEK_CUR), 2);
    errno = 0;
    GIVES(calls.fstat_p(&vfs, fd, &found), -1);
    CHECK(errno == EOVERFLOW);
    GIVES(calls.stat_p(&vfs, "/a/1", &found), -1);
    GIVES(flashlight_truncate(&vfs.volume, &file, INT32_MAX), 0);
    GIVES(calls.lseek_p(&vfs, fd, 0, SEEK_END), INT32_MAX);
    GIVES(calls.fstat_p(&vfs, fd, &found), 0);
    CHECK(found.st_size == INT32_MAX);
    GIVES(calls.close_p(&vfs, fd), 0);
    GIVES(flashlight_close(&vfs.volume, &file), 0);
}

int main(void)
{
    struct chip *chip = chip_new();
    flashlight_chip functions = chip_of(chip);
    flashlight_options options = {.lock = lock, .unlock = unlock};
    GIVES(flashlight_format(&vfs.volume, &functions, ram, sizeof ram, 77), 0);
    GIVES(flashlight_mount(&vfs.volume, &functions, ram, sizeof ram, &options), 0);
    GIVES(flashlight_vfs_register("/flash", &vfs), 0);
    GIVES(calls.mkdir_p(&vfs, "/a", 0), 0);
    GIVES(calls.mkdir_p(&vfs, "/b", 0), 0);
    put("/a/1");
    put("/b/in");
    two_tasks_list();
    two_tasks_open();
    places_are_free_again();
    a_file_beyond_2_gib();
    GIVES(flashlight_unmount(&vfs.volume), 0);
    free(chip);
    return 0;
}
