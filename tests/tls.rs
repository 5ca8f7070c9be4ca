//! TLS, passwords and certificates of clients: `metrics` and `serve` with `--web-config`, and `metrics --otlp https://`.

mod certificates;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::ServerName;
use rustls::version::TLS12;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use trackiops_testkit::recording::{Recording, recent};

use crate::server::{LONG, Server, answer, request, trackiops};
use certificates::{Authority, Identity, client, client_of, server};

const LOOPBACK: &str = "DNS:localhost, IP:127.0.0.1";

/// A recording, an authority, and a directory of files that the program may read.
struct House {
    recording: Recording,
    dir: PathBuf,
    authority: Authority,
}

impl House {
    fn new() -> Self {
        let recording = Recording::begin();
        recording.put(&recent(3));
        let dir = recording.dir().join("tls");
        fs::create_dir(&dir).unwrap();
        let authority = Authority::new(&dir, "authority");
        Self {
            recording,
            dir,
            authority,
        }
    }

    /// A web configuration with a certificate of the server, and more.
    fn web(&self, more: &str) -> PathBuf {
        let Identity { certificate, key } = self.authority.issue("server", LOOPBACK);
        // Relative paths begin at the file's directory.
        let names = [certificate, key].map(|path| path.file_name().unwrap().to_owned());
        let [certificate, key] = names.map(|name| name.into_string().unwrap());
        let path = self.dir.join("web.yml");
        let text =
            format!("tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n{more}");
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = trackiops(self.recording.dir());
        command
            .arg("metrics")
            .arg("--socket")
            .arg(self.recording.socket());
        command.args(flags);
        command
    }

    fn start(&self, web: &Path) -> Server {
        let mut command = self.command(&["--listen", "127.0.0.1:0", "--web-config"]);
        Server::start(command.arg(web), "metrics at https://")
    }
}

/// A web configuration with this user and the password `secret`.
fn user(name: &str) -> String {
    let hash = bcrypt::hash("secret", 4).unwrap();
    format!("basic_auth_users:\n  {name}: {hash}\n")
}

fn password(name: &str, password: &str) -> String {
    let encoded = STANDARD.encode(format!("{name}:{password}"));
    format!("Host: localhost\r\nAuthorization: Basic {encoded}\r\n")
}

fn connect(at: &Server, client: &Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    StreamOwned::new(connection, at.connect())
}

/// The first line of an answer.
fn ask(at: &Server, client: &Arc<ClientConfig>, headers: &str) -> Result<String, io::Error> {
    let mut stream = connect(at, client);
    stream.write_all(request("/metrics", headers).as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    match line.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(line.trim_end().to_owned()),
    }
}

#[track_caller]
fn assert_answered(at: &Server, client: &Arc<ClientConfig>, headers: &str) {
    let line = ask(at, client, headers).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK");
}

/// A request on a connection that stays open.
fn ask_again(stream: &mut BufReader<StreamOwned<ClientConnection, TcpStream>>, headers: &str) {
    let request = format!("GET /metrics HTTP/1.1\r\n{headers}\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "it ends: {head}");
    }
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
}

#[test]
fn only_the_right_certificate_and_password_are_answered() {
    let house = House::new();
    let other = Authority::new(&house.dir, "other");
    let right = house.authority.issue("right", "DNS:prometheus.example");
    let by_uri = house
        .authority
        .issue("by_uri", "URI:spiffe://example/scraper");
    let wrong_name = house
        .authority
        .issue("wrong_name", "DNS:x.prometheus.example");
    let wrong_authority = other.issue("wrong_authority", "DNS:prometheus.example");
    let web = house.web(&format!(
        "  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: authority.crt
  client_allowed_sans: [prometheus.example, 'spiffe://example/scraper']
http_server_config:
  headers: {{X-Frame-Options: deny}}
{}",
        user("ann")
    ));
    let metrics = house.start(&web);
    let ann = password("ann", "secret");
    let known = client(&house.authority, Some(&right));
    // Half a handshake, and none at all: the others are answered meanwhile.
    let mut half = metrics.connect();
    half.write_all(b"\x16\x03\x01\x02\x00\x01\x00").unwrap();
    let _silent = metrics.connect();
    for identity in [&right, &by_uri] {
        assert_answered(&metrics, &client(&house.authority, Some(identity)), &ann);
    }
    let tls12 = client_of(&house.authority, Some(&right), &[&TLS12]);
    assert_answered(&metrics, &tls12, &ann);

    for (what, refused) in [
        ("authority of the server", client(&other, Some(&right))),
        ("no certificate", client(&house.authority, None)),
        ("name", client(&house.authority, Some(&wrong_name))),
        (
            "authority",
            client(&house.authority, Some(&wrong_authority)),
        ),
    ] {
        let answer = ask(&metrics, &refused, &ann);
        assert!(answer.is_err(), "{what}: {answer:?}");
    }
    let bearer = "Host: localhost\r\nAuthorization: Bearer secret\r\n".to_owned();
    for headers in [
        "Host: localhost\r\n".to_owned(),
        bearer,
        password("ann", "wrong"),
        password("ann", ""),
        password("bob", "secret"),
        format!("{ann}Authorization: Basic eDp5\r\n"),
    ] {
        let line = ask(&metrics, &known, &headers).unwrap();
        assert_eq!(line, "HTTP/1.1 401 Unauthorized", "{headers}");
    }
    // HTTP without TLS gets no answer.
    let mut plain = metrics.connect();
    plain
        .write_all(request("/metrics", &ann).as_bytes())
        .unwrap();
    let (head, _) = answer(plain);
    assert!(!head.contains("HTTP/1.1 2"), "{head}");

    let mut stream = connect(&metrics, &known);
    stream
        .write_all(request("/metrics", &ann).as_bytes())
        .unwrap();
    let (head, body) = answer(stream);
    assert!(head.contains("x-frame-options: deny"), "{head}");
    assert!(
        String::from_utf8(body)
            .unwrap()
            .contains("trackiops_recorder_up")
    );
}

#[test]
fn connections_without_a_password_push_out_none_with_one() {
    let house = House::new();
    let metrics = house.start(&house.web(&user("ann")));
    let ann = password("ann", "secret");
    let client = client(&house.authority, None);
    let mut known = BufReader::new(connect(&metrics, &client));
    ask_again(&mut known, &ann);
    // Handshakes that do not end, and callers that do not say who they are.
    let mut held = Vec::new();
    for number in 0..100 {
        let mut stream = metrics.connect();
        if number % 2 == 0 {
            let _ = stream.write_all(b"\x16\x03\x01\x02\x00");
        }
        held.push(stream);
    }
    let mut shaken = connect(&metrics, &client);
    shaken.write_all(b"GET ").unwrap();
    for _ in 0..3 {
        ask_again(&mut known, &ann);
        assert_answered(&metrics, &client, &ann);
    }
    let sockets = fs::read_dir(format!("/proc/{}/fd", metrics.child.id()));
    let sockets = sockets.unwrap().count();
    assert!(sockets < 90, "{sockets} descriptors");
    drop(held);
    ask_again(&mut known, &ann);
}

#[test]
fn a_handshake_that_stalls_is_ended() {
    let house = House::new();
    let metrics = house.start(&house.web(""));
    let mut half = metrics.connect();
    half.write_all(b"\x16\x03\x01\x02\x00\x01\x00").unwrap();
    let begun = Instant::now();
    // Its end is an end of file, or a reset; with a time limit of the client, it would be neither.
    let read = half.read(&mut [0; 64]);
    assert!(!matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock));
    let elapsed = begun.elapsed();
    assert!(elapsed > Duration::from_secs(5), "{read:?} {elapsed:?}");
    assert!(elapsed < LONG, "{elapsed:?}");
}

#[test]
fn certificates_and_passwords_change_without_a_restart() {
    let house = House::new();
    let web = house.web(&user("ann"));
    let metrics = house.start(&web);
    let (ann, bob) = (password("ann", "secret"), password("bob", "secret"));
    let before = client(&house.authority, None);
    assert_answered(&metrics, &before, &ann);

    // As certbot and Kubernetes do it: other files take the names. First the certificate alone, which does not fit to the key.
    let other = Authority::new(&house.dir, "other");
    let new = other.issue("new", LOOPBACK);
    fs::rename(&new.certificate, house.dir.join("server.crt")).unwrap();
    assert_answered(&metrics, &before, &ann);
    let said = metrics.wait_for("going on with what was read before");
    assert!(
        said.contains("server.crt") && said.contains("server.key"),
        "{said}"
    );
    fs::rename(&new.key, house.dir.join("server.key")).unwrap();
    let after = client(&other, None);
    assert_answered(&metrics, &after, &ann);
    assert!(ask(&metrics, &before, &ann).is_err());
    metrics.wait_for("read again");

    // The file itself: another user, then damage, then no user at all.
    let text = fs::read_to_string(&web).unwrap();
    fs::write(&web, text.replace("ann:", "bob:")).unwrap();
    assert_answered(&metrics, &after, &bob);
    assert_eq!(
        ask(&metrics, &after, &ann).unwrap(),
        "HTTP/1.1 401 Unauthorized"
    );
    metrics.wait_for("read again");
    for broken in [
        "tls_server_config: [",
        text.split("basic_auth").next().unwrap(),
    ] {
        fs::write(&web, broken).unwrap();
        assert_answered(&metrics, &after, &bob);
        assert!(
            ask(&metrics, &after, "Host: localhost\r\n")
                .unwrap()
                .contains("401")
        );
        metrics.wait_for("going on with what was read before");
    }
}

#[test]
fn half_a_file_opens_no_server_to_other_names() {
    let house = House::new();
    let web = house.web(
        "  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: authority.crt
  client_allowed_sans: [scraper]
",
    );
    let metrics = house.start(&web);
    let [scraper, another] = ["scraper", "another"].map(|name| {
        let identity = house.authority.issue(name, &format!("DNS:{name}"));
        client(&house.authority, Some(&identity))
    });
    let text = fs::read_to_string(&web).unwrap();
    let (half, _) = text.split_once("  client_allowed_sans").unwrap();
    fs::write(&web, half).unwrap();
    let headers = "Host: localhost\r\n";
    assert_answered(&metrics, &scraper, headers);
    assert!(ask(&metrics, &another, headers).is_err());
    metrics.wait_for("has no client_allowed_sans any more");
}

#[test]
fn other_hosts_may_connect_only_with_tls_and_authentication() {
    let house = House::new();
    let open = ["--listen", "0.0.0.0:0", "--web-config"];
    let verify =
        |kind: &str| format!("  client_auth_type: {kind}\n  client_ca_file: authority.crt\n");
    let only_users = house.dir.join("users.yml");
    fs::write(&only_users, user("ann")).unwrap();
    let refused = |web: &Path| {
        let output = house.command(&open).arg(web).output().unwrap();
        let Output { status, stderr, .. } = output;
        assert_eq!(status.code(), Some(2));
        String::from_utf8(stderr).unwrap()
    };
    for more in ["", "  client_auth_type: RequireAnyClientCert\n"] {
        let said = refused(&house.web(more));
        assert!(
            said.contains("other hosts") && said.contains("basic_auth_users"),
            "{said}"
        );
    }
    assert!(refused(&house.web(&verify("VerifyClientCertIfGiven"))).contains("other hosts"));
    assert!(refused(&only_users).contains("other hosts"));
    let said = refused(&house.web("rate_limit: {burst: 1}\n"));
    assert!(
        said.contains("web.yml:4: rate_limit is not supported"),
        "{said}"
    );

    let scraper = house.authority.issue("scraper", "DNS:scraper");
    for (more, headers, identity) in [
        (user("ann"), password("ann", "secret"), None),
        (
            verify("RequireAndVerifyClientCert"),
            "Host: nas.example\r\n".to_owned(),
            Some(&scraper),
        ),
    ] {
        let web = house.web(&more);
        let mut command = house.command(&open);
        let mut metrics = Server::start(command.arg(&web), "metrics at https://0.0.0.0:");
        metrics.address = format!("127.0.0.1:{}", metrics.address);
        assert_answered(&metrics, &client(&house.authority, identity), &headers);
    }
}

/// A command that serves the page with this web configuration.
fn serve(house: &House, web: &Path) -> Command {
    let mut serve = trackiops(house.recording.dir());
    serve
        .arg("serve")
        .arg("--store")
        .arg(house.recording.store());
    serve.args(["--config", "none", "--listen", "127.0.0.1:0"]);
    serve.arg("--web-config").arg(web);
    serve
}

#[test]
fn the_page_is_served_with_tls_and_passwords() {
    let house = House::new();
    let web = house.web(&user("ann"));
    let mut server = Server::start(&mut serve(&house, &web), "serving at https://");
    assert!(!server.address.contains("token"), "{}", server.address);
    server.address = server.address.trim_end_matches('/').to_owned();
    let ann = password("ann", "secret");
    let client = client(&house.authority, None);
    for (path, headers, status) in [
        ("/", ann.clone(), "200"),
        ("/api/v1/meta", ann.clone(), "200"),
        ("/", "Host: localhost\r\n".to_owned(), "401"),
        ("/", ann.replace("localhost", "evil.example"), "421"),
    ] {
        let mut stream = connect(&server, &client);
        stream
            .write_all(request(path, &headers).as_bytes())
            .unwrap();
        let (head, _) = answer(stream);
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{path}: {head}"
        );
    }
    drop(server);

    // Without users, the token is asked for as without TLS.
    let web = house.web("");
    let mut server = Server::start(&mut serve(&house, &web), "serving at https://");
    let address = server.address.clone();
    let (address, token) = address.split_once("/?token=").unwrap();
    server.address = address.to_owned();
    let mut stream = connect(&server, &client);
    let with_token = request(&format!("/?token={token}"), "Host: localhost\r\n");
    stream.write_all(with_token.as_bytes()).unwrap();
    let (head, _) = answer(stream);
    assert!(
        head.starts_with("HTTP/1.1 303 ") && head.contains("; Secure"),
        "{head}"
    );
}

/// The head of a push, which is then answered. An error if the handshake fails.
fn accept_push(collector: &TcpListener, config: &Arc<ServerConfig>) -> io::Result<String> {
    let (stream, _) = collector.accept()?;
    stream.set_read_timeout(Some(LONG))?;
    let connection = ServerConnection::new(Arc::clone(config)).unwrap();
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body)?;
    let stream = stream.get_mut();
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    stream.flush()?;
    Ok(head)
}

#[test]
fn pushes_go_to_the_right_collector_alone_with_certificate_and_token() {
    let house = House::new();
    let config = server(
        &house.authority,
        &house.authority.issue("collector", "DNS:localhost"),
    );
    let pusher = house.authority.issue("pusher", "DNS:pusher");
    let other = Authority::new(&house.dir, "other");
    let [ca, headers] = ["ca.crt", "headers"].map(|name| house.dir.join(name));
    fs::copy(other.certificate(), &ca).unwrap();
    fs::write(&headers, "Authorization: Bearer one\n").unwrap();
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "https://localhost:{}",
        collector.local_addr().unwrap().port()
    );
    let mut command = house.command(&["--listen", "127.0.0.1:0", "--otlp", &url]);
    command.args(["--otlp-interval", "1s"]);
    command.arg("--otlp-ca").arg(&ca);
    command.arg("--otlp-cert").arg(&pusher.certificate);
    command.arg("--otlp-key").arg(&pusher.key);
    let command = command.arg("--otlp-headers").arg(&headers);
    let metrics = Server::start(command, "metrics at ");
    // No authority that the pusher trusts vouches for this collector.
    assert!(accept_push(&collector, &config).is_err());
    let said = metrics.wait_for("cannot push to https://localhost:");
    assert!(said.contains("certificate"), "{said}");

    fs::copy(house.authority.certificate(), &ca).unwrap();
    let begun = Instant::now();
    let head = loop {
        match accept_push(&collector, &config) {
            Ok(head) => break head,
            Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
        }
    };
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: Bearer one\r\n"), "{head}");
    metrics.wait_for("pushing to https://localhost:");
    fs::write(&headers, "Authorization: Bearer another\n").unwrap();
    let begun = Instant::now();
    while !accept_push(&collector, &config)
        .unwrap()
        .contains("Bearer another\r\n")
    {
        assert!(begun.elapsed() < LONG, "the token stays");
        sleep(Duration::from_millis(10));
    }
    let (_, text) = metrics.get("/metrics", "Host: localhost\r\n");
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("trackiops_otlp_push_failures_total "),
        "{text}"
    );
    assert!(
        !text.contains("trackiops_otlp_push_failures_total 0\n"),
        "{text}"
    );
    // Neither the command line nor the environment has the token.
    for file in ["cmdline", "environ"] {
        let text = fs::read(format!("/proc/{}/{file}", metrics.child.id())).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("Bearer"), "{file}");
    }
}

#[test]
fn flags_of_pushes_need_each_other() {
    let house = House::new();
    let https = ["--otlp", "https://localhost:1"];
    for (flags, has) in [
        (vec!["--listen", "127.0.0.1:0", "--otlp-ca", "x"], "--otlp"),
        ([&https[..], &["--otlp-cert", "x"]].concat(), "--otlp-key"),
        ([&https[..], &["--otlp-key", "x"]].concat(), "--otlp-cert"),
        ([&https[..], &["--otlp-ca", "/x"]].concat(), "/x"),
        ([&https[..], &["--otlp-headers", "/x"]].concat(), "/x"),
        (
            vec!["--otlp", "http://127.0.0.1:1", "--otlp-ca", "/x"],
            "https://",
        ),
        (
            vec!["--otlp", "https://me:secret@localhost"],
            "--otlp-headers",
        ),
        ([&https[..], &["--web-config", "x"]].concat(), "--listen"),
    ] {
        let Output { status, stderr, .. } = house.command(&flags).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{flags:?}: {stderr}");
        assert!(stderr.contains(has), "{flags:?}: {stderr}");
    }
}
