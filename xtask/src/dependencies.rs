//! agg-core runs in kernels and on NICs: what it depends on is a short list, and stays one.

use crate::step::{Step, cargo};

/// The crates it may use, and what those need in turn.
const ALLOWED: &[&str] = &[
    "agg-core", // itself
    "bytemuck",
    "fixed",
    "az",       // fixed: casts
    "typenum",  // fixed: numbers as types
    "half",     // fixed: f16
    "cfg-if",   // half
    "crunchy",  // half, on SPIR-V targets only
    "zerocopy", // half
    "heapless",
    "hash32",             // heapless: maps
    "byteorder",          // hash32
    "stable_deref_trait", // heapless: pools
];

/// Features that would bring an allocator or an operating system along.
const FORBIDDEN_FEATURES: &[&str] = &["std", "alloc"];

/// Checks what cargo resolves; macros run in the compiler and do not count.
pub(crate) fn run(step: &mut Step) {
    let tree = step.read(cargo("tree --package agg-core --edges normal,no-proc-macro --target all --prefix none --no-dedupe --format {p}|{f}"));
    if !tree.is_ok() {
        return step.fail_by_end("cargo tree --package agg-core", &tree);
    }
    let mut wrong: Vec<String> = tree.lines.iter().filter_map(|line| objection(line)).collect();
    wrong.sort();
    wrong.dedup();
    if wrong.is_empty() {
        step.pass()
    } else {
        wrong.into_iter().for_each(|why| step.fail(why))
    }
}

/// What is wrong with a line such as `heapless v0.9.4|default,alloc`.
fn objection(line: &str) -> Option<String> {
    let (package, features) = line.split_once('|')?;
    let name = package.split_whitespace().next()?;
    if !ALLOWED.contains(&name) {
        return Some(format!(
            "agg-core depends on `{package}`; drop it, or allow it in {}",
            file!()
        ));
    }
    let feature = features
        .split(',')
        .find(|feature| FORBIDDEN_FEATURES.contains(feature))?;
    Some(format!(
        "agg-core turns on the feature `{feature}` of `{package}`; it must do without"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_and_std_features_are_objected_to() {
        assert_eq!(objection("heapless v0.9.4|default"), None);
        assert_eq!(objection("agg-core v0.1.0 (/somewhere/agg-core)|"), None);
        assert!(objection("tokio v1.54.0|").is_some_and(|why| why.contains("tokio v1.54.0")));
        assert!(objection("half v2.7.1|default,std").is_some_and(|why| why.contains("`std`")));
    }
}
