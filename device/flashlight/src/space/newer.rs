//! What a recovery that makes nothing durable leaves alone.

/// What a recovery that is not durable leaves alone: free blocks in which a checkpoint may have
/// something that cannot be read now, and can be by a later mount. Their first pages tell: they are
/// newer than the checkpoint found, and older than what such a recovery writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newer {
    /// The number of the checkpoint found, but for its upper half.
    pub(crate) since: u32,
    /// So far above it the numbers of such a recovery begin, below 2^31; 0: nothing is
    /// left alone. And [`SILENT`].
    pub(crate) span: u32,
}

/// No block is left that tells: any other is taken.
pub(crate) const SILENT: u32 = 1 << 31;

impl Newer {
    pub const NONE: Newer = Newer { since: 0, span: 0 };

    /// Newer than the checkpoint of one number, and older than what is written from another on.
    pub fn between(since: u64, own: u64) -> Newer {
        let span = (own - since).min(u64::from(SILENT - 1));
        Newer {
            since: since as u32,
            span: span as u32,
        }
    }

    pub(crate) fn is_silent(self) -> bool {
        self.span & SILENT != 0
    }

    /// Whether a page of this number, but for its upper half, is.
    pub(crate) fn has(self, seq: u32) -> bool {
        (1..self.span & !SILENT).contains(&seq.wrapping_sub(self.since))
    }
}
