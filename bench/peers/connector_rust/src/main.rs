//! Decodes a binlog file with mysql-binlog-connector-rust and prints what it found: decode FILE quick|full.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use mysql_binlog_connector_rust::binlog_error::BinlogError;
use mysql_binlog_connector_rust::binlog_parser::BinlogParser;
use mysql_binlog_connector_rust::column::column_value::ColumnValue;
use mysql_binlog_connector_rust::event::event_data::EventData;
use mysql_binlog_connector_rust::event::row_event::RowEvent;

/// A buffered file in which a short way ahead costs nothing: the parser seeks past the checksum of every event, and a
/// plain `BufReader` throws its buffer away each time.
struct Source(BufReader<File>);

impl Read for Source {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.0.read(target)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Current(distance) => self.0.seek_relative(distance).map(|()| 0),
            other => self.0.seek(other),
        }
    }
}

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
    fn image(&mut self, row: &RowEvent, full: bool) -> Result<(), String> {
        for value in &row.column_values {
            match value {
                ColumnValue::Long(number) => self.int_sum += i64::from(*number),
                ColumnValue::String(text) => {
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
    let mut source = Source(BufReader::with_capacity(1 << 18, File::open(&arguments[1])?));
    let size = source.0.get_ref().metadata()?.len();
    let mut parser = BinlogParser { checksum_length: 0, table_map_event_by_table_id: Default::default() };
    parser.check_magic(&mut source)?;
    let mut found = Found::default();
    let mut place = 4;
    // It says the same of the end of a file and of a file that is cut off: the sizes of the events tell.
    while place < size {
        let (header, data) = match parser.next(&mut source) {
            Ok(event) => event,
            Err(BinlogError::IoError(error)) => return Err(Box::new(error)),
            Err(error) => return Err(format!("{error:?}").into()),
        };
        place += u64::from(header.event_length);
        match data {
            EventData::WriteRows(event) => {
                found.inserts += event.rows.len() as u64;
                for row in &event.rows {
                    found.image(row, full)?;
                }
            }
            EventData::UpdateRows(event) => {
                found.updates += event.rows.len() as u64;
                for (before, after) in &event.rows {
                    found.image(before, full)?;
                    found.image(after, full)?;
                }
            }
            EventData::DeleteRows(event) => {
                found.deletes += event.rows.len() as u64;
                for row in &event.rows {
                    found.image(row, full)?;
                }
            }
            _ => {}
        }
    }
    println!(
        "{{\"inserts\":{},\"updates\":{},\"deletes\":{},\"int_sum\":{},\"text_size\":{},\"byte_sum\":{}}}",
        found.inserts, found.updates, found.deletes, found.int_sum, found.text_size, found.byte_sum
    );
    Ok(())
}
