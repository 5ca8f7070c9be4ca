//! Parser of tracefs `format` files, which say where the fields of a tracepoint are.
//!
//! Names and positions differ between kernels (`status` became `error`, `stable` changed its
//! size), so they are read from the running kernel, never assumed.

/// One field of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracepointField {
    /// Its C name, without array brackets.
    pub name: String,
    /// Bytes from the start of the event.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
}

/// The fields of one tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracepointFormat {
    fields: Vec<TracepointField>,
}

impl TracepointFormat {
    /// Skips lines that it does not understand. If a needed field is then missing, the caller
    /// reports it.
    pub fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let fields = text.lines().filter_map(parse_field).collect();
        Self { fields }
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&TracepointField> {
        self.fields.iter().find(|f| f.name == name)
    }
}

/// Parses `field:u64 fileid;\toffset:24;\tsize:8;\tsigned:0;`.
fn parse_field(line: &str) -> Option<TracepointField> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    let declaration = declaration.split('[').next()?;
    let name = declaration
        .rsplit([' ', '*', '\t'])
        .find(|word| !word.is_empty())?;
    let mut offset = None;
    let mut size = None;
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            _ => {}
        }
    }
    Some(TracepointField {
        name: name.to_owned(),
        offset: offset?,
        size: size?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_found_whatever_their_declaration() {
        let format = TracepointFormat::parse(
            b"name: x\nID: 7\nformat:\n\
              \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
              \tfield:u64 fileid;\toffset:24;\tsize:8;\tsigned:0;\n\
              \tfield:const void *action;\toffset:16;\tsize:8;\tsigned:0;\n\
              \tfield:char verifier[8];\toffset:48;\tsize:8;\tsigned:0;\n\
              \tfield:__data_loc char[] name;\toffset:56;\tsize:4;\tsigned:0;\n\
              \nprint fmt: \"x=%d; field:u64 fake;\", REC->x\n",
        );
        let fileid = TracepointField {
            name: "fileid".into(),
            offset: 24,
            size: 8,
        };
        assert_eq!(format.field("fileid"), Some(&fileid));
        assert_eq!(format.field("action").map(|f| f.offset), Some(16));
        assert_eq!(format.field("verifier").map(|f| f.size), Some(8));
        assert_eq!(format.field("fake"), None);
    }

    #[test]
    fn fields_of_writes_stand_where_each_kernel_says() {
        let field = |kernel: &str, name: &str| {
            let event = "sys/kernel/tracing/events/nfs/nfs_writeback_done/format";
            let path = format!(
                "{}/tests/kernels/{kernel}/{event}",
                env!("CARGO_MANIFEST_DIR")
            );
            let format = TracepointFormat::parse(&std::fs::read(path).unwrap());
            format.field(name).map(|f| (f.offset, f.size))
        };
        assert_eq!(field("5.10", "status"), Some((40, 4)));
        assert_eq!(field("5.10", "error"), None);
        assert_eq!(field("5.10", "stable"), Some((44, 4)));
        assert_eq!(field("5.10", "verifier"), Some((48, 8)));
        for kernel in ["6.1", "6.12", "newest"] {
            assert_eq!(field(kernel, "status"), None, "{kernel}");
            assert_eq!(field(kernel, "error"), Some((40, 4)), "{kernel}");
            assert_eq!(field(kernel, "stable"), Some((48, 8)), "{kernel}");
            assert_eq!(field(kernel, "verifier"), Some((56, 8)), "{kernel}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            TracepointFormat::parse(&bytes);
        }

        #[test]
        fn lines_that_look_like_fields_never_panic(tail in "[ -~]{0,60}") {
            TracepointFormat::parse(format!("\tfield:{tail}").as_bytes());
        }
    }
}
