//! The NFS client's modules: the recorder waits for them, holds them while recording, and releases them.

use crate::run::{Answer, Run, kernels, sum};

const WRITE_BYTES: u64 = 65_536;

#[test]
#[ignore = "boots guests: make test"]
fn guest_the_nfs_client_is_waited_for_and_released() {
    for kernel in kernels(&["5.10", "newest"]) {
        let run = Run::on(kernel, "modules", &["--nfs", "4.2"], &[]);
        assert!(!run.text("modules").lines().any(|m| m.starts_with("nfs ")));
        assert_eq!(run.text("not_loaded.status").trim(), "2");
        let said = run.text("not_loaded.err");
        assert!(
            said.contains("modprobe nfs") && said.contains("--wait"),
            "{said}"
        );
        assert_eq!(run.text("unused.status").trim(), "0");
        assert!(run.text("unused.err").contains("was not loaded"));

        // The first request after the mount is seen.
        let waited = run.text("wait.err");
        assert!(waited.starts_with("waiting for the NFS client"), "{waited}");
        assert!(
            waited.contains("stopped: 16 requests seen, 16 recorded, 0 lost"),
            "{waited}"
        );
        assert!(
            run.text("in_use.err").contains("in use"),
            "held while recording"
        );
        // The script made these after unloading the module.
        for how in ["stopped", "TERM", "KILL"] {
            assert!(run.out.join(format!("released.{how}")).exists(), "{how}");
        }
        let by_tenant = [
            "--step",
            "all",
            "--by",
            "tenant",
            "--where",
            "write_requests > 0",
        ];
        let mut named = run.query(&by_tenant);
        named.retain(|row| !row["tenant_name"].is_null());
        let is_late = |row: &Answer| row["tenant_name"] == "late";
        assert!(
            named.iter().all(is_late),
            "rules of before SIGHUP: {named:?}"
        );
        assert_eq!(sum(&named, "write_bytes"), 16 * WRITE_BYTES);
        let written = sum(&run.query(&["--step", "all"]), "write_bytes");
        assert!(written >= 3 * 16 * WRITE_BYTES, "{kernel}: {written}");
    }
}
