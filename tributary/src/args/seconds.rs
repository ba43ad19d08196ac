//! Lengths of time: `10`, `2.5s`, `500ms`.

use std::time::Duration;

/// A time from 1 ms to a day. Plain numbers are seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    let (number, scale) = match (trimmed.strip_suffix("ms"), trimmed.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (trimmed, 1.0),
    };
    let seconds = number.trim_end().parse::<f64>().map(|number| number * scale);
    match seconds {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("give seconds, like 10, 2.5s or 500ms, from 1 ms to 86400 s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_and_without_unit() {
        for (text, milliseconds) in [("10", 10_000), ("2.5s", 2500), ("500ms", 500), (" 1 s ", 1000)] {
            assert_eq!(seconds(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "0", "-1", "NaN", "1e9", "ten"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
