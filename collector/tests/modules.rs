//! If the NFS client was not built with the kernel, structures come from its modules' BTF or are unknown.
#![allow(clippy::unwrap_used, dead_code)] // Helpers of tests, too, of which others need more.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{kernels, vmlinux};
use tempfile::TempDir;
use trackiops_collector::{EngineChoice, KernelFacts, Levels, Plan, Programs, Unsupported, plan};

const BTF: &str = "sys/kernel/btf";

/// A copy of a kernel's stored files.
fn copy(kernel: &str) -> (TempDir, PathBuf) {
    let (_, from) = kernels()
        .into_iter()
        .find(|(name, _)| name == kernel)
        .unwrap();
    let to = tempfile::tempdir().unwrap();
    let root = to.path().to_owned();
    copy_directory(&from, &root);
    (to, root)
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_directory(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn taint(root: &Path, module: &str, letters: &str) {
    let directory = root.join("sys/module").join(module);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("taint"), format!("{letters}\n")).unwrap();
}

/// BTF of a module whose `struct rpc_task` has 5 words, `tk_start`, `tk_owner`, and optionally `tk_rqstp`.
fn own_rpc_task(root: &Path, has_transmission: bool) -> Vec<u8> {
    let base = fs::read(root.join(BTF).join("vmlinux")).unwrap();
    let names_of_base = u32::from_le_bytes(base[20..24].try_into().unwrap());
    let first = vmlinux(root).numbers().end;
    let names = "\0long\0int\0rpc_task\0tk_start\0tk_owner\0tk_rqstp\0";
    let name = |name: &str| names_of_base + names.find(&format!("\0{name}\0")).unwrap() as u32 + 1;
    let (int, pointer, structure) = (1 << 24, 2 << 24, 4 << 24);
    let members = [
        [name("tk_start"), first, 320],
        [name("tk_owner"), first + 1, 384],
        [name("tk_rqstp"), first + 2, 448],
    ];
    let members = &members[..if has_transmission { 3 } else { 2 }];
    let mut types = vec![name("long"), int, 8, 64, name("int"), int, 4, 32];
    types.extend([0, pointer, 0]);
    types.extend([name("rpc_task"), structure | members.len() as u32, 64]);
    types.extend(members.iter().flatten());
    let bytes = 4 * types.len() as u32;
    let header = [0x0001_eb9f, 24, 0, bytes, bytes, names.len() as u32];
    let words = header.iter().chain(&types);
    let words = words.flat_map(|word| word.to_le_bytes());
    words.chain(names.bytes()).collect()
}

fn planned(root: &Path, choice: EngineChoice) -> Result<Plan, Unsupported> {
    plan(&KernelFacts::read_in(root), choice, Some(Levels::WIRE))
}

#[test]
fn the_loaded_module_has_the_structures_that_count() {
    for kernel in ["6.1", "6.12", "newest"] {
        let (_directory, root) = copy(kernel);
        let own = own_rpc_task(&root, true);
        fs::write(root.join(BTF).join("sunrpc"), own).unwrap();
        taint(&root, "sunrpc", "OE");
        let plan = planned(&root, EngineChoice::Auto).unwrap();
        let Programs::Direct { offsets, .. } = plan.programs else {
            panic!("{kernel}: {:?}", plan.fallback);
        };
        let of_task = [
            offsets.task_start,
            offsets.task_owner,
            offsets.task_transmission,
        ];
        assert_eq!(of_task.map(|held| held.offset()), [40, 48, 56], "{kernel}");
        // The structure lacks every member that operations need.
        assert_eq!(offsets.operation, Default::default(), "{kernel}");
    }
}

#[test]
fn what_the_loaded_module_lacks_is_not_taken_from_the_kernel() {
    let (_directory, root) = copy("6.1");
    let own = own_rpc_task(&root, false);
    fs::write(root.join(BTF).join("sunrpc"), own).unwrap();
    let why = planned(&root, EngineChoice::Direct).unwrap_err();
    assert!(
        why.to_string()
            .contains("`struct rpc_task` without a usable member `tk_rqstp`"),
        "{why}"
    );
    let plan = planned(&root, EngineChoice::Auto).unwrap();
    assert_eq!(plan.programs.engine(), "tracepoint");
}

#[test]
fn a_foreign_module_without_types_is_not_read_directly() {
    for module in ["sunrpc", "nfs"] {
        let (_directory, root) = copy("6.12");
        let engine = || {
            planned(&root, EngineChoice::Auto)
                .unwrap()
                .programs
                .engine()
        };
        // A module of the kernel's own build may have no signature, and no BTF.
        fs::remove_file(root.join(BTF).join(module)).unwrap();
        taint(&root, module, "");
        assert_eq!(engine(), "direct");
        taint(&root, module, "E");
        assert_eq!(engine(), "direct");
        for letters in ["O", "OE", "P", "POE", "F"] {
            taint(&root, module, letters);
            assert_eq!(engine(), "tracepoint", "{module} {letters}");
            let why = planned(&root, EngineChoice::Direct)
                .unwrap_err()
                .to_string();
            let text =
                format!("the module `{module}` was not built with the kernel (taint {letters})");
            assert!(why.starts_with(&text), "{why}");
        }
        // The other levels do not need the NFS client's structures.
        let facts = KernelFacts::read_in(&root);
        assert!(plan(&facts, EngineChoice::Auto, Some(Levels::BLOCK)).is_ok());
        // A BTF file that the user provides.
        let facts = facts.with_btf(&root.join(BTF).join("vmlinux")).unwrap();
        let plan = plan(&facts, EngineChoice::Direct, Some(Levels::WIRE));
        assert_eq!(plan.unwrap().programs.engine(), "direct");
    }
}
