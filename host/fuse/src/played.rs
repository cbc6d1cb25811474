//! A mount without a kernel: whoever holds the other end of a socket plays it.
//!
//! Requests go the way that those of `/dev/fuse` go, from their bytes on. So what no kernel would
//! send can be tried, and no root and no device are needed.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use flashkit_vfs::Result;
use fuser::Session;

use crate::bridge::Bridge;
use crate::session::prepared;
use crate::state::Shared;
use crate::{MountOptions, Served};

/// A file system that is served over a socket that keeps messages apart.
pub struct Played {
    shared: Arc<Shared>,
    server: JoinHandle<io::Result<()>>,
}

/// How it ended.
pub struct PlayedOut {
    /// The file system, unmounted. `None` when it panicked.
    pub fs: Option<Box<Served>>,
    /// What its own unmount said.
    pub unmounted: Result<()>,
    /// Whether errors of the medium, or damage, were reported.
    pub met_errors: bool,
}

impl Played {
    /// Begins to serve. The first message, `FUSE_INIT`, must have been sent.
    ///
    /// # Errors
    /// It was another message, or there is no room for a thread.
    pub fn start(fs: Box<Served>, socket: OwnedFd, options: &MountOptions) -> io::Result<Played> {
        let root = fs.root();
        let fs = prepared(fs, options);
        let (events, _) = channel();
        let shared = Shared::new(fs, events, options);
        let bridge = Bridge::new(shared.clone(), root, options);
        let config = options.to_config();
        let session = Session::from_fd(bridge, socket, config.acl, config)?;
        let server = std::thread::Builder::new()
            .name("fuse-server".into())
            .spawn(move || session.run())?;
        Ok(Played { shared, server })
    }

    /// What a mount does between requests: makes changes durable, cleans, reads a page for the
    /// patrol. False: the file system has panicked.
    pub fn rest(&self, commit: bool, pages: u32) -> bool {
        let committed = !commit || self.shared.commit() == Ok(());
        committed && self.shared.clean(pages).is_ok() && self.shared.patrol().is_ok()
    }

    /// Unmounts, after the last message, `FUSE_DESTROY`.
    pub fn finish(self) -> PlayedOut {
        let served = self.server.join();
        let mut fs = match served {
            Ok(Ok(())) => self.shared.take(),
            _ => None,
        };
        let met_errors = self.shared.has_reported();
        let unmounted = match &mut fs {
            Some(fs) => fs.unmount(),
            None => Err(flashkit_vfs::Error::Io("the file system panicked".into())),
        };
        PlayedOut {
            fs,
            unmounted,
            met_errors,
        }
    }
}
