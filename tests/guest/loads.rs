//! No load of kernel memory can crash the kernel: each has a fault handler, or reads a member that is declared as held.

use crate::run::{KERNELS, Run, long};

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_load_is_declared_or_may_fault() {
    // Programs read by loads since Linux 6.2. In an emulated machine, the verifier takes minutes for the levels app and block.
    let (kernels, levels) = match long() {
        true => (&KERNELS[..], "wire,app,block,cache"),
        false => (&["6.12"][..], "wire,cache"),
    };
    for kernel in kernels {
        let run = Run::on(kernel, "loads", &["--no-nfs"], &[levels]);
        let found = run.json("loads.json");
        let loads = found["loads"].as_array().expect("a list");
        assert_eq!(found["safe"], true, "{kernel}: {found:#}");
        let of = |safety: &str| loads.iter().filter(|load| load["safety"] == safety).count();
        println!(
            "{kernel}: {} programs, {} held, {} may fault",
            found["programs"],
            of("held"),
            of("may_fault")
        );
        // Arguments of functions of the NFS client are typed, but not trusted.
        let expects_held = !["5.10", "6.1"].contains(kernel);
        assert_eq!(of("held") > 0, expects_held, "{kernel}: {found:#}");
        assert_eq!(of("held") + of("may_fault"), loads.len(), "{kernel}");
    }
}
