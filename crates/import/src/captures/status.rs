//! NFS statuses as errors of the client's kernel.

use trackiops_capture::RpcStatus;

/// The errno of a status, from `nfs_stat_to_errno` (fs/nfs_common/common.c). Linux uses other statuses as they are, for NFSv4.
pub fn errno(status: u32) -> i32 {
    match status {
        // ESTALE, EREMOTE, and EIO for NFSERR_WFLUSH.
        70 => 116,
        71 => 66,
        99 => 5,
        // EDQUOT.
        69 => 122,
        // ENOTEMPTY, ENAMETOOLONG.
        66 => 39,
        63 => 36,
        // EBADHANDLE, ENOTSYNC, EBADCOOKIE, EOPNOTSUPP, ETOOSMALL, EREMOTEIO, EBADTYPE, EJUKEBOX.
        10_001 => 521,
        10_002 => 522,
        10_003 => 523,
        10_004 => 524,
        10_005 => 525,
        10_006 => 121,
        10_007 => 527,
        10_008 => 528,
        other => i32::try_from(other).unwrap_or(i32::MAX),
    }
}

/// The errno of an RPC that was not executed: EACCES if it was denied, or else EIO.
pub fn rpc_errno(status: RpcStatus) -> Option<i32> {
    match status {
        RpcStatus::Success => None,
        RpcStatus::NotExecuted(_) => Some(5),
        RpcStatus::Denied(_) => Some(13),
    }
}
