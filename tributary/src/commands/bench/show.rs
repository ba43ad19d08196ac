//! Shows figures as they come.

use crate::bench::{SizeReport, about, details, header, row};
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

    /// Says that ranks were lost.
    pub fn lost(lost: &[u32], left: u32) {
        let ranks: Vec<_> = lost.iter().map(u32::to_string).collect();
        output::note(&format!(
            "lost: rank {}; going on with {left} ranks",
            ranks.join(", ")
        ));
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
        output::line(&row(report))?;
        details(report).iter().try_for_each(|line| output::line(line))
    }
}
