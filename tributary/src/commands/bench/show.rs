//! Shows figures as they come.

use crate::bench::{SizeReport, about, header, row};
use crate::failure::Failure;
use crate::output;

/// Where figures go.
#[derive(Debug)]
pub struct Show {
    json: bool,
    /// The aggregator in words.
    aggregator: String,
    begun: bool,
}

impl Show {
    /// As JSON, or as a table that begins with the first report.
    pub fn new(json: bool, aggregator: String) -> Self {
        Self {
            json,
            aggregator,
            begun: false,
        }
    }

    /// Shows one size.
    pub fn report(&mut self, report: &SizeReport) -> Result<(), Failure> {
        if self.json {
            let json = serde_json::to_string(report);
            return output::line(&json.map_err(|reason| Failure::Protocol {
                line: "a report".to_owned(),
                reason,
            })?);
        }
        if !self.begun {
            output::line(&format!("{}\n\n{}", about(report, &self.aggregator), header()))?;
            self.begun = true;
        }
        output::line(&row(report))
    }
}
