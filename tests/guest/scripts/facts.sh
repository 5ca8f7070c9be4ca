# Copies all files of the running kernel that the product reads or will read to $OUT, as below the root.
# Omits or normalizes data that differs from boot to boot. The host then reduces the BTF to the types listed here (btf_extract.py).
set -euo pipefail

EVENTS=(
    nfs/nfs_initiate_{read,write,commit} nfs/nfs_{readpage,writeback,commit}_done nfs/nfs_readpage_short
    sunrpc/rpc_task_{begin,call_done,end} sunrpc/rpc_stats_latency
)
TYPES=(
    # A request: its RPC, its transfer, its pages.
    rpc_task rpc_rqst rpc_clnt rpc_xprt rpc_procinfo rpc_message rpc_cred
    nfs_pgio_{header,args,res} nfs_commit_data nfs_page page folio
    # The directory of a new entry.
    nfs4_create_arg
    # Its file, and its name.
    nfs_fh nfs_inode nfs_server nfs_client nfs_open_context nfs_lock_context
    inode super_block dentry qstr file
    # The requester.
    cred kuid_t mem_cgroup obj_cgroup cgroup_subsys_state cgroup kernfs_node
    # The calls of applications, and the functions that serve them.
    kiocb iov_iter path nfs_file_{read,write,splice_read,direct_read,direct_write}
    generic_file_read_iter generic_perform_write register_fprobe_ips
    # A request to a block device: its bios, their pages, files and cgroups.
    request request_queue gendisk bio bio_vec bvec_iter block_device hd_struct address_space iomap_dio blkcg_gq blkcg
    # The arguments of raw tracepoints.
    btf_trace_nfs_initiate_{read,write,commit} btf_trace_nfs_{readpage,writeback}_done
    btf_trace_rpc_{task_begin,task_end,stats_latency} btf_trace_xprt_release_{xprt,cong}
    btf_trace_block_rq_complete
    # Pages of the cache.
    pageflags file_system_type btf_trace_mm_filemap_{add_to,delete_from}_page_cache btf_trace_writeback_dirty_{page,folio}
    # System calls, the files of threads, and requests of io_uring.
    pt_regs task_struct css_set thread_info files_struct fdtable io_kiocb io_uring_cqe btf_trace_{sys_exit,io_uring_complete}
    # How programs load from kernel memory.
    bpf_rdonly_cast linux_mib
)

# keep PATH...: files of /proc and /sys, whose size is unknown until they are read.
keep() {
    local path
    for path; do
        mkdir -p "$OUT/$(dirname "$path")"
        cat "/$path" >"$OUT/$path"
    done
}

modprobe -a nfs nfsv3 nfsv4
mountpoint -q /sys/kernel/security || mount -t securityfs securityfs /sys/kernel/security
keep proc/version proc/sys/kernel/{osrelease,version} sys/kernel/security/lockdown
# Other lines depend on the guest and on the order of loading modules.
grep -Ew 'tracefs|nfs|nfs4' /proc/filesystems >"$OUT/proc/filesystems"

for event in "${EVENTS[@]}"; do
    format=sys/kernel/tracing/events/$event/format
    [ ! -e "/$format" ] || keep "$format"
done
# Numbers of events depend on the order of loading modules.
find "$OUT/sys/kernel/tracing" -name format -exec sed -i 's/^ID: .*/ID: 0/' {} +

mkdir "$OUT/btf"
printf '%s\n' "${TYPES[@]}" >"$OUT/btf/types"
# Linux 5.10 has no BTF of modules.
for name in vmlinux nfs nfsv4 sunrpc; do
    [ ! -e "/sys/kernel/btf/$name" ] || cp "/sys/kernel/btf/$name" "$OUT/btf/"
done
