//! Blocks and pages: which are free, taken, valid, worn; programs and erases.
//!
//! Knows `format`. Everything above sees pages of areas and never a bare erase.
//!
//! Invariants:
//! * Nothing that was valid at the last checkpoint, and no page written since, is
//!   erased before the next one.
//! * A block is taken only after a page on flash names it with its area.
//! * After a failure of the driver nothing is programmed any more.

pub(crate) mod allocation;
pub(crate) mod block_list;
pub(crate) mod dirty;
pub(crate) mod erased;
pub(crate) mod failing;
pub(crate) mod filters;
pub(crate) mod heads;
pub(crate) mod latch;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod newer;
pub(crate) mod opened;
pub(crate) mod paged;
pub(crate) mod pages;
pub(crate) mod refresh;
pub(crate) mod remnants;
pub(crate) mod scratch_holds;
pub(crate) mod shared_page;
pub(crate) mod since;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod table_page;
pub(crate) mod tail;
pub(crate) mod tally;
pub(crate) mod unmovable;
pub(crate) mod updates;
pub(crate) mod valid;
pub(crate) mod validity;
pub(crate) mod wear;
pub(crate) mod written;
