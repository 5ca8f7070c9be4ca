//! Every column, of segments, answers and exports, has a type that all engines read as the same value: docs/reference/format.md, "Why these types".

use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use trackiops_query::{AnswerRow, Columns, FileActivity, OperationAnswer, Record, Volume};
use trackiops_render::ExportDataset;
use trackiops_schemas::columns::{health_schema, ops_schema, request_schema, rollup_schema};
use trackiops_store::MountSeen;

fn check(field: &Field) {
    match field.data_type() {
        DataType::List(item) => check(item),
        DataType::Struct(fields) => fields.iter().for_each(|field| check(field)),
        DataType::Int32
        | DataType::Int64
        | DataType::Float64
        | DataType::Utf8
        | DataType::Boolean => {}
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) if &**zone == "UTC" => {}
        other => panic!("{} is {other}", field.name()),
    }
}

fn all<R: Record>() -> SchemaRef {
    let names: Vec<_> = R::columns().into_iter().map(|column| column.name).collect();
    Columns::<R>::parse(&names.join(",")).unwrap().schema()
}

#[test]
fn there_are_no_unsigned_16_bit_or_nanosecond_columns() {
    let segments = [
        rollup_schema(),
        ops_schema(),
        health_schema(),
        request_schema(),
    ];
    let answers = [
        all::<AnswerRow>(),
        all::<OperationAnswer>(),
        all::<FileActivity>(),
        all::<MountSeen>(),
        all::<Volume>(),
    ];
    let exports = ["rollup", "ops", "health", "requests"];
    let exports = exports.map(|name| name.parse::<ExportDataset>().unwrap().schema());
    for schema in segments.into_iter().chain(answers).chain(exports) {
        schema.fields().iter().for_each(|field| check(field));
    }
}

#[test]
fn stored_columns_say_the_same_of_themselves_in_answers_and_in_segments() {
    for (segment, answer) in [
        (rollup_schema(), all::<AnswerRow>()),
        (ops_schema(), all::<OperationAnswer>()),
    ] {
        for field in segment.fields() {
            let answered = answer.field_with_name(field.name()).unwrap();
            assert_eq!(answered.metadata(), field.metadata(), "{}", field.name());
            assert_eq!(answered.data_type(), field.data_type(), "{}", field.name());
        }
    }
}
