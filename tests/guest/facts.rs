//! The stored facts about kernels (`collector/tests/kernels/`) match the kernels.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use trackiops_collector::{EngineChoice, KernelFacts, plan};

use crate::run::{KERNELS, Run};

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_kept_facts_are_those_of_each_kernel() {
    for kernel in KERNELS {
        let run = Run::on(kernel, "facts", &["--no-nfs"], &[]);
        let reduced = Command::new("python3")
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/python/btf_extract.py"
            ))
            .arg(&run.out)
            .status();
        assert!(reduced.expect("python3 can be started").success());
        assert_kept(kernel, &run.out);
    }
}

/// Compares the output of `facts.sh` with the stored facts. If the archive has a newer build, only checks that it can be recorded on.
fn assert_kept(kernel: &str, captured: &Path) {
    let facts = KernelFacts::read_in(captured);
    for choice in [EngineChoice::Direct, EngineChoice::Tracepoint] {
        plan(&facts, choice, None).unwrap_or_else(|e| panic!("{kernel} ({}): {e}", facts.release));
    }

    let kept = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("collector/tests/kernels")
        .join(kernel);
    let (kept, captured) = (files(&kept), files(captured));
    let build = |files: &BTreeMap<String, Vec<u8>>| files.get("proc/version").cloned();
    if build(&kept) != build(&captured) {
        println!(
            "{kernel}: {} is another build than the one that is kept, so only planned for: \
             `make kernel-facts KERNELS={kernel}` renews what is kept",
            facts.release
        );
        return;
    }
    let differ: BTreeSet<&String> = kept
        .keys()
        .chain(captured.keys())
        .filter(|path| kept.get(*path) != captured.get(*path))
        .collect();
    assert!(
        differ.is_empty(),
        "{kernel} ({}) says otherwise than collector/tests/kernels/{kernel} in {differ:?}",
        facts.release
    );
    println!("{kernel}: {} files as kept", kept.len());
}

/// Contents of all files below a directory, by path.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}
