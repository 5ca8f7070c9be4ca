//! Operations of NFSv4 by number.

/// Number of the first operation.
const FIRST: u32 = 3;

const NAMES: [&str; 73] = [
    "ACCESS",
    "CLOSE",
    "COMMIT",
    "CREATE",
    "DELEGPURGE",
    "DELEGRETURN",
    "GETATTR",
    "GETFH",
    "LINK",
    "LOCK",
    "LOCKT",
    "LOCKU",
    "LOOKUP",
    "LOOKUPP",
    "NVERIFY",
    "OPEN",
    "OPENATTR",
    "OPEN_CONFIRM",
    "OPEN_DOWNGRADE",
    "PUTFH",
    "PUTPUBFH",
    "PUTROOTFH",
    "READ",
    "READDIR",
    "READLINK",
    "REMOVE",
    "RENAME",
    "RENEW",
    "RESTOREFH",
    "SAVEFH",
    "SECINFO",
    "SETATTR",
    "SETCLIENTID",
    "SETCLIENTID_CONFIRM",
    "VERIFY",
    "WRITE",
    "RELEASE_LOCKOWNER",
    "BACKCHANNEL_CTL",
    "BIND_CONN_TO_SESSION",
    "EXCHANGE_ID",
    "CREATE_SESSION",
    "DESTROY_SESSION",
    "FREE_STATEID",
    "GET_DIR_DELEGATION",
    "GETDEVICEINFO",
    "GETDEVICELIST",
    "LAYOUTCOMMIT",
    "LAYOUTGET",
    "LAYOUTRETURN",
    "SECINFO_NO_NAME",
    "SEQUENCE",
    "SET_SSV",
    "TEST_STATEID",
    "WANT_DELEGATION",
    "DESTROY_CLIENTID",
    "RECLAIM_COMPLETE",
    "ALLOCATE",
    "COPY",
    "COPY_NOTIFY",
    "DEALLOCATE",
    "IO_ADVISE",
    "LAYOUTERROR",
    "LAYOUTSTATS",
    "OFFLOAD_CANCEL",
    "OFFLOAD_STATUS",
    "READ_PLUS",
    "SEEK",
    "WRITE_SAME",
    "CLONE",
    "GETXATTR",
    "SETXATTR",
    "LISTXATTRS",
    "REMOVEXATTR",
];

/// Name of an operation.
pub fn operation_name(number: u32) -> Option<&'static str> {
    if number == 10_044 {
        return Some("ILLEGAL");
    }
    let index = number.checked_sub(FIRST)?;
    NAMES.get(index as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::operation_name;

    #[test]
    fn operations_have_the_numbers_of_the_standards() {
        let named = [
            (18, "OPEN"),
            (39, "RELEASE_LOCKOWNER"),
            (53, "SEQUENCE"),
            (58, "RECLAIM_COMPLETE"),
            (59, "ALLOCATE"),
            (71, "CLONE"),
            (75, "REMOVEXATTR"),
        ];
        for (number, name) in named {
            assert_eq!(operation_name(number), Some(name));
        }
        assert_eq!(operation_name(2), None);
        assert_eq!(operation_name(76), None);
    }
}
