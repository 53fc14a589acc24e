//! Tables of results as CSV text.

/// Returns a table as CSV text: `header` with its names separated by commas, and a line per record. Fields are quoted
/// where necessary.
pub(crate) fn text<R>(header: &str, records: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item: AsRef<[u8]>>,
{
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut written = writer.write_record(header.split(','));
    for record in records {
        written = written.and_then(|()| writer.write_record(record));
    }
    written.expect("every record has a field for each name of the header");
    let bytes = writer.into_inner().expect("memory can be written to");
    String::from_utf8(bytes).expect("fields are text")
}
