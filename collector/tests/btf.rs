//! The BTF that is kept of kernels is whole, and says what is known of them.
#![allow(clippy::unwrap_used)] // Helpers of tests, too.

mod common;

use btf_rs::{Btf, BtfSection, BtfType, Parameter, Type};
use common::{kernels, module, vmlinux};
use trackiops_schemas::file_op_sums::CREATE_HANDLE;

const MODULES: [&str; 3] = ["nfs", "nfsv4", "sunrpc"];

/// Bytes from the start of a structure to a member, in the kernels of [`COLUMNS`].
const OFFSETS: [(&str, &str, [u32; 4]); 12] = [
    ("nfs_pgio_header", "args", [600, 600, 608, 624]),
    ("nfs_pgio_header", "res", [712, 712, 720, 736]),
    ("nfs_pgio_args", "context", [24, 24, 24, 24]),
    ("nfs_pgio_res", "count", [40, 40, 40, 48]),
    ("rpc_task", "tk_start", [208, 200, 200, 200]),
    ("rpc_task", "tk_rqstp", [192, 184, 184, 184]),
    ("rpc_rqst", "rq_rtt", [400, 400, 400, 416]),
    ("rpc_rqst", "rq_xtime", [424, 424, 424, 440]),
    ("rpc_rqst", "rq_ntrans", [432, 432, 432, 448]),
    ("inode", "i_ino", [64, 64, 64, 64]),
    ("inode", "i_sb", [40, 40, 40, 40]),
    ("super_block", "s_dev", [16, 16, 16, 16]),
];
const COLUMNS: [&str; 4] = ["5.10", "6.1", "6.12", "newest"];

/// Arguments of raw tracepoints that point to structures, in order.
const ARGUMENTS: [(&str, &str, &[&str]); 8] = [
    ("nfs", "nfs_initiate_read", &["nfs_pgio_header"]),
    ("nfs", "nfs_initiate_write", &["nfs_pgio_header"]),
    ("nfs", "nfs_initiate_commit", &["nfs_commit_data"]),
    ("nfs", "nfs_readpage_done", &["rpc_task", "nfs_pgio_header"]),
    (
        "nfs",
        "nfs_writeback_done",
        &["rpc_task", "nfs_pgio_header"],
    ),
    ("sunrpc", "rpc_task_begin", &["rpc_task"]),
    ("sunrpc", "rpc_task_end", &["rpc_task"]),
    ("sunrpc", "rpc_stats_latency", &["rpc_task"]),
];

#[test]
fn the_directory_of_what_is_created_stands_where_the_kernel_side_looks_for_it() {
    for (kernel, root) in kernels() {
        let vmlinux = vmlinux(&root);
        // Debian's 5.10 has no BTF of its modules.
        if let Some(module) = module(&root, "nfsv4", &vmlinux) {
            let found = offset(&module, "nfs4_create_arg", "dir_fh");
            assert_eq!(found, Some(CREATE_HANDLE), "{kernel}");
        }
    }
}

#[test]
fn members_stand_where_they_were_seen() {
    for (kernel, root) in kernels() {
        let column = COLUMNS
            .iter()
            .position(|c| *c == kernel)
            .unwrap_or_else(|| panic!("write down here where the members of {kernel} stand"));
        let vmlinux = vmlinux(&root);
        for (structure, member, offsets) in OFFSETS {
            assert_eq!(
                offset(&vmlinux, structure, member),
                Some(offsets[column]),
                "{kernel}: {structure}.{member}"
            );
        }
    }
}

#[test]
fn raw_tracepoints_get_the_structures_that_are_kept() {
    for (kernel, root) in kernels() {
        let vmlinux = vmlinux(&root);
        for (name, event, structures) in ARGUMENTS {
            let Some(module) = module(&root, name, &vmlinux) else {
                continue;
            };
            assert_eq!(arguments(&module, event), structures, "{kernel}: {event}");
            for structure in structures {
                let whole = named(&vmlinux, structure);
                assert!(
                    matches!(whole, Some(Type::Struct(_))),
                    "{kernel}: {structure}"
                );
            }
        }
    }
}

#[test]
fn some_structures_are_known_to_the_modules_only() {
    for (kernel, root) in kernels() {
        let vmlinux = vmlinux(&root);
        for name in MODULES {
            let module = module(&root, name, &vmlinux);
            assert_eq!(module.is_some(), kernel != "5.10", "{kernel}: {name}");
        }
        let nfs = module(&root, "nfs", &vmlinux);
        for (structure, member) in [("nfs_inode", "vfs_inode"), ("nfs_page", "wb_lock_context")] {
            assert_eq!(
                offset(&vmlinux, structure, member),
                None,
                "{kernel}: {structure}"
            );
            if let Some(nfs) = &nfs {
                let found = offset(nfs, structure, member);
                assert!(found.is_some(), "{kernel}: {structure}.{member}");
            }
        }
    }
}

#[test]
fn every_type_that_is_referred_to_is_there() {
    for (_, root) in kernels() {
        let vmlinux = vmlinux(&root);
        let modules = MODULES.map(|name| module(&root, name, &vmlinux));
        for module in modules.iter().flatten() {
            assert_whole(module, module.split().unwrap());
        }
        assert_whole(&vmlinux, vmlinux.base());
    }
}

fn assert_whole(btf: &Btf, section: &BtfSection) {
    let (first, last) = section.type_id_range();
    for id in first..=last {
        let btf_type = btf.resolve_type_by_id(id).unwrap();
        if let Some(inner) = btf_type.as_btf_type() {
            assert_resolves(btf, inner);
        }
        match &btf_type {
            Type::Struct(of) | Type::Union(of) => {
                of.members.iter().for_each(|m| assert_resolves(btf, m));
            }
            Type::FuncProto(of) => {
                of.parameters.iter().for_each(|p| assert_resolves(btf, p));
                btf.resolve_type_by_id(of.return_type_id()).unwrap();
            }
            _ => {}
        }
    }
}

fn assert_resolves(btf: &Btf, of: &dyn BtfType) {
    if of.get_name_offset().is_some() {
        btf.resolve_name(of).unwrap();
    }
    if let Some(id) = of.get_type_id() {
        btf.resolve_type_by_id(id).unwrap();
    }
}

/// The definition of that name, not a mere declaration.
fn named(btf: &Btf, name: &str) -> Option<Type> {
    btf.resolve_types_by_name(name)
        .unwrap_or_default()
        .into_iter()
        .find(|t| !matches!(t, Type::Fwd(_)))
}

/// Bytes from the start of a structure to its member.
fn offset(btf: &Btf, structure: &str, member: &str) -> Option<u32> {
    let bits = offset_within(btf, &named(btf, structure)?, member)?;
    assert_eq!(bits % 8, 0, "{structure}.{member}");
    Some(bits / 8)
}

/// In bits; also of members of anonymous structures and unions.
fn offset_within(btf: &Btf, of: &Type, member: &str) -> Option<u32> {
    let (Type::Struct(of) | Type::Union(of)) = of else {
        return None;
    };
    of.members.iter().find_map(|m| {
        let name = btf.resolve_name(m).unwrap();
        if name == member {
            Some(m.bit_offset())
        } else if name.is_empty() {
            let inner = btf.resolve_chained_type(m).unwrap();
            Some(m.bit_offset() + offset_within(btf, &inner, member)?)
        } else {
            None
        }
    })
}

/// What the arguments of a raw tracepoint point to: the structures by name.
fn arguments(btf: &Btf, event: &str) -> Vec<String> {
    let Some(Type::Typedef(typedef)) = named(btf, &format!("btf_trace_{event}")) else {
        panic!("no typedef btf_trace_{event}");
    };
    let Some(Type::FuncProto(function)) = btf.chained_type_iter(&typedef).last() else {
        panic!("btf_trace_{event} is no function");
    };
    let target = |p: &Parameter| match btf.chained_type_iter(p).last()? {
        Type::Struct(of) => btf.resolve_name(&of).ok(),
        _ => None,
    };
    function.parameters.iter().filter_map(target).collect()
}
