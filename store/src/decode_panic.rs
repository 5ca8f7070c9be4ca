//! Reports panics of libraries that decode files as damage.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Depth of nested calls of [`caught`] in this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Decodes Parquet or Arrow. An error is the reason as text. A panic of their readers becomes an error, too, and prints
/// nothing.
pub fn caught<T, E: ToString>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    print_nothing_here();
    DEPTH.set(DEPTH.get() + 1);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    DEPTH.set(DEPTH.get() - 1);
    match decoded {
        Ok(decoded) => decoded.map_err(|error| error.to_string()),
        Err(_) => Err("it cannot be decoded".to_owned()),
    }
}

fn print_nothing_here() {
    static HOOK: Once = Once::new();
    // Setting a hook would panic.
    if std::thread::panicking() {
        return;
    }
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if DEPTH.try_with(Cell::get).unwrap_or(0) == 0 {
                before(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_panic_of_a_decoder_is_an_error_and_prints_nothing() {
        static PRINTED: AtomicU32 = AtomicU32::new(0);
        const OWN: &str = "a panic of this test";
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            match panic.to_string().contains(OWN) {
                true => drop(PRINTED.fetch_add(1, Ordering::Relaxed)),
                false => before(panic),
            }
        }));
        let decode = || -> Result<(), String> { panic!("{OWN}") };
        assert_eq!(caught(decode), Err("it cannot be decoded".to_owned()));
        let nested = caught(|| caught(decode));
        assert_eq!(nested, Err("it cannot be decoded".to_owned()));
        assert_eq!(PRINTED.load(Ordering::Relaxed), 0);
        let _ = catch_unwind(decode);
        assert_eq!(PRINTED.load(Ordering::Relaxed), 1);
    }
}
