//! The name of a mount in rows: `server:/export/directory` as the kernel shows it, plus options that distinguish its server.
//!
//! `127.0.0.1:/exp,port=20049` is another server than `127.0.0.1:/exp`: local ports may be tunnels to any server. From two network
//! namespaces, the same address may lead to different servers: `nas:/exp,net=blue`.

/// The default port of a mount.
const PORT: &str = "2049";
/// The default port for RDMA.
const RDMA_PORT: &str = "20049";

/// The name of a source whose superblock has these options and this network namespace.
pub fn name(source: &str, options: &str, network: Option<&str>) -> String {
    let mut name = source.to_owned();
    if let Some(port) = port(options) {
        name += ",port=";
        name += port;
    }
    if let Some(network) = network {
        name += ",net=";
        name += network;
    }
    name
}

/// The port of a superblock with these options, if it is not the default.
pub fn port(options: &str) -> Option<&str> {
    let is_rdma = option(options, "proto=").is_some_and(|proto| proto.starts_with("rdma"));
    option(options, "port=").filter(|port| !is_usual(port, is_rdma))
}

/// Whether this is a default port. With 0, mount(8) has asked the port mapper.
pub fn is_usual(port: &str, is_rdma: bool) -> bool {
    let usual = if is_rdma { RDMA_PORT } else { PORT };
    port == "0" || port == usual
}

/// The value of an option, whose key includes the `=`.
pub fn option<'o>(options: &'o str, key: &str) -> Option<&'o str> {
    options
        .split(',')
        .find_map(|option| option.strip_prefix(key))
}

/// The options that another superblock lacks.
pub fn difference<'o>(options: &'o str, of_other: &str) -> impl Iterator<Item = &'o str> {
    let is_other = |option: &&str| !of_other.split(',').any(|other| other == *option);
    options.split(',').filter(is_other)
}

/// The server of `server:/export`.
pub fn server_of(source: &str) -> &str {
    let server = source.split_once(":/").map(|(server, _)| server);
    server.unwrap_or(source.trim_end_matches(':'))
}

/// The deepest directory that contains two sources, `server:/export/directory`.
pub fn common<'s>(source: &'s str, other: &str) -> &'s str {
    let mut end = 0;
    let mut others = other.split('/');
    for part in source.split('/') {
        if others.next() != Some(part) {
            break;
        }
        end += part.len() + 1;
    }
    &source[..end.saturating_sub(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_what_tells_servers_apart_and_nothing_else() {
        let named = |options, network| name("s:/e", options, network);
        assert_eq!(
            named("rw,relatime,vers=4.2,rsize=1048576,proto=tcp", None),
            "s:/e"
        );
        assert_eq!(
            named("rw,vers=4.0,port=20050,proto=tcp", None),
            "s:/e,port=20050"
        );
        for usual in ["port=2049", "port=0", "proto=rdma,port=20049"] {
            assert_eq!(named(usual, None), "s:/e", "{usual}");
        }
        assert_eq!(
            named("port=20049,mountport=7", Some("blue")),
            "s:/e,port=20049,net=blue"
        );
        let of_first = |options, of_other| difference(options, of_other).next();
        let differs = of_first("rw,hard,sec=sys", "rw,soft,sec=sys,nosharecache");
        assert_eq!(differs, Some("hard"));
        assert_eq!(of_first("rw,hard", "rw,hard,nosharecache"), None);
    }

    #[test]
    fn sources_have_a_server_and_a_common_directory() {
        for (a, b, both) in [
            ("s:/e/one", "s:/e/two", "s:/e"),
            ("s:/e/one", "s:/e/one/sub", "s:/e/one"),
            ("s:/e/one", "s:/e/on", "s:/e"),
            ("s:/e", "s:/e", "s:/e"),
            ("s:", "s:/e", "s:"),
            ("s:/e", "t:/e", ""),
        ] {
            assert_eq!((common(a, b), common(b, a)), (both, both));
        }
        assert_eq!(server_of("[::1]:/e"), "[::1]");
        assert_eq!((server_of("s:/"), server_of("s:")), ("s", "s"));
    }
}
