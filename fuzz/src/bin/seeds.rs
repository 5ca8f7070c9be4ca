//! Writes the initial inputs of fuzzing, `seeds/`: from the golden store, the tests' kernel files, and messages made here.
//!
//!     cargo run --manifest-path fuzz/Cargo.toml --bin seeds

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use rusqlite::Connection;
use trackiops_fuzz::{captures, parts, sealed};
use trackiops_schemas::columns::META_RANGE;

type Done<T> = Result<T, Box<dyn Error>>;

fn main() -> Done<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds = Seeds(root.join("seeds"));
    seeds.store(&root.join("../store/tests/format-1"))?;
    seeds.kernels(&root.join("../collector/tests/kernels"))?;
    seeds.captures()?;
    seeds.texts()
}

struct Seeds(PathBuf);

impl Seeds {
    fn put(&self, target: &str, name: &str, bytes: &[u8]) -> Done<()> {
        let directory = self.0.join(target);
        fs::create_dir_all(&directory)?;
        Ok(fs::write(directory.join(name), bytes)?)
    }

    fn store(&self, golden: &Path) -> Done<()> {
        let read = |name: &str| fs::read(golden.join(name));
        let windows = parts::join(&read("journal/4.end")?, &read("journal/4.tij")?);
        self.put("journal", "golden", &windows)?;
        let requests = parts::join(
            &read("journal/requests-4.end")?,
            &read("journal/requests-4.tij")?,
        );
        self.put("requests", "golden", &requests)?;
        for dataset in ["rollup", "health", "ops"] {
            let path =
                format!("{dataset}/granularity=1s/date=2026-11-22/h-20261122T001500Z-3.parquet");
            self.segment("segment", dataset, &read(&path)?)?;
        }
        let path = "requests/date=2026-11-22/h-20261122T001500Z-3.parquet";
        self.segment("requests_segment", "requests", &read(path)?)?;
        self.catalog(&read("catalog.db")?)
    }

    /// A segment as it is, and also without compression, so that changes of values are changes of bytes.
    fn segment(&self, target: &str, name: &str, file: &[u8]) -> Done<()> {
        self.put(target, name, file)?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let file = bytes::Bytes::copy_from_slice(file);
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)?;
        let pairs = reader
            .metadata()
            .file_metadata()
            .key_value_metadata()
            .cloned();
        let mut pairs = pairs.unwrap_or_default();
        pairs.retain(|pair| pair.key != "ARROW:schema");
        // In the form of exports: 2026-11-22, from 0:00 to 1:00.
        let range = "1795305600000..1795309200000".to_owned();
        pairs.push(KeyValue::new(META_RANGE.to_owned(), range));
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_key_value_metadata(Some(pairs))
            .build();
        let options = parquet::arrow::arrow_writer::ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true);
        let schema = Arc::clone(reader.schema());
        let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options)?;
        for batch in reader.build()? {
            writer.write(&batch?)?;
        }
        let file = writer.into_inner()?;
        if name == "rollup" {
            self.put("export", name, &file)?;
        }
        let plain = sealed::Segment::without_sums(&file).ok_or("no Parquet")?;
        self.put(target, &format!("{name}-plain"), &plain.encode())
    }

    /// A catalog with small pages, which are mostly content.
    fn catalog(&self, golden: &[u8]) -> Done<()> {
        let scratch = self.0.join("scratch.db");
        fs::write(&scratch, sealed::database(golden))?;
        let connection = Connection::open(&scratch)?;
        connection.execute_batch("PRAGMA page_size = 1024; VACUUM")?;
        let mut blobs =
            connection.prepare("SELECT rows, files FROM segment WHERE dataset = 'rollup'")?;
        let mut blobs = blobs.query([])?;
        if let Some(row) = blobs.next()? {
            let (rows, blob): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            self.put(
                "file_index",
                "packed",
                &[&rows.to_le_bytes()[..], &blob].concat(),
            )?;
        }
        // Keys that increase by 1, in one row each.
        self.put(
            "file_index",
            "plain",
            &[&3_i64.to_le_bytes()[..], &[1; 6]].concat(),
        )?;
        let database = fs::read(&scratch)?;
        fs::remove_file(&scratch)?;
        self.put("catalog", "golden", &sealed::catalog(database))
    }

    fn kernels(&self, kernels: &Path) -> Done<()> {
        for directory in fs::read_dir(kernels)? {
            let directory = directory?.path();
            let kernel = directory
                .file_name()
                .and_then(OsStr::to_str)
                .ok_or("no kernel")?;
            let kernel_files = directory.join("sys/kernel");
            let read = |name: &str| fs::read(kernel_files.join(name));
            if matches!(kernel, "5.10" | "6.12") {
                let modules = read("btf/nfs").unwrap_or_default();
                self.put("btf", kernel, &parts::join(&modules, &read("btf/vmlinux")?))?;
            }
            let events = [
                "nfs/nfs_initiate_read",
                "nfs/nfs_initiate_write",
                "sunrpc/rpc_task_begin",
                "sunrpc/rpc_task_end",
                "nfs/nfs_readpage_done",
                "nfs/nfs_writeback_done",
            ];
            let formats = events.map(|event| read(&format!("tracing/events/{event}/format")));
            let formats: Vec<_> = formats.into_iter().collect::<Result<_, _>>()?;
            self.put("formats", kernel, &formats.join(&0))?;
        }
        Ok(())
    }

    fn captures(&self) -> Done<()> {
        let exchanges = captures::exchanges();
        self.put("capture", "pcap", &captures::pcap(&exchanges))?;
        self.put("capture", "pcapng", &captures::pcapng(&exchanges))?;
        self.put("capture_stream", "tcp", &captures::stream(&exchanges))
    }

    fn texts(&self) -> Done<()> {
        for (target, texts) in TEXTS {
            for (place, text) in texts.iter().enumerate() {
                self.put(target, &format!("{place}"), text.as_bytes())?;
            }
        }
        let mut path = vec![0; 24];
        path.extend(9_u32.to_le_bytes());
        path.extend([0; 4]);
        path.extend(b"f\0d\0s:/e\0");
        self.put("records", "path", &path)?;
        self.put("records", "request", &[0; 96])
    }
}

/// Targets, and their text inputs.
const TEXTS: &[(&str, &[&str])] = &[
    (
        "proc",
        &[
            "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
             36 22 0:49 / /mnt/a\\040b rw,relatime shared:1 master:2 - nfs4 [::1]:/exp rw,vers=4.2\n\
             38 22 0:49 / /mnt/sub rw - nfs4 [::1]:/exp/sub rw\n\0\
             36 22 0:49 / /mnt/c rw - nfs s:/x rw,vers=3,addr=10.0.0.1\n",
            "33 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "36 22 0:49 / /mnt/a rw - nfs4 s:/e rw\nmnt_id:\t36\nino:\t1234\npos:\t0\n",
            "7f00-7f01 rw-s 00000000 00:31 99                         /mnt/nfs/a\\012b c\n",
            "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000:Alice:/home/alice:/bin/sh\n",
            "13 c885 0 0x10 0x51708611 12988 nfs4_open_ops [nfsv4] nfsv4 OPEN a:call_status [sunrpc] q:xprt_pending\n",
            "RPC server: localhost\naddr:  127.0.0.1\nport:  2049\n",
        ],
    ),
    (
        "nfsdump",
        &[
            "1006231501.000000 31.03f7 30.0801 T C3 1 3 lookup fh aa name \"a b\" euid 3e8 egid 64 con = 130 len = 140\n\
             1006231501.000500 30.0801 31.03f7 T R3 1 3 lookup OK fh bb ftype 1 mode 1b6 size 2328 used 4000 fsid 7 fileid 2a atime \
             1006231501.1 status=0 pl = 200 con = 270 len = 270\n",
            "1006231501.003000 31.03f7 30.0801 T C3 3 7 write fh bb off 0 count 8 stable F euid 3e8 con = 130 len = 140\n\
             1006231501.003250 30.0801 31.03f7 T R3 3 7 write 1c status=0 pl = 8 con = 70 len = 70\n",
            "1006231501.006000 32.02d2 30.0801 U C2 3 8 write fh cc begoff 0 offset 1000 tcount bba con = 130 len = 140\n\
             1006231501.006500 32.02d2 30.0801 U C2 3 8 write fh cc begoff 0 offset 1000 tcount bba con = 130 len = 140\n\
             1006231501.007000 30.0801 32.02d2 U R2 3 8 write OK ftype 1 size 1bba fsid 7 fileid 2b con = 1 len = 1\n\
             1006231501.008000 32.02d2 30.0801 U C2 4 b rename SHORT PACKETcon = 130 len = 400\n",
            "1.0 1.1 2.2 U C2 a b rename fh 00 fn \"a \"b\" fh2 01 fn2 \"\" con = 1 len = 2\n\
             1.1 2.2 1.1 U R2 99 b rename OK status=0 pl = 4 con = 70 len = 70\n",
        ],
    ),
    (
        "names",
        &[
            "rollup/granularity=10s/date=2026-11-21/h-20261121T235950Z-1.parquet",
            "requests/date=2026-11-21/h-20261121T235959Z-1.parquet",
            "journal/requests-4.tij",
            "journal/4.tij.damaged",
            "7:-1000..2000,9:2000..5000",
        ],
    ),
    (
        "condition",
        &[
            "read_p99 > 20ms and read_requests >= 100",
            "(read_bytes > 1GiB or write_bytes < 10kB) and not_there != 1e3",
            "read_throughput >= 20KiB/s || (errors_share == 5% && iops = 3/s)",
            "((((read_mean <= 5.5e3))))",
        ],
    ),
    (
        "words",
        &[
            "2d12h",
            "1h 30m ago",
            "+10s",
            "@1795233120",
            "2026-11-21T03:10:00.5+01:00",
            "yesterday 03:10",
            "2026-03-29 02:30:07.25",
            "1.5GiB",
            "1s,10s,1m,1h",
            "1s=2d,10s=14d,1m=90d,1h=forever",
            "read_p99:asc",
            "time,path,read_p99,read_bytes",
            "file,tenant",
            "0:49:1234",
            "/mnt/*/[a-z]?.log",
            "1000:/user.slice",
        ],
    ),
];
