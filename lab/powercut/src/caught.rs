//! Panics as errors: a breach of the chip's contract, or a bug, is a violation like others.
//! `RUST_BACKTRACE=1` adds where.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; a panic in it becomes an error and prints nothing.
pub(crate) fn caught<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if CATCHING.get() {
                let trace = Backtrace::capture();
                let said = match trace.status() {
                    BacktraceStatus::Captured => format!("{info}\n{trace}\n"),
                    _ => info.to_string().replace('\n', " "),
                };
                SAID.with(|all| *all.borrow_mut() = Some(said));
            } else {
                usual(info);
            }
        }));
    });
    let outer = CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    CATCHING.set(outer);
    result.unwrap_or_else(|_| {
        let said = SAID
            .with(|said| said.borrow_mut().take())
            .unwrap_or_default();
        Err(format!("panic: {said}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let error = caught::<()>(|| panic!("a breach")).unwrap_err();
        assert!(error.contains("a breach"), "{error}");
        assert_eq!(caught(|| Ok(3)), Ok(3));
        assert_eq!(caught::<()>(|| Err("no".into())), Err("no".into()));
    }
}
