//! Checks a footer before it is decoded, because Parquet's reader allocates whatever a footer claims.

use super::thrift::{BINARY, I32, LIST, List, STRUCT, Walk};

/// Deepest nesting of groups. The decoder recurses for each level.
const DEEPEST: usize = 32;
/// Memory of a decoded structure. The largest is a column of a row group.
const STRUCTURE_BYTES: u64 = 800;
/// Memory of any other element of a list.
const ELEMENT_BYTES: u64 = 32;

/// The fields of `FileMetaData` and `SchemaElement` (`parquet.thrift`) that are checked.
const SCHEMA: i16 = 2;
const NAME: i16 = 4;
const CHILDREN: i16 = 5;

/// Memory that a footer takes when it is decoded. An error if it cannot be decoded.
pub(super) fn decoded_bytes(footer: &[u8]) -> Result<u64, &'static str> {
    let damaged = "its footer is damaged";
    let elements = Walk(footer).count().ok_or(damaged)?;
    let lists = elements.structures.saturating_mul(STRUCTURE_BYTES)
        + elements.others.saturating_mul(ELEMENT_BYTES);
    let mut names = Vec::new();
    let walked = Walk(footer).fields(|walk, field| match (field.id, field.kind) {
        (SCHEMA, LIST) => {
            names.push(names_bytes(walk)?);
            Some(())
        }
        _ => walk.skip(field.kind),
    });
    walked.ok_or(damaged)?;
    let texts = 2 * footer.len() as u64;
    names
        .into_iter()
        .try_fold(lists + texts, |sum, names| Ok(sum.saturating_add(names?)))
}

/// Memory of the names of a segment's columns.
const MOST_NAMES_BYTES: u64 = 16 << 20;

/// Checks the schema of a segment, whose footer has other limits. Checks nothing else, because each query does this for
/// each segment.
pub(crate) fn check_schema(footer: &[u8]) -> Result<(), &'static str> {
    let mut names = None;
    Walk(footer).fields(|walk, field| match (field.id, field.kind) {
        (SCHEMA, LIST) => {
            names = names_bytes(walk);
            None
        }
        _ => walk.skip(field.kind),
    });
    match names.ok_or("its footer is damaged")?? {
        ..=MOST_NAMES_BYTES => Ok(()),
        _ => Err("the names of its columns are longer than any can be"),
    }
}

/// Memory of the paths of all columns: a path has the names of all enclosing groups.
fn names_bytes(walk: &mut Walk<'_>) -> Option<Result<u64, &'static str>> {
    let List { kind, count } = walk.list()?;
    if kind != STRUCT {
        return None;
    }
    // For each open group, the number of remaining children and the bytes of the path.
    let mut open: Vec<(i64, u64)> = Vec::new();
    let mut sum = 0_u64;
    for _ in 0..count {
        let (name, children) = schema_element(walk)?;
        let above = open.last_mut().map_or(0, |(left, path)| {
            *left -= 1;
            *path
        });
        let path = above + name + size_of::<String>() as u64;
        sum = sum.saturating_add(path);
        if children > 0 {
            open.push((children, path));
        }
        while open.last().is_some_and(|(left, _)| *left <= 0) {
            open.pop();
        }
        if open.len() > DEEPEST {
            return Some(Err("its columns are nested deeper than can be read"));
        }
    }
    Some(Ok(sum))
}

/// The length of its name, and the number of its children.
fn schema_element(walk: &mut Walk<'_>) -> Option<(u64, i64)> {
    let (mut name, mut children) = (0, 0);
    walk.fields(|walk, field| {
        match (field.id, field.kind) {
            (NAME, BINARY) => name = walk.binary()?.len() as u64,
            (CHILDREN, I32) => children = walk.number()?,
            _ => walk.skip(field.kind)?,
        }
        Some(())
    })?;
    Some((name, children))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schema of elements with a name each, and a number of children.
    fn footer(elements: &[(&str, u8)]) -> Vec<u8> {
        let mut bytes = vec![0x29, 0xfc];
        bytes.extend([
            (elements.len() & 0x7f) as u8 | 0x80,
            (elements.len() >> 7) as u8,
        ]);
        for (name, children) in elements {
            bytes.extend([0x48, name.len() as u8]);
            bytes.extend(name.bytes());
            bytes.extend([0x15, children * 2, 0]);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn names_count_once_for_each_column_below_them() {
        let long = "x".repeat(100);
        let mut elements = vec![("root", 1), (&*long, 50)];
        elements.extend([("a", 0); 50]);
        let flat = decoded_bytes(&footer(&[("root", 50), (&long, 0)])).unwrap();
        let nested = decoded_bytes(&footer(&elements)).unwrap();
        assert!(nested > flat + 50 * 100, "{nested} {flat}");
    }

    #[test]
    fn a_deep_schema_is_refused_before_it_is_decoded() {
        let deep = |groups| footer(&vec![("g", 1); groups]);
        assert!(decoded_bytes(&deep(DEEPEST)).is_ok());
        let refused = decoded_bytes(&deep(10_000)).unwrap_err();
        assert!(refused.contains("nested deeper"), "{refused}");
        for of_segment in [deep(10_000), footer(&[("", 0); 3]), footer(&[])] {
            assert_eq!(check_schema(&of_segment).is_err(), of_segment.len() > 1000);
        }
        assert!(check_schema(&[0]).is_err());
        assert!(decoded_bytes(&[0x19, 0xfc, 0xff, 0xff, 0x7f, 0]).is_err());
    }
}
