//! Reads the numbers out of what test runners print: cargo-nextest, the standard harness and pytest.

/// How many tests ended how, and which failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Marked `#[ignore]`, and so not run.
    pub(crate) ignored: u64,
    /// The names of the failed ones.
    pub(crate) failures: Vec<String>,
}

/// Sums up all the runs in `lines`.
pub(crate) fn count(lines: &[String]) -> Counts {
    let mut counts = Counts::default();
    // nextest names each failure twice: as it happens, and again under its summary.
    let mut in_summary = false;
    for line in lines.iter().map(|line| line.trim()) {
        if let Some(summary) = line.strip_prefix("Summary [") {
            in_summary = true;
            let numbers = summary.rsplit("run:").next().unwrap_or_default();
            counts.passed += number_before(numbers, "passed");
            counts.ignored += number_before(numbers, "skipped");
            let failing = ["failed", "timed out", "exec failed"];
            counts.failed += failing
                .iter()
                .map(|what| number_before(numbers, what))
                .sum::<u64>();
        } else if let Some(result) = line.strip_prefix("test result: ") {
            counts.passed += number_before(result, "passed");
            counts.failed += number_before(result, "failed");
            counts.ignored += number_before(result, "ignored");
        } else if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix("... FAILED"))
        {
            counts.failures.push(name.trim().to_owned());
        } else if let Some(result) = pytest_summary(line) {
            counts.passed += number_before(result, "passed");
            counts.ignored += number_before(result, "skipped");
            let failing = ["failed", "error", "errors"];
            counts.failed += failing
                .iter()
                .map(|what| number_before(result, what))
                .sum::<u64>();
        } else if let Some(name) = pytest_failure(line) {
            counts.failures.push(name.to_owned());
        } else if in_summary && let Some((_, name)) = line.split_once("s] ") {
            counts.failures.push(
                name.split_whitespace()
                    .skip_while(|word| word.contains('/'))
                    .collect::<Vec<_>>()
                    .join(" "),
            );
        }
    }
    counts
}

/// The list in `===== 1 failed, 3 passed in 0.52s =====`, the last line of pytest.
fn pytest_summary(line: &str) -> Option<&str> {
    let (list, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    let is_time = time.split(' ').next()?.strip_suffix('s')?.parse::<f64>().is_ok();
    let is_list = list.split(", ").all(|item| item.split(' ').count() == 2);
    (is_time && is_list).then_some(list)
}

/// The test in `FAILED python/tests/test_a.py::test_b - AssertionError`.
fn pytest_failure(line: &str) -> Option<&str> {
    let test = line.strip_prefix("FAILED ").or(line.strip_prefix("ERROR "))?;
    let name = test.split(" - ").next()?;
    name.contains(".py").then_some(name)
}

/// The number in front of `what` in a list such as `3 passed (1 slow), 1 failed; 2 ignored`.
fn number_before(list: &str, what: &str) -> u64 {
    list.split([',', ';', '.'])
        .filter_map(|item| item.trim().split_once(' '))
        .filter(|(_, rest)| rest.split(" (").next() == Some(what))
        .filter_map(|(number, _)| number.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn nextest_summaries_are_read() {
        let counts = count(&lines(
            "        FAIL [   0.004s] (3/7) agg-core slot::tests::adds\n\
             ────────────\n     \
             Summary [   0.021s] 7 tests run: 4 passed (1 slow), 2 failed, 1 timed out, 5 skipped\n        \
             FAIL [   0.004s] (3/7) agg-core slot::tests::adds\n",
        ));
        assert_eq!((counts.passed, counts.failed, counts.ignored), (4, 3, 5));
        assert_eq!(counts.failures.len(), 1);
        assert!(
            counts.failures[0].ends_with("agg-core slot::tests::adds"),
            "{:?}",
            counts.failures
        );
    }

    #[test]
    fn results_of_the_standard_harness_add_up() {
        let counts = count(&lines(
            "test a::b ... ok\ntest a::c ... FAILED\n\
             test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        ));
        assert_eq!((counts.passed, counts.failed, counts.ignored), (3, 1, 1));
        assert_eq!(counts.failures, ["a::c"]);
    }

    #[test]
    fn what_pytest_says_is_read() {
        let counts = count(&lines(
            "........F.E  [100%]\n\
             FAILED python/tests/test_numpy.py::test_sums[2] - AssertionError: 1 passed in 2s\n\
             ERROR python/tests/test_ddp.py - ImportError\n\
             ===== 1 failed, 8 passed, 2 skipped, 1 error in 133.39s (0:02:13) =====\n\
             3 passed in 0.10s\n",
        ));
        assert_eq!((counts.passed, counts.failed, counts.ignored), (11, 2, 2));
        assert_eq!(
            counts.failures,
            [
                "python/tests/test_numpy.py::test_sums[2]",
                "python/tests/test_ddp.py"
            ]
        );
    }

    #[test]
    fn output_without_a_summary_counts_nothing() {
        assert_eq!(
            count(&lines("error: could not compile `agg-core`")),
            Counts::default()
        );
    }
}
