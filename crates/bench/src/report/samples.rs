//! The file `samples.csv`: the values of each sample of a run, a line for each row of server, driver and users.
//!
//! A line has the end of the sample in microseconds from the start signal, the name of the row, and the value in the
//! row's unit (docs/notesbench.md, "Report"). Names are words, so that no field is ever quoted. A value that is not
//! known has no line.

use std::fmt::Write as _;

/// The first line.
const HEADER: &str = "end_us,resource,value";
/// Maximum length of the name of a row.
const RESOURCE_BYTES_MAX: usize = 100;

/// The value of a row in a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleValue {
    /// When the sample ended, from the start signal.
    pub end_us: u64,
    /// The name of the row.
    pub resource: String,
    /// The value.
    pub value: f64,
}

/// Why the file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is damaged: {reason}")]
pub struct DamagedLine {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Formats the file.
pub fn format(values: &[SampleValue]) -> String {
    let mut text = format!("{HEADER}\n");
    for SampleValue { end_us, resource, value } in values {
        let _ = writeln!(text, "{end_us},{resource},{value}");
    }
    text
}

/// Parses the file.
///
/// # Errors
///
/// With the first line that is none of this format.
pub fn parse(text: &str) -> Result<Vec<SampleValue>, DamagedLine> {
    let damaged = |line, reason| DamagedLine { line, reason };
    let mut lines = (1..).zip(text.lines());
    if lines.next().is_none_or(|(_, header)| header != HEADER) {
        return Err(damaged(1, "it is not the header of this format"));
    }
    lines.map(|(line, text)| parse_line(text).map_err(|reason| damaged(line, reason))).collect()
}

fn parse_line(line: &str) -> Result<SampleValue, &'static str> {
    let fields: Vec<&str> = line.split(',').collect();
    let [end_us, resource, value] = fields[..] else { return Err("it has not three fields") };
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if resource.is_empty() || resource.len() > RESOURCE_BYTES_MAX || !resource.bytes().all(is_word) {
        return Err("its row has no name");
    }
    let value = value.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or("its value is not a number")?;
    let end_us = end_us.parse().map_err(|_| "its time is not a number")?;
    Ok(SampleValue { end_us, resource: resource.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_as_they_were_written() {
        let value = |end_us, resource: &str, value| SampleValue { end_us, resource: resource.to_owned(), value };
        let values = [value(10, "users_connected", 3.0), value(10, "transactions", 0.1), value(20, "a", -2.5e-9)];
        let text = format(&values);
        assert!(text.starts_with("end_us,resource,value\n10,users_connected,3\n10,transactions,0.1\n"), "{text}");
        assert_eq!(parse(&text).as_deref(), Ok(&values[..]));
    }

    #[test]
    fn damaged_lines_are_named() {
        let damaged = |text: &str| parse(text).expect_err(text).to_string();
        assert_eq!(damaged(""), "line 1 is damaged: it is not the header of this format");
        let lines = [
            ("1,a", "it has not three fields"),
            ("1,,2", "its row has no name"),
            ("1,<b>,2", "its row has no name"),
            ("1,a,inf", "its value is not a number"),
            ("-1,a,2", "its time is not a number"),
        ];
        for (line, reason) in lines {
            assert_eq!(damaged(&format!("{HEADER}\n1,a,2\n{line}\n")), format!("line 3 is damaged: {reason}"));
        }
    }
}
