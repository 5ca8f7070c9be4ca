//! Renews the lock file.

use anyhow::Result;

use crate::apt;
use crate::cache::Cache;
use crate::host;
use crate::kernel::{self, Kernel, Unknown};
use crate::lock::Lock;
use crate::mirror::Mirror;
use crate::packages::{GUEST_PACKAGES, GUEST_SECTION, Source};

/// Resolves these kernels again and writes them into the lock file; without arguments, everything in it.
pub fn update(kernels: &[Kernel]) -> Result<()> {
    host::ensure_tools()?;
    let cache = Cache::open()?;
    let _lock = cache.lock()?;
    let source = Source::new(&cache, Mirror::find()?);
    let old = if Lock::path().exists() {
        Lock::read()?
    } else {
        Lock::default()
    };
    let new = if kernels.is_empty() {
        everything(&source, &old)?
    } else {
        let mut new = old.clone();
        for kernel in kernels {
            lock_kernel(&mut new, kernel, &source)?;
        }
        new
    };
    new.write()?;
    for (name, packages) in &new.sections {
        let what = match old.sections.get(name) {
            Some(before) if before == packages => "unchanged",
            Some(_) => "renewed",
            None => "new",
        };
        host::say(format_args!("{name}: {} packages, {what}", packages.len()));
    }
    Ok(())
}

fn everything(source: &Source, old: &Lock) -> Result<Lock> {
    let mut new = Lock::default();
    let names: Vec<String> = GUEST_PACKAGES.iter().map(|s| s.to_string()).collect();
    let mut guest = source.apt(apt::GUEST)?.resolve(&names)?;
    guest.sort();
    new.sections.insert(GUEST_SECTION.into(), guest);
    let defaults = Kernel::defaults()?;
    for kernel in &defaults {
        lock_kernel(&mut new, kernel, source)?;
    }
    for name in old
        .kernels()
        .filter(|name| defaults.iter().all(|d| d.name != *name))
    {
        match lock_kernel(&mut new, &name.parse()?, source) {
            // A versioned name that has left the archive.
            Err(error) if error.is::<Unknown>() => {
                host::say(format_args!("warning: {error}; no longer locked"));
            }
            result => result?,
        }
    }
    Ok(new)
}

fn lock_kernel(lock: &mut Lock, kernel: &Kernel, source: &Source) -> Result<()> {
    let packages = kernel.resolve(source)?;
    host::say(format_args!(
        "{}: {}",
        kernel.name,
        kernel::describe(&packages)
    ));
    lock.sections
        .insert(Lock::kernel_section(&kernel.name), packages);
    Ok(())
}
