//! Emulation or virtualisation: KVM only where a boot has proved it.

use std::fs;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cache::Cache;
use crate::host;

/// A KVM boot takes two or three seconds. If it takes longer, KVM is not worth using.
pub const PROOF_LIMIT: Duration = Duration::from_secs(15);

const OVERRIDE: &str = "TRACKIOPS_VM_ACCEL";

/// How QEMU runs the guest's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// Emulated, one thread per CPU.
    Tcg,
    /// Emulated by turns on one thread, so no CPU ever runs code that another one just replaced. A CPU that is always busy keeps another one
    /// waiting for up to 100 ms.
    TcgByTurns,
    /// Emulated one instruction after the other; each takes a nanosecond of the guest's time.
    Counted,
    Kvm,
}

/// Five-level paging makes every page walk of the emulator longer. With ERMS, kernels clear and copy pages by `rep stosb` and `rep movsb`,
/// which the emulator executes byte by byte.
const EMULATED: &str = "max,la57=off,erms=off,fsrm=off";

impl Accel {
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcg => "tcg",
            Self::TcgByTurns => "tcg by turns",
            Self::Counted => "tcg that counts instructions",
            Self::Kvm => "kvm",
        }
    }

    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Tcg => &["-accel", "tcg,thread=multi", "-cpu", EMULATED],
            Self::TcgByTurns => &["-accel", "tcg,thread=single", "-cpu", EMULATED],
            // Without `sleep`, an idle guest jumps to its next timer at once.
            Self::Counted => &[
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=0,sleep=off",
                "-cpu",
                "max,la57=off",
            ],
            Self::Kvm => &["-accel", "kvm", "-cpu", "host"],
        }
    }

    /// Words for the kernel's command line.
    pub fn kernel_words(self) -> &'static str {
        match self {
            // The emulator finds translated code by its virtual address. At random addresses, each start of a program translates its libraries
            // again, which takes most of the start.
            Self::Tcg | Self::TcgByTurns => " norandmaps",
            Self::Counted | Self::Kvm => "",
        }
    }

    /// Chooses an accelerator. `prove` boots a machine with KVM and returns whether it came up; the verdict holds until the host reboots.
    pub fn choose(cache: &Cache, prove: impl FnOnce() -> bool) -> Result<Self> {
        match std::env::var(OVERRIDE).as_deref() {
            Ok("tcg") => return Ok(Self::Tcg),
            Ok("kvm") => return Ok(Self::Kvm),
            Ok("") | Err(_) => {}
            Ok(other) => bail!("{OVERRIDE}={other} is neither tcg nor kvm"),
        }
        if fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_err()
        {
            return Ok(Self::Tcg);
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let verdict = cache.dir("verdicts").join(format!("kvm-{}", boot.trim()));
        if let Ok(text) = fs::read_to_string(&verdict) {
            return Ok(if text == "works" {
                Self::Kvm
            } else {
                Self::Tcg
            });
        }
        host::say("trying KVM ...");
        // Written first, so that a proof that crashes this process is not repeated.
        fs::write(&verdict, "does not work")?;
        if !prove() {
            host::say("KVM does not work here; emulating");
            return Ok(Self::Tcg);
        }
        fs::write(&verdict, "works")?;
        Ok(Self::Kvm)
    }
}
