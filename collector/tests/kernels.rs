//! Planning on the facts of kernels that are not running.
#![allow(clippy::unwrap_used)] // Helpers of tests, too.

mod common;

use std::fs;
use std::path::Path;

use common::{kernels, module, vmlinux};
use trackiops_collector::btf::Kind;
use trackiops_collector::{
    CallPrograms, CastBtfIds, EngineChoice, KernelFacts, Levels, Plan, PreemptedCalls, Programs,
    Switches, Unsupported, plan,
};
use trackiops_schemas::ebpf::app_sums::{AppOffsets, registers};
use trackiops_schemas::ebpf::block::BlockOffsets;
use trackiops_schemas::ebpf::cache::CacheOffsets;
use trackiops_schemas::ebpf::file_op_sums::FileOpOffsets;
use trackiops_schemas::ebpf::local::LocalOffsets;
use trackiops_schemas::ebpf::offsets::Held;
use trackiops_schemas::ebpf::op_sums::{OpOffsets, op_flags};
use trackiops_schemas::ebpf::ring::{
    CgroupOffsets, DirectOffsets, DoneOffsets, InitiateOffsets, NameOffsets, ReleaseOffsets,
    TaskOffsets, ThreadOffsets, TracepointOffsets, TreeOffsets, cgroups,
};
use trackiops_schemas::ebpf::syscalls::{SyscallOffsets, rings};

/// Names and sizes in bytes.
type Fields = &'static [(&'static str, u32)];

/// Every field that is read, by category and event.
const FIELDS: [(&str, Fields); 6] = [
    ("nfs:nfs_initiate_read", &[("dev", 4), ("fileid", 8)]),
    ("nfs:nfs_initiate_write", &[("dev", 4), ("fileid", 8)]),
    ("sunrpc:rpc_task_begin", &[("task_id", 4), ("client_id", 4)]),
    ("sunrpc:rpc_task_end", &[("task_id", 4), ("client_id", 4)]),
    (
        "nfs:nfs_readpage_done",
        &[
            ("dev", 4),
            ("fhandle", 4),
            ("fileid", 8),
            ("offset", 8),
            ("arg_count", 4),
            ("res_count", 4),
            ("error", 4),
            ("eof", 1),
        ],
    ),
    (
        "nfs:nfs_writeback_done",
        &[
            ("dev", 4),
            ("fhandle", 4),
            ("fileid", 8),
            ("offset", 8),
            ("arg_count", 4),
            ("res_count", 4),
            ("error", 4),
        ],
    ),
];

/// From the `format` files of that kernel, read by a person.
fn expected(kernel: &str) -> TracepointOffsets {
    match kernel {
        // The fields that have moved (`stable` and `verifier` of writes) are after all that are read.
        "5.10" | "6.1" | "6.12" | "newest" => {
            let initiate = InitiateOffsets { dev: 8, fileid: 16 };
            let task = TaskOffsets {
                task_id: 8,
                client_id: 12,
            };
            let read_done = DoneOffsets {
                dev: 8,
                fhandle: 12,
                fileid: 16,
                offset: 24,
                arg_count: 32,
                res_count: 36,
                error: 44,
                eof: 40,
            };
            TracepointOffsets {
                initiate_read: initiate,
                initiate_write: initiate,
                task_begin: task,
                task_end: task,
                read_done,
                write_done: DoneOffsets {
                    error: 40,
                    eof: 0,
                    ..read_done
                },
            }
        }
        _ => panic!("write down here what the format files of {kernel} say"),
    }
}

/// The name of the field with the errno of a completed request.
fn error_field(kernel: &str) -> &'static str {
    if kernel == "5.10" { "status" } else { "error" }
}

#[test]
fn each_kernel_is_planned_from_its_own_description() {
    for (kernel, root) in kernels() {
        let facts = KernelFacts::read_in(&root);
        assert_eq!(facts.formats.len(), FIELDS.len(), "{kernel}");
        let plan = plan(&facts, EngineChoice::Tracepoint, None)
            .unwrap_or_else(|e| panic!("{kernel}: {e}"));
        let offsets = Programs::Tracepoint(expected(&kernel));
        assert_eq!(plan.programs, offsets, "{kernel}");
    }
}

#[test]
fn each_kernel_can_be_read_directly() {
    let expected = |kernel: &str| {
        // Begin of tk_start, of task.tk_status, of args, and of res.count in the structures around them.
        let (start, status, args, count) = match kernel {
            "5.10" => (208, 148, 600, 752),
            "6.1" => (200, 148, 600, 752),
            "6.12" => (200, 156, 608, 760),
            "newest" => (200, 156, 624, 784),
            _ => panic!("write down here where the members of {kernel} stand"),
        };
        let rtt = if kernel == "newest" { 416 } else { 400 };
        // Whether every page is charged through an object; `cgroup.kn` and `kernfs_node.id`.
        let cgroup = match kernel {
            // Has no BTF of modules, and so no `nfs_page`.
            "5.10" => None,
            "6.1" => Some((0, 248, 104)),
            "6.12" => Some((0, 256, 96)),
            _ => Some((cgroups::BY_OBJECT, 296, 96)),
        };
        DirectOffsets {
            task_window: start,
            task_start: Held::at(start),
            task_owner: Held::at(start + 8),
            header_inode: Held::at(0),
            header_status: Held::at(status),
            arguments_window: args + 16,
            result_window: count,
            header_handle: Held::at(args + 16),
            header_offset: Held::at(args + 64),
            header_asked: Held::at(args + 72),
            header_done: Held::at(count),
            header_eof: Held::at(count + 20),
            inode_window: 40,
            inode_superblock: 40,
            inode_number: 64,
            superblock_dev: 16,
            header_cred: Held::at(8),
            cred_uid: Held::at(32),
            header_direct: Held::at(112),
            header_stable: Held::at(args + 108),
            task_transmission: Held::at(start - 16),
            transmission_window: rtt,
            transmission_rtt: rtt,
            transmission_sent: rtt + 24,
            transmission_count: rtt + 32,
            transmission_xid: 168,
            tree: TreeOffsets {
                header_context: Held::at(args + 24),
                context_entry: 72,
                entry_parent: 24,
                entry_inode: 48,
            },
            cgroup: cgroup.map_or_else(CgroupOffsets::default, |(way, cgroup_node, node_id)| {
                CgroupOffsets {
                    way: cgroups::KNOWN | way,
                    header_request: Held::at(32),
                    request_page: 16,
                    page_head: 8,
                    page_owner: 56,
                    object_owner: 16,
                    owner_cgroup: 0,
                    cgroup_node: Held::at(cgroup_node),
                    node_id: Held::at(node_id),
                }
            }),
            operation: operation(kernel),
            file_operation: file_operation(kernel),
            name: NameOffsets {
                entry_hash: 32,
                entry_name: 40,
                entry_data: 120,
            },
            release: release(kernel),
            thread: thread(kernel),
            app: app(kernel),
            block: BlockOffsets::default(),
            cache: CacheOffsets::default(),
            local: LocalOffsets::default(),
            syscalls: SyscallOffsets::default(),
        }
    };
    for (kernel, root) in kernels() {
        let facts = KernelFacts::read_in(&root);
        for choice in [EngineChoice::Direct, EngineChoice::Auto] {
            let plan = plan(&facts, choice, None).unwrap_or_else(|e| panic!("{kernel}: {e}"));
            let Programs::Direct {
                offsets,
                recovers,
                cast,
                calls,
                switches,
                levels: _,
                dirty_event: _,
                ring_submission: _,
            } = plan.programs
            else {
                panic!("{kernel}: {plan:?}");
            };
            assert_eq!(*offsets, expected(&kernel), "{kernel}");
            let operations = Switches {
                rpcs: true,
                ..Switches::default()
            };
            assert_eq!(switches, operations, "{kernel}");
            assert_eq!(recovers, kernel == "newest", "{kernel}");
            // `bpf_rdonly_cast` came with Linux 6.2.
            let by_probe = matches!(kernel.as_str(), "5.10" | "6.1");
            assert_eq!(cast.is_none(), by_probe, "{kernel}: {cast:?}");
            if let Some(cast) = cast {
                assert_casts(&kernel, &root, cast, &offsets);
            }
            // Modules have BTF since Linux 5.11; splices have a separate function since 6.5.
            match calls.unwrap() {
                CallPrograms::Generic(_) => assert_eq!(kernel, "5.10"),
                CallPrograms::Probed { splices } => {
                    assert_eq!((kernel.as_str(), splices), ("newest", true));
                }
                CallPrograms::OfNfs([.., splice_read, _, _]) => {
                    assert_eq!(splice_read.is_none(), kernel == "6.1", "{kernel}");
                }
            }
            let preempted = (kernel == "newest").then_some(PreemptedCalls::CostsMore);
            assert_eq!(plan.preempted_calls, preempted, "{kernel}");
            assert_eq!(plan.fallback, None, "{kernel}");
        }
    }
}

fn thread(kernel: &str) -> ThreadOffsets {
    let (task_cred, task_cgroups, cgroups_own) = match kernel {
        "5.10" => (2720, 3328, 120),
        "6.1" => (2960, 3600, 128),
        "6.12" => (2960, 3584, 128),
        "newest" => (3328, 4000, 128),
        _ => panic!("write down here where the members of {kernel} stand"),
    };
    ThreadOffsets {
        task_cred: Held::at(task_cred),
        task_cgroups: Held::at(task_cgroups),
        cgroups_own: Held::at(cgroups_own),
    }
}

fn app(kernel: &str) -> AppOffsets {
    // f_inode, f_cred and f_path.dentry of a file, ki_flags of a call, count of an iterator.
    let (inode, cred, entry, flags, count) = match kernel {
        "5.10" => (32, 144, 24, 32, 16),
        "6.1" => (32, 144, 24, 32, 16),
        "6.12" => (40, 56, 72, 32, 24),
        "newest" => (32, 48, 72, 32, 24),
        _ => panic!("write down here where the members of {kernel} stand"),
    };
    AppOffsets {
        is_known: 1,
        call_file: 0,
        call_flags: flags,
        iterator_count: count,
        file_inode: inode,
        file_cred: cred,
        file_entry: entry,
        registers: registers::X86_64,
        is_timed: 0,
    }
}

fn release(kernel: &str) -> ReleaseOffsets {
    // tk_action, tk_calldata and tk_msg.rpc_argp of a task, and task, args, rw_mode and flags of a header.
    let (action, data, arguments, task, header_arguments, mode, flags) = match kernel {
        "5.10" => (32, 152, 128, 144, 600, 52, 136),
        "6.1" => (32, 144, 120, 144, 600, 52, 136),
        "6.12" => (32, 144, 120, 152, 608, 52, 144),
        _ => (32, 144, 120, 152, 624, 52, 144),
    };
    ReleaseOffsets {
        is_known: 1,
        task_action: action,
        task_data: data,
        task_arguments: arguments,
        header_task: task,
        header_arguments,
        header_mode: mode,
        header_flags: flags,
    }
}

fn file_operation(kernel: &str) -> FileOpOffsets {
    // tk_msg and tk_flags of a task, rq_cred of its transmission, cr_cred of that, from fh to vfs_inode in an inode, i_data.host and i_dentry, and d_alias of a name.
    let (message, flags, cred, owner, inode, host, entries, alias) = match kernel {
        // Has no BTF of modules, and so no `nfs_inode`.
        "5.10" => (120, 220, 160, 88, 0, 376, 312, 176),
        "6.1" => (112, 216, 160, 88, 432, 376, 312, 176),
        "6.12" => (112, 216, 160, 88, 432, 368, 304, 176),
        "newest" => (112, 216, 160, 88, 432, 360, 296, 176),
        _ => panic!("write down here where the members of {kernel} stand"),
    };
    FileOpOffsets {
        is_known: 1,
        task_arguments: Held::at(message + 8),
        task_cred: message + 24,
        task_flags: Held::at(flags),
        transmission_cred: cred,
        rpc_cred_owner: owner,
        arguments_handle: 16,
        handle_inode: inode,
        inode_host: host,
        superblock_magic: 96,
        inode_mode: 0,
        inode_entries: entries,
        entry_alias: alias,
    }
}

fn operation(kernel: &str) -> OpOffsets {
    // Begin of tk_msg, of rq_xmit_bytes_sent and of address_strings in their structures, and of id if it exists.
    let (message, sent, strings, number) = match kernel {
        "5.10" => (120, 288, 1408, None),
        "6.1" => (112, 288, 1424, Some(16)),
        "6.12" => (112, 288, 1432, Some(16)),
        "newest" => (112, 304, 1432, Some(16)),
        _ => panic!("write down here where the members of {kernel} stand"),
    };
    let numbered = number.map_or(0, |_| op_flags::NUMBERED);
    OpOffsets {
        flags: op_flags::KNOWN | numbered,
        task_window: message,
        task_procedure: Held::at(message),
        task_client: Held::at(message + 48),
        task_transport: Held::at(message + 56),
        task_status: Held::at(4),
        bytes_window: sent,
        sent_bytes: sent,
        received_bytes: sent + 8,
        client_number: 4,
        client_program: 64,
        client_version: 68,
        procedure_index: 36,
        procedure_name: 40,
        transport_number: number.unwrap_or(0),
        transport_address: strings,
        transport_protocol: strings + 16,
    }
}

/// The numbers belong to the function and the types, and every load lies within its type.
fn assert_casts(kernel: &str, root: &Path, cast: CastBtfIds, offsets: &DirectOffsets) {
    let vmlinux = vmlinux(root);
    let function = vmlinux.get(cast.function).unwrap();
    assert_eq!(function.kind, Kind::Function, "{kernel}");
    assert!(
        vmlinux.is_named(function.name, "bpf_rdonly_cast"),
        "{kernel}"
    );
    let prototype = vmlinux.get(function.target().unwrap()).unwrap();
    assert_eq!(prototype.kind, Kind::Prototype, "{kernel}");
    let parameters = prototype.parameters().count();
    assert_eq!(parameters, 2, "{kernel}: address and type");

    assert!(cast.has_releases, "{kernel}: {cast:?}");
    let events = cast.events.unwrap().map(|event| {
        let in_module = module(root, event.module.unwrap(), &vmlinux).unwrap();
        let of = in_module.get(event.number).unwrap();
        assert_eq!(of.kind, Kind::Typedef, "{kernel}");
        let name = in_module.name(of.name).unwrap();
        (
            event.module.unwrap(),
            String::from_utf8(name.to_vec()).unwrap(),
        )
    });
    let expected = [
        ("nfs", "btf_trace_nfs_readpage_done".to_owned()),
        ("nfs", "btf_trace_nfs_writeback_done".to_owned()),
        ("sunrpc", "btf_trace_rpc_stats_latency".to_owned()),
    ];
    assert_eq!(events, expected, "{kernel}");
    let block = vmlinux.get(cast.block.unwrap().number).unwrap();
    assert_eq!(block.kind, Kind::Typedef, "{kernel}");
    assert!(
        vmlinux.is_named(block.name, "btf_trace_block_rq_complete"),
        "{kernel}"
    );

    let file = vmlinux.get(cast.file).unwrap();
    assert_eq!(file.kind, Kind::Struct, "{kernel}");
    assert!(vmlinux.is_named(file.name, "file"), "{kernel}");

    let words = vmlinux.get(cast.words).unwrap();
    assert_eq!(words.kind, Kind::Struct, "{kernel}");
    let members: Vec<_> = words.members().collect();
    let [array] = members.as_slice() else {
        panic!("{kernel}: {cast:?} is more than an array");
    };
    let elements = vmlinux.get(array.number).unwrap().elements();
    let bytes = words.size().unwrap();
    assert_eq!(Some(bytes / 8), elements, "{kernel}: an array of words");
    let (cgroup, operation) = (offsets.cgroup, offsets.operation);
    let furthest = [
        offsets.task_start.offset(),
        offsets.header_eof.offset(),
        offsets.header_done.offset(),
        offsets.inode_number,
        cgroup.page_owner,
        cgroup.cgroup_node.offset(),
        cgroup.node_id.offset(),
        // Members of connections are not loaded this way.
        offsets.task_transmission.offset(),
        operation.received_bytes,
        operation.client_version,
        operation.procedure_name,
    ];
    for offset in furthest {
        assert!(
            offset + 8 <= bytes,
            "{kernel}: {offset} is outside of linux_mib"
        );
    }
}

#[test]
fn the_block_level_needs_no_nfs_and_says_what_it_lacks() {
    let both = Levels {
        wire: true,
        ..Levels::BLOCK
    };
    for (kernel, root) in kernels() {
        let facts = KernelFacts::read_in(&root);
        let offsets = |plan: Plan| match plan.programs {
            Programs::Direct { offsets, cast, .. } => (offsets, cast.is_some()),
            Programs::Tracepoint(_) => panic!("{kernel}"),
        };
        let (with_wire, has_casts) = offsets(plan(&facts, EngineChoice::Auto, Some(both)).unwrap());
        assert_eq!(
            (with_wire.block.is_known, with_wire.local.has_groups),
            (1, 1),
            "{kernel}"
        );
        assert_eq!(
            has_casts,
            !matches!(kernel.as_str(), "5.10" | "6.1"),
            "{kernel}"
        );
        let wire = plan(&facts, EngineChoice::Auto, None).unwrap();
        assert_eq!(wire.levels(), Levels::WIRE, "{kernel}");

        let mut alone = facts.clone();
        alone.nfs_client = false;
        let said = plan(&alone, EngineChoice::Auto, Some(both)).unwrap_err();
        assert_eq!(said, Unsupported::NfsNotLoaded, "{kernel}");
        let without_nfs = plan(&alone, EngineChoice::Auto, None).unwrap();
        assert!(
            without_nfs.levels().block && !without_nfs.levels().wire,
            "{kernel}"
        );
        assert!(
            !without_nfs.has_operations() && without_nfs.has_paths(),
            "{kernel}"
        );
        let (block, _) = offsets(without_nfs);
        assert_eq!(block.block, with_wire.block, "{kernel}");
        assert_eq!(block.inode_number, with_wire.inode_number, "{kernel}");

        let by_tracepoint = plan(&facts, EngineChoice::Tracepoint, Some(both)).unwrap_err();
        assert_eq!(by_tracepoint, Unsupported::WireByTracepoint, "{kernel}");
        let members = alone.members.as_mut().unwrap();
        members.retain(|name, _| *name != ("request", "part"));
        let said = plan(&alone, EngineChoice::Auto, None)
            .unwrap_err()
            .to_string();
        let all = ["`struct request`", "`part`", "modprobe nfs", "--wait"];
        assert!(
            all.iter().all(|part| said.contains(part)),
            "{kernel}: {said}"
        );
    }
}

#[test]
fn the_page_cache_is_counted_in_rows_of_other_levels() {
    let block = Levels {
        cache: true,
        ..Levels::BLOCK
    };
    for (kernel, root) in kernels() {
        let facts = KernelFacts::read_in(&root);
        let alone = Levels {
            block: false,
            ..block
        };
        let said = plan(&facts, EngineChoice::Auto, Some(alone)).unwrap_err();
        assert_eq!(said, Unsupported::CacheAlone, "{kernel}");
        let plan = plan(&facts, EngineChoice::Auto, Some(block)).unwrap();
        assert!(plan.has_sums_of_files() && !plan.has_calls(), "{kernel}");
        let Programs::Direct {
            offsets,
            levels,
            switches,
            cast,
            dirty_event,
            ..
        } = plan.programs
        else {
            panic!("{kernel}");
        };
        let of = switches.applied_to(&offsets, levels).cache;
        assert_eq!((of.has_wire, of.has_local), (0, 1), "{kernel}");
        assert_eq!(
            (of.folio_mapping, of.mapping_host),
            (Held::at(24), 0),
            "{kernel}"
        );
        // From the kernel's structures, read by a person. Folios came with Linux 5.16.
        let (folio, event) = match kernel.as_str() {
            "5.10" => ((0, 0), "writeback_dirty_page"),
            "6.1" => ((16, 92), "writeback_dirty_folio"),
            "6.12" => ((6, 96), "writeback_dirty_folio"),
            _ => ((6, 120), "writeback_dirty_folio"),
        };
        assert_eq!(of.folio_flags, Held::at(0), "{kernel}");
        assert_eq!((of.head_bit, of.folio_pages), folio, "{kernel}");
        assert_eq!(dirty_event, event, "{kernel}");
        let by_probe = matches!(kernel.as_str(), "5.10" | "6.1");
        assert_eq!(cast.is_none(), by_probe, "{kernel}");
        if let Some(cast) = cast {
            let vmlinux = vmlinux(&root);
            for event in cast.cache.unwrap() {
                let of = vmlinux.get(event.number).unwrap();
                assert_eq!(of.kind, Kind::Typedef, "{kernel}");
            }
        }
    }
}

#[test]
fn calls_for_local_files_need_no_nfs() {
    for (kernel, root) in kernels() {
        let mut facts = KernelFacts::read_in(&root);
        facts.nfs_client = false;
        let plan = plan(&facts, EngineChoice::Auto, Some(Levels::APP)).unwrap();
        assert!(plan.counts_calls() && !plan.has_calls(), "{kernel}");
        assert!(plan.has_paths() && !plan.has_operations(), "{kernel}");
        assert!(plan.covers_operations(), "{kernel}: opens and syncs");
        let without = plan.clone().without_operations();
        assert!(!without.covers_operations(), "{kernel}");
        let Programs::Direct { offsets, cast, .. } = plan.programs else {
            panic!("{kernel}");
        };
        let own = offsets.syscalls;
        assert_eq!(
            [own.number, own.first, own.second, own.third],
            [120, 112, 104, 96].map(Held::at),
            "{kernel}: orig_ax, di, si and dx"
        );
        // From the kernel's structures, read by a person: files of a thread, flags of a file, and how io_uring requests complete.
        let (files, flags, ring) = match kernel.as_str() {
            "5.10" => (Held::at(2808), 64, rings::NONE),
            "6.1" => (Held::at(3048), 64, rings::ARGUMENT),
            "6.12" => (Held::at(3048), 48, rings::ARGUMENT),
            _ => (Held::at(3416), 40, rings::ENTRY),
        };
        assert_eq!(
            (own.task_files, own.file_flags, own.ring_form),
            (files, flags, ring),
            "{kernel}"
        );
        let (table, length, all) = (own.files_table, own.table_length, own.table_files);
        assert_eq!((table, length, all), (32, 0, 8), "{kernel}");
        assert_eq!(
            (offsets.local.inode_mode, offsets.local.type_flags),
            (0, 8),
            "{kernel}"
        );
        assert_ne!(offsets.app.file_entry, 0, "{kernel}");
        let by_probe = matches!(kernel.as_str(), "5.10" | "6.1");
        assert_eq!(cast.is_none(), by_probe, "{kernel}");
        if let Some((exit, completed)) = cast.and_then(|cast| cast.syscalls) {
            let vmlinux = vmlinux(&root);
            for (event, name) in [
                (exit, "btf_trace_sys_exit"),
                (completed.unwrap(), "btf_trace_io_uring_complete"),
            ] {
                let of = vmlinux.get(event.number).unwrap();
                assert!(vmlinux.is_named(of.name, name), "{kernel}");
            }
        }
    }
}

#[test]
fn a_kernel_without_the_types_is_followed_by_tracepoints() {
    for (kernel, root) in kernels() {
        let facts = changed(&root, |copy| {
            fs::remove_dir_all(copy.join("sys/kernel/btf")).unwrap();
        });
        let auto = plan(&facts, EngineChoice::Auto, None).unwrap();
        assert_eq!(auto.programs, Programs::Tracepoint(expected(&kernel)));
        let direct = plan(&facts, EngineChoice::Direct, None).unwrap_err();
        assert_eq!(auto.fallback, Some(direct.clone()), "and says why");
        let direct = direct.to_string();
        assert!(direct.contains("/sys/kernel/btf/vmlinux") && direct.contains("--btf"));
        let supplied = facts
            .with_btf(&root.join("sys/kernel/btf/vmlinux"))
            .unwrap();
        assert!(
            plan(&supplied, EngineChoice::Direct, None).is_ok(),
            "{kernel}"
        );

        let without = |structure: &str, member: Option<&str>| {
            let mut facts = supplied.clone();
            let members = facts.members.as_mut().unwrap();
            members
                .retain(|(s, m), _| *s != structure || member.is_some_and(|member| *m != member));
            plan(&facts, EngineChoice::Direct, None)
                .unwrap_err()
                .to_string()
        };
        let said = without("rpc_task", None);
        assert!(said.contains("has `struct rpc_task`"), "{said}");
        let said = without("nfs_pgio_header", Some("res.count"));
        assert!(said.contains("`struct nfs_pgio_header` without a usable member `res.count`"));
    }
}

#[test]
fn the_kernels_are_those_of_their_names() {
    for (kernel, root) in kernels() {
        let release = KernelFacts::read_in(&root).release;
        let version = fs::read_to_string(root.join("proc/version")).unwrap();
        assert!(
            kernel == "newest" || release.starts_with(&format!("{kernel}.")),
            "{kernel}: {release}"
        );
        assert!(version.contains(&release), "{kernel}: {version}");
    }
}

#[test]
fn a_field_of_another_size_is_refused_in_one_sentence() {
    for (kernel, root) in kernels() {
        let facts = KernelFacts::read_in(&root);
        for (event, fields) in FIELDS {
            let (_, event) = event.split_once(':').unwrap();
            for (field, size) in fields {
                let mut odd = facts.clone();
                let name = match *field {
                    "error" => error_field(&kernel),
                    name => name,
                };
                let text = odd.formats.get_mut(event).unwrap();
                *text = resized(&String::from_utf8_lossy(text), name, *size).into_bytes();
                assert_eq!(
                    plan(&odd, EngineChoice::Tracepoint, None)
                        .unwrap_err()
                        .to_string(),
                    format!(
                        "Linux {} describes the tracepoint `{event}` without a usable field `{field}` of {size} bytes",
                        facts.release
                    )
                );
            }
        }
    }
}

/// The text with the size of that field replaced by one byte less than `size`.
fn resized(text: &str, field: &str, size: u32) -> String {
    let mut found = 0;
    let line = |line: &str| {
        if line.contains(&format!(" {field};\t")) {
            found += 1;
            line.replace(&format!("size:{size};"), &format!("size:{};", size - 1)) + "\n"
        } else {
            line.to_owned() + "\n"
        }
    };
    let text = text.lines().map(line).collect();
    assert_eq!(found, 1, "{field} in {text}");
    text
}

#[test]
fn a_missing_tracepoint_is_said_in_one_sentence() {
    for (kernel, root) in kernels() {
        for (event, _) in FIELDS {
            let said = said(&root, |copy| {
                let events = copy.join("sys/kernel/tracing/events");
                fs::remove_file(events.join(event.replace(':', "/")).join("format")).unwrap();
            });
            let named = format!("has no tracepoint `{event}`");
            assert!(said.contains(&named), "{kernel}: {said}");
        }
    }
}

#[test]
fn what_else_is_missing_is_said_by_its_own_sentence() {
    for (kernel, root) in kernels() {
        let assert_says = |sentence: &str, change: fn(&Path)| {
            let said = said(&root, change);
            assert!(said.contains(sentence), "{kernel}: {said}");
        };
        assert_says("the NFS client is not loaded", |copy| {
            fs::write(copy.join("proc/filesystems"), "nodev\ttracefs\n").unwrap();
            fs::remove_dir_all(copy.join("sys/kernel/tracing/events/nfs")).unwrap();
        });
        assert_says("tracefs is not mounted", |copy| {
            fs::remove_dir_all(copy.join("sys/kernel/tracing")).unwrap();
        });
        assert_says("was built without event tracing", |copy| {
            fs::write(copy.join("proc/filesystems"), "nodev\tnfs\n").unwrap();
            fs::remove_dir_all(copy.join("sys/kernel/tracing")).unwrap();
        });
        assert_says("the kernel is locked down", |copy| {
            let lockdown = copy.join("sys/kernel/security/lockdown");
            fs::write(lockdown, "none integrity [confidentiality]\n").unwrap();
        });
    }
}

#[test]
fn tracefs_below_debugfs_will_do() {
    for (kernel, root) in kernels() {
        let facts = changed(&root, |copy| {
            fs::create_dir(copy.join("sys/kernel/debug")).unwrap();
            let from = copy.join("sys/kernel/tracing");
            fs::rename(from, copy.join("sys/kernel/debug/tracing")).unwrap();
        });
        assert!(
            plan(&facts, EngineChoice::Tracepoint, None).is_ok(),
            "{kernel}"
        );
    }
}

/// The error of planning on a changed copy.
fn said(root: &Path, change: impl FnOnce(&Path)) -> String {
    let said = plan(&changed(root, change), EngineChoice::Tracepoint, None)
        .unwrap_err()
        .to_string();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn changed(root: &Path, change: impl FnOnce(&Path)) -> KernelFacts {
    let copy = tempfile::tempdir().unwrap();
    copy_tree(root, copy.path());
    change(copy.path());
    KernelFacts::read_in(copy.path())
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
