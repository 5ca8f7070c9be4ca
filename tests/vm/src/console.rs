//! The guest's serial console: kept, and watched for the signs of a kernel in trouble.

use std::collections::VecDeque;

/// Lines shown after a failure.
pub const TAIL: usize = 40;

/// Messages of a kernel that found something wrong. Excludes RCU stalls: an emulated CPU on a busy host stalls without a fault of the
/// kernel.
const FAILURES: &[&str] = &[
    "Kernel panic",
    "BUG:",
    "kernel BUG at",
    "Oops",
    STALE_CODE,
    "soft lockup",
    "general protection fault",
    "blocked for more than",
    "Unable to mount root",
    // WARN_ON (kernel/panic.c), and every report of lockdep (kernel/locking/lockdep.c) and of RCU's own checks.
    "WARNING:",
    "possible circular locking",
    "possible recursive locking",
    "possible irq lock inversion",
    "inconsistent lock state",
    "bad unlock balance",
    "suspicious RCU usage",
    "held lock freed",
    // `BUG: KFENCE: ...`, and other checkers of memory and arithmetic.
    "KFENCE:",
    "KASAN:",
    "KCSAN:",
    "KMSAN:",
    "UBSAN:",
    // slub_debug (mm/slub.c): `BUG kmalloc-64 (Not tainted): Poison overwritten`.
    "] BUG ",
    // page_poison (mm/page_poison.c).
    "pagealloc: memory corruption",
    "pagealloc: single bit error",
];

/// An unexpected breakpoint trap in the kernel: multi-threaded emulation (seen with QEMU 7.2) may repeat an instruction that the kernel has
/// patched in between.
const STALE_CODE: &str = "int3: 0000 [#";
/// An unexpected debug trap in kernel code: the same emulation returns to wrong flags (seen in `do_sync_core`, while sunrpc was loaded).
const STRAY_TRAP: &str = " exc_debug_kernel+";

/// Whether a trace's instruction pointer is at a forward jump. That may be a jump label, which the kernel patches while it runs. A backward
/// jump is the end of a loop.
fn is_at_jump_ahead(code: &str) -> bool {
    let displacement = |jump: &str, last: usize| {
        let (_, bytes) = code.split_once(jump)?;
        u8::from_str_radix(bytes.split_whitespace().nth(last)?, 16).ok()
    };
    let highest = displacement("<eb>", 0).or_else(|| displacement("<e9>", 3));
    highest.is_some_and(|byte| byte < 0x80)
}

/// Console text as it arrives.
#[derive(Default)]
pub struct Console {
    text: Vec<u8>,
    /// Start of the incomplete last line.
    line: usize,
    failure: Option<String>,
}

impl Console {
    /// Adds text. Returns the first line that reports a failure, once.
    pub fn push(&mut self, bytes: &[u8]) -> Option<String> {
        self.text.extend_from_slice(bytes);
        let had_failed = self.failure.is_some();
        while let Some(length) = self.text[self.line..].iter().position(|b| *b == b'\n') {
            let line = clean(&self.text[self.line..self.line + length]);
            self.line += length + 1;
            if self.failure.is_none() && is_failure(&line) {
                self.failure = Some(line);
            }
        }
        self.failure.clone().filter(|_| !had_failed)
    }

    /// The first line that reports a failure.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether the emulator failed, rather than the kernel.
    ///
    /// A CPU is stuck at a replaced instruction: it meets a breakpoint that existed for a moment, returns to the same place because it is
    /// gone, and meets it again. Seen with QEMU 7.2 in `bpf_trace_run2`, while the kernel's statistics of programs were switched on and
    /// off.
    pub fn is_of_emulator(&self) -> bool {
        let Some(failure) = self.failure() else {
            return false;
        };
        let is_stuck_at_replaced = || {
            let text = String::from_utf8_lossy(&self.text);
            let trace = text.split_once(failure).map(|(_, trace)| trace);
            let code = trace.and_then(|trace| trace.lines().find(|line| line.contains("Code: ")));
            code.is_some_and(is_at_jump_ahead)
        };
        failure.contains(STALE_CODE)
            || failure.contains(STRAY_TRAP)
            || failure.contains("soft lockup") && is_stuck_at_replaced()
    }

    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The last lines, without empty ones.
    pub fn tail(&self) -> Vec<String> {
        let mut tail = VecDeque::new();
        for line in self
            .text
            .rsplit(|b| *b == b'\n')
            .map(clean)
            .filter(|line| !line.is_empty())
            .take(TAIL)
        {
            tail.push_front(line);
        }
        tail.into()
    }
}

/// Only messages of the kernel itself count: their lines start with the time in brackets.
fn is_failure(line: &str) -> bool {
    line.starts_with('[') && FAILURES.iter().any(|sign| line.contains(sign))
}

/// A line without carriage returns and control characters.
fn clean(line: &[u8]) -> String {
    String::from_utf8_lossy(line)
        .chars()
        .filter(|c| !c.is_control() || *c == '\t')
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_in_trouble_is_noticed() {
        for line in [
            "[    1.5] Kernel panic - not syncing: sysrq triggered crash",
            "[   21.0] BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "[   21.0] Oops: 0002 [#1] PREEMPT SMP",
            "[    3.0] int3: 0000 [#1] PREEMPT SMP NOPTI",
            "[   90.1] watchdog: BUG: soft lockup - CPU#1 stuck for 52s! [bash:1]",
            "[  242.2] INFO: task dd:77 blocked for more than 120 seconds.",
            "[    3.0] kernel BUG at mm/slub.c:1!",
            "[    3.0] WARNING: CPU: 1 PID: 77 at mm/filemap.c:1 filemap_add_folio+0x1/0x2",
            "[    3.0] WARNING: possible circular locking dependency detected",
            "[    3.0] WARNING: suspicious RCU usage",
            "[    3.0] BUG: KFENCE: use-after-free read in bpf_prog_1+0x2/0x3",
            "[    3.0][   T77] BUG kmalloc-64 (Not tainted): Poison overwritten",
            "[    3.0] BUG: KASAN: slab-out-of-bounds in f+0x1/0x2",
            "[    3.0] pagealloc: memory corruption",
        ] {
            let mut console = Console::default();
            assert_eq!(
                console.push(line.as_bytes()),
                None,
                "the line is not complete"
            );
            assert_eq!(console.push(b"\r\n").as_deref(), Some(line));
            assert_eq!(console.push(b"[ 9.9] Kernel panic\n"), None, "told once");
        }
    }

    #[test]
    fn what_only_looks_like_trouble_is_not() {
        let mut console = Console::default();
        for line in [
            "[   30.0] rcu: INFO: rcu_preempt self-detected stall on CPU",
            "a program says BUG: and Oops",
            "[    0.1] Debugging enabled",
            "[    0.1] kfence: initialized - using 2097152 bytes for 255 objects at 0x1-0x2",
            "[   60.1] sysrq: Show Blocked State",
        ] {
            assert_eq!(console.push(format!("{line}\n").as_bytes()), None);
        }
    }

    #[test]
    fn the_emulators_failures_are_told_from_the_kernels() {
        let stuck = "[   90.1] watchdog: BUG: soft lockup - CPU#0 stuck for 79s! [date:419]";
        for (text, expected) in [
            ("[    1.1] Oops: int3: 0000 [#1] PREEMPT_RT SMP NOPTI".to_owned(), true),
            (
                "[   10.6] WARNING: CPU: 1 PID: 47 at arch/x86/kernel/traps.c:1120 exc_debug_kernel+0xca/0x160".to_owned(),
                true,
            ),
            (format!("{stuck}\n[   90.1] Code: e8 f8 21 f4 ff <eb> 37 48 8b"), true),
            (format!("{stuck}\n[   90.1] Code: 66 ff ff ff <e9> 0f 00 00 00 c3"), true),
            (format!("{stuck}\n[   90.1] Code: f3 90 <eb> f2 48 8b"), false),
            (format!("{stuck}\n[   90.1] Code: f3 90 <e9> f2 ff ff ff c3"), false),
            (format!("{stuck}\n[   90.1] Code: e8 f8 21 f4 ff <f3> 90 eb 37"), false),
            (stuck.to_owned(), false),
            ("[   21.0] Oops: 0002 [#1] PREEMPT SMP\n[   21.0] Code: 00 <eb> 37".to_owned(), false),
            ("[   21.0] a line".to_owned(), false),
        ] {
            let mut console = Console::default();
            console.push(format!("{text}\r\n").as_bytes());
            assert_eq!(console.is_of_emulator(), expected, "{text}");
        }
    }

    #[test]
    fn the_tail_is_the_end_in_order() {
        let mut console = Console::default();
        for n in 0..100 {
            console.push(format!("line {n}\r\n\r\n").as_bytes());
        }
        console.push(b"unfinished");
        let tail = console.tail();
        assert_eq!(tail.len(), TAIL);
        assert_eq!(
            (tail[TAIL - 1].as_str(), tail[TAIL - 2].as_str()),
            ("unfinished", "line 99")
        );
    }
}
