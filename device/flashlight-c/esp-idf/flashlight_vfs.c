/* The calls of ESP-IDF's virtual file system, each as one of FlashLight. */

#include <errno.h>
#include <esp_vfs.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "flashlight_vfs.h"

/* Sets `errno`. Numbers of the C library are not everywhere those of Linux. */
static int failed(long long code)
{
    static const struct {
        int code, number;
    } numbers[] = {
        {FLASHLIGHT_E_NOENT, ENOENT},
        {FLASHLIGHT_E_BADF, EBADF},
        {FLASHLIGHT_E_NOMEM, ENOMEM},
        {FLASHLIGHT_E_FAULT, EFAULT},
        {FLASHLIGHT_E_BUSY, EBUSY},
        {FLASHLIGHT_E_EXIST, EEXIST},
        {FLASHLIGHT_E_NOTDIR, ENOTDIR},
        {FLASHLIGHT_E_ISDIR, EISDIR},
        {FLASHLIGHT_E_INVAL, EINVAL},
        {FLASHLIGHT_E_FBIG, EFBIG},
        {FLASHLIGHT_E_NOSPC, ENOSPC},
        {FLASHLIGHT_E_ROFS, EROFS},
        {FLASHLIGHT_E_MLINK, EMLINK},
        {FLASHLIGHT_E_NAMETOOLONG, ENAMETOOLONG},
        {FLASHLIGHT_E_NOTEMPTY, ENOTEMPTY},
        {FLASHLIGHT_E_NOTMOUNTED, ENODEV},
    };
    errno = EIO;
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].code == code)
            errno = numbers[i].number;
    return -1;
}

static int done(int code)
{
    return code < 0 ? failed(code) : 0;
}

/* Whether the C library has no number for a size or a position: on most targets it has 31 bits. */
static int too_large(int64_t at)
{
    if ((off_t)at == at)
        return 0;
    errno = EOVERFLOW;
    return 1;
}

/* Takes a place, unless it is taken: tasks look for one at once, before they wait for the lock. */
static int take(int *is_open)
{
    return !__atomic_exchange_n(is_open, 1, __ATOMIC_ACQ_REL);
}

static void leave(int *is_open)
{
    __atomic_store_n(is_open, 0, __ATOMIC_RELEASE);
}

/* The handle of a descriptor; null if there is none, which FlashLight refuses. */
static flashlight_file *file_of(struct flashlight_vfs *vfs, int fd)
{
    return fd >= 0 && fd < FLASHLIGHT_VFS_FILES && vfs->is_open[fd] ? &vfs->files[fd] : NULL;
}

static int fl_open(void *ctx, const char *path, int mode, int permissions)
{
    struct flashlight_vfs *vfs = ctx;
    (void)permissions;
    int access = mode & O_ACCMODE;
    int flags = (access == O_RDONLY   ? FLASHLIGHT_O_RDONLY
                 : access == O_WRONLY ? FLASHLIGHT_O_WRONLY
                                      : FLASHLIGHT_O_RDWR) |
                (mode & O_CREAT ? FLASHLIGHT_O_CREAT : 0) |
                (mode & O_EXCL ? FLASHLIGHT_O_EXCL : 0) |
                (mode & O_TRUNC ? FLASHLIGHT_O_TRUNC : 0) |
                (mode & O_APPEND ? FLASHLIGHT_O_APPEND : 0);
    for (int fd = 0; fd < FLASHLIGHT_VFS_FILES; fd++) {
        if (!take(&vfs->is_open[fd]))
            continue;
        int e = flashlight_open(&vfs->volume, &vfs->files[fd], path, flags);
        if (e >= 0)
            return fd;
        leave(&vfs->is_open[fd]);
        return failed(e);
    }
    errno = ENFILE;
    return -1;
}

static int fl_close(void *ctx, int fd)
{
    struct flashlight_vfs *vfs = ctx;
    flashlight_file *file = file_of(vfs, fd);
    if (!file)
        return failed(FLASHLIGHT_E_BADF);
    int e = flashlight_close(&vfs->volume, file);
    /* After these it is still open. */
    if (e != FLASHLIGHT_E_BUSY && e != FLASHLIGHT_E_NOTMOUNTED)
        leave(&vfs->is_open[fd]);
    return done(e);
}

static ssize_t fl_read(void *ctx, int fd, void *data, size_t len)
{
    struct flashlight_vfs *vfs = ctx;
    ptrdiff_t n = flashlight_read(&vfs->volume, file_of(vfs, fd), data, len);
    return n < 0 ? failed(n) : n;
}

static ssize_t fl_write(void *ctx, int fd, const void *data, size_t len)
{
    struct flashlight_vfs *vfs = ctx;
    ptrdiff_t n = flashlight_write(&vfs->volume, file_of(vfs, fd), data, len);
    return n < 0 ? failed(n) : n;
}

static off_t fl_lseek(void *ctx, int fd, off_t offset, int whence)
{
    struct flashlight_vfs *vfs = ctx;
    int from = whence == SEEK_SET   ? FLASHLIGHT_SEEK_SET
               : whence == SEEK_CUR ? FLASHLIGHT_SEEK_CUR
               : whence == SEEK_END ? FLASHLIGHT_SEEK_END
                                    : -1;
    flashlight_file *file = file_of(vfs, fd);
    int64_t before = flashlight_tell(&vfs->volume, file);
    int64_t at = flashlight_seek(&vfs->volume, file, offset, from);
    if (at < 0)
        return failed(at);
    if (!too_large(at))
        return (off_t)at;
    /* What is written next is not to go there. */
    flashlight_seek(&vfs->volume, file, before, FLASHLIGHT_SEEK_SET);
    return -1;
}

static int fl_fsync(void *ctx, int fd)
{
    struct flashlight_vfs *vfs = ctx;
    return done(flashlight_fsync(&vfs->volume, file_of(vfs, fd)));
}

static int fl_ftruncate(void *ctx, int fd, off_t size)
{
    struct flashlight_vfs *vfs = ctx;
    return done(flashlight_truncate(&vfs->volume, file_of(vfs, fd), size));
}

static int fl_fstat(void *ctx, int fd, struct stat *to)
{
    struct flashlight_vfs *vfs = ctx;
    int64_t size = flashlight_size(&vfs->volume, file_of(vfs, fd));
    if (size < 0)
        return failed(size);
    if (too_large(size))
        return -1;
    memset(to, 0, sizeof *to);
    to->st_size = (off_t)size;
    to->st_mode = S_IFREG | S_IRWXU;
    return 0;
}

static int fl_stat(void *ctx, const char *path, struct stat *to)
{
    struct flashlight_vfs *vfs = ctx;
    flashlight_info info;
    int e = flashlight_stat(&vfs->volume, path, &info);
    if (e < 0)
        return failed(e);
    if (too_large((int64_t)info.size))
        return -1;
    memset(to, 0, sizeof *to);
    to->st_size = info.kind == FLASHLIGHT_TYPE_FILE ? (off_t)info.size : 0;
    to->st_mode = (info.kind == FLASHLIGHT_TYPE_DIR ? S_IFDIR : S_IFREG) | S_IRWXU;
    to->st_mtime = (time_t)info.mtime;
    return 0;
}

/* `unlink` is for what is no directory, `rmdir` for a directory. */
static int remove_kind(struct flashlight_vfs *vfs, const char *path, int is_dir)
{
    flashlight_info info;
    int e = flashlight_stat(&vfs->volume, path, &info);
    if (e == 0 && (info.kind == FLASHLIGHT_TYPE_DIR) != is_dir)
        e = is_dir ? FLASHLIGHT_E_NOTDIR : FLASHLIGHT_E_ISDIR;
    return done(e < 0 ? e : flashlight_remove(&vfs->volume, path));
}

static int fl_unlink(void *ctx, const char *path)
{
    return remove_kind(ctx, path, 0);
}

static int fl_rmdir(void *ctx, const char *path)
{
    return remove_kind(ctx, path, 1);
}

static int fl_rename(void *ctx, const char *from, const char *to)
{
    struct flashlight_vfs *vfs = ctx;
    return done(flashlight_rename(&vfs->volume, from, to));
}

static int fl_mkdir(void *ctx, const char *path, mode_t permissions)
{
    struct flashlight_vfs *vfs = ctx;
    (void)permissions;
    return done(flashlight_mkdir(&vfs->volume, path));
}

static DIR *fl_opendir(void *ctx, const char *path)
{
    struct flashlight_vfs *vfs = ctx;
    for (int i = 0; i < FLASHLIGHT_VFS_DIRS; i++) {
        struct flashlight_vfs_dir *dir = &vfs->dirs[i];
        if (!take(&dir->is_open))
            continue;
        int e = flashlight_opendir(&vfs->volume, &dir->listing, path);
        if (e >= 0)
            return &dir->dir;
        leave(&dir->is_open);
        failed(e);
        return NULL;
    }
    errno = ENFILE;
    return NULL;
}

static struct dirent *fl_readdir(void *ctx, DIR *handle)
{
    struct flashlight_vfs *vfs = ctx;
    struct flashlight_vfs_dir *dir = (struct flashlight_vfs_dir *)handle;
    flashlight_entry entry;
    int e = flashlight_readdir(&vfs->volume, &dir->listing, &entry, NULL);
    if (e < 0)
        failed(e);
    if (e <= 0)
        return NULL;
    if (strlen(entry.name) >= sizeof dir->entry.d_name) {
        failed(FLASHLIGHT_E_NAMETOOLONG);
        return NULL;
    }
    memset(&dir->entry, 0, sizeof dir->entry);
    dir->entry.d_type = entry.kind == FLASHLIGHT_TYPE_DIR ? DT_DIR : DT_REG;
    strcpy(dir->entry.d_name, entry.name);
    return &dir->entry;
}

static int fl_closedir(void *ctx, DIR *handle)
{
    struct flashlight_vfs *vfs = ctx;
    struct flashlight_vfs_dir *dir = (struct flashlight_vfs_dir *)handle;
    int e = flashlight_closedir(&vfs->volume, &dir->listing);
    leave(&dir->is_open);
    return done(e);
}

esp_err_t flashlight_vfs_register(const char *base_path, struct flashlight_vfs *vfs)
{
    const esp_vfs_t calls = {
        .flags = ESP_VFS_FLAG_CONTEXT_PTR,
        .open_p = fl_open,
        .close_p = fl_close,
        .read_p = fl_read,
        .write_p = fl_write,
        .lseek_p = fl_lseek,
        .fsync_p = fl_fsync,
        .fstat_p = fl_fstat,
        .ftruncate_p = fl_ftruncate,
        .stat_p = fl_stat,
        .unlink_p = fl_unlink,
        .rename_p = fl_rename,
        .mkdir_p = fl_mkdir,
        .rmdir_p = fl_rmdir,
        .opendir_p = fl_opendir,
        .readdir_p = fl_readdir,
        .closedir_p = fl_closedir,
    };
    return esp_vfs_register(base_path, &calls, vfs);
}
