//! The counters that the server publishes at `/metrics`, in the text format of Prometheus.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Maximum size of a page.
const PAGE_BYTES_MAX: u64 = 8 << 20;

/// The samples of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    text: String,
}

impl Metrics {
    /// Requests the page from a host and port.
    ///
    /// # Errors
    ///
    /// If the server does not answer with a page of at most 8 MiB.
    pub async fn request(address: &str) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut reply = Vec::new();
        let length = (&mut stream).take(PAGE_BYTES_MAX + 1).read_to_end(&mut reply).await?;
        let refused = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
        if length as u64 > PAGE_BYTES_MAX {
            return Err(refused("the page is longer than 8 MiB"));
        }
        let text = String::from_utf8(reply).map_err(|_| refused("the page is not text"))?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| refused("the reply has no header"))?;
        let status = head.split(' ').nth(1);
        if status != Some("200") {
            return Err(refused("the server has no such page"));
        }
        Ok(Self { text: body.to_owned() })
    }

    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    /// Returns the sum of the samples of a metric that have labels with these values. Returns `None` if there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let values = self.text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = match rest.strip_prefix('{') {
                Some(rest) => rest.rsplit_once('}')?,
                None => ("", rest),
            };
            let is_name = rest.starts_with(['{', ' ']);
            let has_labels = wanted.iter().all(|label| labels.split(',').any(|own| own == label));
            (is_name && has_labels).then(|| value.split_whitespace().next()?.parse::<f64>().ok())?
        });
        values.reduce(|sum, value| sum + value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_by_label() {
        let text = "# TYPE jobs counter\njobs_total{pool=\"worker\",protocol=\"native\"} 4\n\
                    jobs_total{pool=\"worker\",protocol=\"imap\"} 3\njobs_total_other 9\nsessions 7 1700000000\n";
        let metrics = Metrics::of_text(text);
        assert_eq!(metrics.sum("jobs_total", &[]), Some(7.0));
        assert_eq!(metrics.sum("jobs_total", &[("protocol", "native")]), Some(4.0));
        assert_eq!(metrics.sum("jobs_total", &[("protocol", "imap"), ("pool", "worker")]), Some(3.0));
        assert_eq!(metrics.sum("jobs_total", &[("protocol", "pop3"), ("pool", "worker")]), None);
        assert_eq!(metrics.sum("sessions", &[]), Some(7.0));
        assert_eq!(metrics.sum("session", &[]), None);
    }
}
