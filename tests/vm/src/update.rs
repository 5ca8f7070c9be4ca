//! Renewing the lock file.

use anyhow::Result;

use crate::apt;
use crate::cache::Cache;
use crate::host;
use crate::kernel::KERNELS;
use crate::lock::Lock;
use crate::mirror::Mirror;
use crate::packages::{GUEST_PACKAGES, GUEST_SECTION, Source};

/// Resolves everything anew and writes the lock file.
pub fn update() -> Result<()> {
    host::ensure_tools()?;
    let cache = Cache::open()?;
    let _lock = cache.lock()?;
    let source = Source {
        cache: &cache,
        mirror: Mirror::find()?,
    };
    let mut lock = Lock::default();
    let names: Vec<String> = GUEST_PACKAGES.iter().map(|s| s.to_string()).collect();
    lock.sections.insert(
        GUEST_SECTION.into(),
        source.apt(apt::GUEST)?.resolve(&names)?,
    );
    for kernel in KERNELS {
        lock.sections
            .insert(kernel.section(), kernel.resolve(&source)?);
    }
    lock.write()?;
    for (name, packages) in &lock.sections {
        host::say(format_args!("{name}: {} packages", packages.len()));
    }
    Ok(())
}
