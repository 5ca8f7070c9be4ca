//! A command that answers HTTP, and its clients.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use trackiops_testkit::program::without_settings;

/// User of the program if the test runs as root.
pub const NOBODY: u32 = 65_534;
pub const LONG: Duration = Duration::from_secs(30);

/// A running command.
pub struct Server {
    pub child: Child,
    /// Its address.
    pub address: String,
    /// Lines that it said after its address.
    said: Mutex<mpsc::Receiver<String>>,
}

impl Server {
    /// Starts it, and waits for the line with its address, which begins with `says`.
    pub fn start(command: &mut Command, says: &str) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (said, hear) = mpsc::channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        let address = loop {
            let line = hear.recv_timeout(LONG).expect("no address");
            if let Some(address) = line.strip_prefix(says) {
                break address.to_owned();
            }
        };
        let said = Mutex::new(hear);
        Self {
            child,
            address,
            said,
        }
    }

    /// Waits for a line that has this text.
    pub fn wait_for(&self, text: &str) -> String {
        let said = self.said.lock().unwrap();
        loop {
            let line = said.recv_timeout(LONG);
            let line = line.unwrap_or_else(|_| panic!("it does not say {text}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// An answer's head and body.
    pub fn get(&self, path: &str, headers: &str) -> (String, Vec<u8>) {
        let mut stream = self.connect();
        stream.write_all(request(path, headers).as_bytes()).unwrap();
        answer(stream)
    }

    pub fn rss_bytes(&self) -> u64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as u64
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request that closes the connection afterwards.
pub fn request(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n")
}

/// Head and body of the answer.
pub fn answer(mut stream: impl Read) -> (String, Vec<u8>) {
    let mut answer = Vec::new();
    // A reset after an early answer also ends it.
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|at| at == b"\r\n\r\n");
    let end = end.unwrap_or(answer.len());
    let body = answer.get(end + 4..).unwrap_or_default().to_vec();
    (String::from_utf8_lossy(&answer[..end]).into_owned(), body)
}

/// The program as a user other than root, in the group of the recorder's socket.
pub fn trackiops(dir: &Path) -> Command {
    let program = env!("CARGO_BIN_EXE_trackiops");
    if !rustix::process::geteuid().is_root() {
        let mut command = Command::new(program);
        without_settings(&mut command);
        return command;
    }
    let copy = dir.join("trackiops");
    if !copy.exists() {
        // Copies with another process: Linux cannot start a program that a child of this process still has open for writing.
        let copied = Command::new("cp").arg(program).arg(&copy).status();
        assert!(copied.unwrap().success());
        fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(copy);
    without_settings(&mut command);
    command.uid(NOBODY).gid(rustix::process::getegid().as_raw());
    command
}
