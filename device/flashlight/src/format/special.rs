//! Special files: what stands in an inode for a device, a pipe or a socket.

use crate::format::inode::{MODE_BLOCK, MODE_CHAR, MODE_FIFO, MODE_SOCKET, MODE_TYPE};

/// A file that holds no data of its own: what it stands for is the user's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device, by its number. What the number means is between the caller and its
    /// system; Linux packs major and minor into 32 bits.
    Char(u32),
    /// A block device, by its number.
    Block(u32),
}

impl Special {
    /// What an inode's mode and size say.
    pub(crate) fn of(mode: u16, size: u64) -> Option<Special> {
        Some(match mode & MODE_TYPE {
            MODE_FIFO => Special::Fifo,
            MODE_SOCKET => Special::Socket,
            MODE_CHAR => Special::Char(size as u32),
            MODE_BLOCK => Special::Block(size as u32),
            _ => return None,
        })
    }

    pub(crate) fn mode(self) -> u16 {
        match self {
            Special::Fifo => MODE_FIFO,
            Special::Socket => MODE_SOCKET,
            Special::Char(_) => MODE_CHAR,
            Special::Block(_) => MODE_BLOCK,
        }
    }

    pub(crate) fn device(self) -> u32 {
        match self {
            Special::Fifo | Special::Socket => 0,
            Special::Char(number) | Special::Block(number) => number,
        }
    }
}
