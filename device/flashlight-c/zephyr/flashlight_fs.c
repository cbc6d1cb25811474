/* The calls of Zephyr's file systems, each as one of FlashLight. */

#include <errno.h>
#include <string.h>
#include <zephyr/fs/fs.h>
#include <zephyr/fs/fs_sys.h>
#include <zephyr/kernel.h>

#include "flashlight_zephyr.h"

K_MEM_SLAB_DEFINE_STATIC(files, sizeof(flashlight_file), CONFIG_FLASHLIGHT_OPEN_FILES, 8);
K_MEM_SLAB_DEFINE_STATIC(dirs, sizeof(flashlight_dir), CONFIG_FLASHLIGHT_OPEN_DIRS, 8);

/* Numbers of Zephyr's C library are not everywhere those of Linux. */
static int to_errno(long long code)
{
    switch (code) {
    case FLASHLIGHT_E_NOENT: return -ENOENT;
    case FLASHLIGHT_E_BADF: return -EBADF;
    case FLASHLIGHT_E_NOMEM: return -ENOMEM;
    case FLASHLIGHT_E_FAULT: return -EFAULT;
    case FLASHLIGHT_E_BUSY: return -EBUSY;
    case FLASHLIGHT_E_EXIST: return -EEXIST;
    case FLASHLIGHT_E_NOTDIR: return -ENOTDIR;
    case FLASHLIGHT_E_ISDIR: return -EISDIR;
    case FLASHLIGHT_E_INVAL: return -EINVAL;
    case FLASHLIGHT_E_FBIG: return -EFBIG;
    case FLASHLIGHT_E_NOSPC: return -ENOSPC;
    case FLASHLIGHT_E_ROFS: return -EROFS;
    case FLASHLIGHT_E_MLINK: return -EMLINK;
    case FLASHLIGHT_E_NAMETOOLONG: return -ENAMETOOLONG;
    case FLASHLIGHT_E_NOTEMPTY: return -ENOTEMPTY;
    case FLASHLIGHT_E_NOTMOUNTED:
    case FLASHLIGHT_E_NOTFORMATTED: return -ENODEV;
    default: return code < 0 ? -EIO : 0; /* positions are no results here */
    }
}

static struct flashlight_zephyr *data_of(const struct fs_mount_t *mount)
{
    return mount->fs_data;
}

static flashlight *volume_of(const struct fs_mount_t *mount)
{
    return &data_of(mount)->volume;
}

static const char *below(const char *path, const struct fs_mount_t *mount)
{
    return path + mount->mountp_len;
}

static int fl_open(struct fs_file_t *file, const char *path, fs_mode_t mode)
{
    /* Without either it is opened, and nothing can be done. */
    int flags = (mode & FS_O_READ || !mode ? FLASHLIGHT_O_RDONLY : 0) |
                (mode & FS_O_WRITE ? FLASHLIGHT_O_WRONLY : 0) |
                (mode & FS_O_CREATE ? FLASHLIGHT_O_CREAT : 0) |
                (mode & FS_O_TRUNC ? FLASHLIGHT_O_TRUNC : 0) |
                (mode & FS_O_APPEND ? FLASHLIGHT_O_APPEND : 0);
    void *handle;
    if (k_mem_slab_alloc(&files, &handle, K_NO_WAIT))
        return -ENOMEM;
    memset(handle, 0, sizeof(flashlight_file));
    int e = flashlight_open(volume_of(file->mp), handle, below(path, file->mp), flags);
    if (e < 0)
        k_mem_slab_free(&files, handle);
    else
        file->filep = handle;
    return to_errno(e);
}

/* Zephyr says that a close flushes. A file stays open to it until a close gives 0. One that has told
 * of a failure has closed it all the same: then there is no handle that the slab could be given
 * again. */
static int fl_close(struct fs_file_t *file)
{
    if (!file->filep)
        return 0;
    int synced = flashlight_fsync(volume_of(file->mp), file->filep);
    int e = flashlight_close(volume_of(file->mp), file->filep);
    /* After these it is still open. */
    if (e != FLASHLIGHT_E_BADF && e != FLASHLIGHT_E_BUSY && e != FLASHLIGHT_E_NOTMOUNTED) {
        k_mem_slab_free(&files, file->filep);
        file->filep = NULL;
    }
    return to_errno(e < 0 ? e : synced);
}

static ssize_t fl_read(struct fs_file_t *file, void *data, size_t len)
{
    ptrdiff_t n = flashlight_read(volume_of(file->mp), file->filep, data, len);
    return n < 0 ? to_errno(n) : n;
}

static ssize_t fl_write(struct fs_file_t *file, const void *data, size_t len)
{
    ptrdiff_t n = flashlight_write(volume_of(file->mp), file->filep, data, len);
    return n < 0 ? to_errno(n) : n;
}

static int fl_lseek(struct fs_file_t *file, off_t offset, int whence)
{
    int from = whence == FS_SEEK_SET   ? FLASHLIGHT_SEEK_SET
               : whence == FS_SEEK_CUR ? FLASHLIGHT_SEEK_CUR
               : whence == FS_SEEK_END ? FLASHLIGHT_SEEK_END
                                       : -1;
    return to_errno(flashlight_seek(volume_of(file->mp), file->filep, offset, from));
}

static off_t fl_tell(struct fs_file_t *file)
{
    int64_t at = flashlight_tell(volume_of(file->mp), file->filep);
    return at < 0 ? to_errno(at) : (off_t)at == at ? (off_t)at : -EOVERFLOW;
}

static int fl_truncate(struct fs_file_t *file, off_t size)
{
    return to_errno(flashlight_truncate(volume_of(file->mp), file->filep, size));
}

static int fl_sync(struct fs_file_t *file)
{
    return to_errno(flashlight_fsync(volume_of(file->mp), file->filep));
}

static int fl_opendir(struct fs_dir_t *dir, const char *path)
{
    void *handle;
    if (k_mem_slab_alloc(&dirs, &handle, K_NO_WAIT))
        return -ENOMEM;
    int e = flashlight_opendir(volume_of(dir->mp), handle, below(path, dir->mp));
    if (e < 0)
        k_mem_slab_free(&dirs, handle);
    else
        dir->dirp = handle;
    return to_errno(e);
}

static void give(struct fs_dirent *to, const flashlight_info *info)
{
    to->type = info->kind == FLASHLIGHT_TYPE_DIR ? FS_DIR_ENTRY_DIR : FS_DIR_ENTRY_FILE;
    uint64_t size = info->kind == FLASHLIGHT_TYPE_FILE ? info->size : 0;
    to->size = size < SIZE_MAX ? (size_t)size : SIZE_MAX;
}

/* An empty name is the end. */
static int fl_readdir(struct fs_dir_t *dir, struct fs_dirent *to)
{
    flashlight_entry entry;
    flashlight_info info;
    int e = flashlight_readdir(volume_of(dir->mp), dir->dirp, &entry, &info);
    if (e < 0)
        return to_errno(e);
    to->name[0] = 0;
    if (e == 0)
        return 0;
    if (strlen(entry.name) > MAX_FILE_NAME)
        return -ENAMETOOLONG;
    strcpy(to->name, entry.name);
    give(to, &info);
    return 0;
}

static int fl_closedir(struct fs_dir_t *dir)
{
    if (!dir->dirp)
        return 0;
    int e = flashlight_closedir(volume_of(dir->mp), dir->dirp);
    k_mem_slab_free(&dirs, dir->dirp);
    dir->dirp = NULL;
    return to_errno(e);
}

/* The volume's number should differ from format to format. */
static int format(struct flashlight_zephyr *data)
{
    return flashlight_format(&data->volume, &data->chip, data->ram, data->ram_len,
                             k_cycle_get_32());
}

static int fl_mount(struct fs_mount_t *mount)
{
    struct flashlight_zephyr *data = data_of(mount);
    flashlight_options options = data->options;
    if (mount->flags & FS_MOUNT_FLAG_READ_ONLY)
        options.read_only = 1;
    for (int formatted = 0;; formatted = 1) {
        int e = flashlight_mount(&data->volume, &data->chip, data->ram, data->ram_len, &options);
        if (e != FLASHLIGHT_E_NOTFORMATTED || formatted || options.read_only ||
            (mount->flags & FS_MOUNT_FLAG_NO_FORMAT))
            return to_errno(e);
        e = format(data);
        if (e < 0)
            return to_errno(e);
    }
}

static int fl_unmount(struct fs_mount_t *mount)
{
    return to_errno(flashlight_unmount(volume_of(mount)));
}

static int fl_unlink(struct fs_mount_t *mount, const char *path)
{
    return to_errno(flashlight_remove(volume_of(mount), below(path, mount)));
}

static int fl_rename(struct fs_mount_t *mount, const char *from, const char *to)
{
    return to_errno(flashlight_rename(volume_of(mount), below(from, mount), below(to, mount)));
}

static int fl_mkdir(struct fs_mount_t *mount, const char *path)
{
    return to_errno(flashlight_mkdir(volume_of(mount), below(path, mount)));
}

static int fl_stat(struct fs_mount_t *mount, const char *path, struct fs_dirent *to)
{
    flashlight_info info;
    int e = flashlight_stat(volume_of(mount), below(path, mount), &info);
    if (e < 0)
        return to_errno(e);
    const char *slash = strrchr(path, '/');
    strncpy(to->name, slash ? slash + 1 : path, MAX_FILE_NAME);
    to->name[MAX_FILE_NAME] = 0;
    give(to, &info);
    return 0;
}

static int fl_statvfs(struct fs_mount_t *mount, const char *path, struct fs_statvfs *to)
{
    (void)path;
    flashlight_space space;
    int e = flashlight_statvfs(volume_of(mount), &space);
    if (e < 0)
        return to_errno(e);
    to->f_bsize = space.page_size;
    to->f_frsize = space.page_size;
    to->f_blocks = space.pages;
    to->f_bfree = space.pages_free;
    return 0;
}

#ifdef CONFIG_FILE_SYSTEM_MKFS
static int fl_mkfs(uintptr_t device, void *config, int flags)
{
    (void)device;
    (void)flags;
    return config ? to_errno(format(config)) : -EINVAL;
}
#endif

static const struct fs_file_system_t calls = {
    .open = fl_open,
    .read = fl_read,
    .write = fl_write,
    .lseek = fl_lseek,
    .tell = fl_tell,
    .truncate = fl_truncate,
    .sync = fl_sync,
    .close = fl_close,
    .opendir = fl_opendir,
    .readdir = fl_readdir,
    .closedir = fl_closedir,
    .mount = fl_mount,
    .unmount = fl_unmount,
    .unlink = fl_unlink,
    .rename = fl_rename,
    .mkdir = fl_mkdir,
    .stat = fl_stat,
    .statvfs = fl_statvfs,
#ifdef CONFIG_FILE_SYSTEM_MKFS
    .mkfs = fl_mkfs,
#endif
};

int flashlight_zephyr_register(void)
{
    return fs_register(FLASHLIGHT_FS_TYPE, &calls);
}
