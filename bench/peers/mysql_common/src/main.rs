//! Decodes a binlog file with mysql_common and prints what it found: decode FILE quick|full.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use mysql_common::binlog::consts::BinlogVersion;
use mysql_common::binlog::events::EventData;
use mysql_common::binlog::row::BinlogRow;
use mysql_common::binlog::value::BinlogValue;
use mysql_common::binlog::BinlogFile;
use mysql_common::value::Value;

#[derive(Default)]
struct Found {
    inserts: u64,
    updates: u64,
    deletes: u64,
    int_sum: i64,
    text_size: u64,
    byte_sum: u64,
}

impl Found {
    fn image(&mut self, row: BinlogRow, full: bool) -> Result<(), String> {
        for value in row.unwrap() {
            match value {
                BinlogValue::Value(Value::Int(number)) => self.int_sum += number,
                BinlogValue::Value(Value::Bytes(text)) => {
                    self.text_size += text.len() as u64;
                    if full {
                        self.byte_sum += text.iter().map(|byte| u64::from(*byte)).sum::<u64>();
                    }
                }
                other => return Err(format!("a value {other:?}")),
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let full = arguments[2] == "full";
    let source = BufReader::with_capacity(1 << 18, File::open(&arguments[1])?);
    let mut file = BinlogFile::new(BinlogVersion::Version4, source)?;
    let mut found = Found::default();
    while let Some(event) = file.next() {
        let event = event?;
        let Some(EventData::RowsEvent(rows)) = event.read_data()? else {
            continue;
        };
        let map = file.reader().get_tme(rows.table_id()).ok_or("rows without a table map")?;
        for row in rows.rows(map) {
            let (before, after) = row?;
            match (&before, &after) {
                (Some(_), Some(_)) => found.updates += 1,
                (None, _) => found.inserts += 1,
                (_, None) => found.deletes += 1,
            }
            for image in [before, after].into_iter().flatten() {
                found.image(image, full)?;
            }
        }
    }
    println!(
        "{{\"inserts\":{},\"updates\":{},\"deletes\":{},\"int_sum\":{},\"text_size\":{},\"byte_sum\":{}}}",
        found.inserts, found.updates, found.deletes, found.int_sum, found.text_size, found.byte_sum
    );
    Ok(())
}
