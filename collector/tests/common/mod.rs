//! Reads the stored kernels in `tests/kernels/`; `make kernel-facts` renews them.

use std::fs;
use std::path::{Path, PathBuf};

use trackiops_collector::btf::Btf;

/// The kernels by the names of their directories; each has files as below `/`.
pub fn kernels() -> Vec<(String, PathBuf)> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
    let mut kernels: Vec<_> = fs::read_dir(all)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .collect();
    kernels.sort();
    assert!(kernels.len() >= 4, "{kernels:?}");
    kernels
}

/// The types of the kernel proper.
pub fn vmlinux(root: &Path) -> Btf<'static> {
    Btf::parse(file(root, "vmlinux").unwrap()).unwrap()
}

/// `None` if the kernel has no BTF of modules.
pub fn module<'b>(root: &Path, name: &str, vmlinux: &'b Btf<'b>) -> Option<Btf<'b>> {
    Some(Btf::parse_module(file(root, name)?, vmlinux).unwrap())
}

/// A BTF file, leaked into memory: tests end soon.
fn file(root: &Path, name: &str) -> Option<&'static [u8]> {
    let bytes = fs::read(root.join("sys/kernel/btf").join(name)).ok()?;
    Some(Vec::leak(bytes))
}
