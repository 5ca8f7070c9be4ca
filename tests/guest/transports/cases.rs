//! The cases, and the expectations for each.

/// Packages of the servers and daemons.
pub const PACKAGES: &str = "cachefilesd,krb5-admin-server,krb5-kdc,ktls-utils,nfs-ganesha,nfs-ganesha-vfs,openssl,xfsprogs";

/// A case of `scripts/transports.sh`.
pub struct Case {
    pub name: &'static str,
    pub what: &'static str,
    /// Options that must be in force at each of its mounts with data.
    pub options: &'static [&'static str],
    pub connections: usize,
    pub transport: &'static str,
    /// The pNFS layout by which READs and WRITEs go to a disk instead of RPCs.
    pub layout: Option<&'static str>,
}

const fn case(name: &'static str, what: &'static str, options: &'static [&'static str]) -> Case {
    Case {
        name,
        what,
        options,
        connections: 1,
        transport: "tcp-",
        layout: None,
    }
}

const fn rdma(name: &'static str, what: &'static str, options: &'static [&'static str]) -> Case {
    Case {
        transport: "rdma-",
        ..case(name, what, options)
    }
}

const fn pnfs(name: &'static str, what: &'static str, layout: &'static str) -> Case {
    Case {
        layout: Some(layout),
        ..case(name, what, &["vers=4.1"])
    }
}

/// In the order of their runs. The first two run beside all others: ganesha takes over the port mapper's entries, which v3 mounts need.
pub const CASES: [Case; 15] = [
    case(
        "soft",
        "a server that is away, `soft`, v3 and v4.2",
        &["soft"],
    ),
    case("migration", "a migration to another server", &["vers=4.2"]),
    case("tcp", "nfsd over TCP", &["vers=4.2", "proto=tcp"]),
    case("ipv6", "nfsd over IPv6", &["vers=4.2", "proto=tcp6"]),
    Case {
        connections: 8,
        ..case("nconnect", "eight connections", &["nconnect=8"])
    },
    rdma(
        "rdma",
        "RDMA (RoCE in software)",
        &["vers=4.2", "proto=rdma"],
    ),
    rdma(
        "rdma3",
        "RDMA (RoCE in software), v3",
        &["vers=3", "proto=rdma"],
    ),
    case("krb5p", "Kerberos with privacy", &["sec=krb5p"]),
    case("tls", "TLS", &["xprtsec=tls"]),
    case("netns", "two network namespaces", &["vers=4.2"]),
    case("fscache", "a cache on a local disk", &["fsc"]),
    case("referral", "a referral to another server", &["vers=4.2"]),
    pnfs("block", "pNFS, block layout", "LAYOUT_BLOCK_VOLUME"),
    pnfs("scsi", "pNFS, SCSI layout", "LAYOUT_SCSI"),
    case("ganesha", "nfs-ganesha, v3 and v4.2", &["port=12049"]),
];

/// Operations that a client sends by itself, or while it looks up an export through temporary superblocks. The counters of those
/// superblocks cannot be read.
pub const BESIDE: [&str; 19] = [
    "ACCESS",
    "CREATE_SESSION",
    "DELEGRETURN",
    "DESTROY_CLIENTID",
    "DESTROY_SESSION",
    "EXCHANGE_ID",
    "FSINFO",
    "FS_LOCATIONS",
    "GETATTR",
    "LOOKUP",
    "LOOKUP_ROOT",
    "NULL",
    "PATHCONF",
    "RECLAIM_COMPLETE",
    "RENEW",
    "SECINFO",
    "SECINFO_NO_NAME",
    "SEQUENCE",
    "SERVER_CAPS",
];
