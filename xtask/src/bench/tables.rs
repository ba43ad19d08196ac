//! Everything that was measured, as tables.

use super::goals::INVALID;
use super::results::{Results, Spread};

const ISAS: [&str; 4] = ["baseline", "avx2", "avx512", "dispatched"];
const HEAD: &str = "| baseline | AVX2 | AVX-512 | dispatched |\n|---|---:|---:|---:|---:|\n";
const PLACES: [&str; 2] = ["cache", "memory"];

/// All of them.
pub(super) fn all(results: &Results) -> String {
    let mut text = String::new();
    merge(results, &mut text);
    handle(results, &mut text);
    fixed_point(results, &mut text);
    worker(results, &mut text);
    text
}

/// A row with one cell for each instruction set; no row where there is nothing to tell.
fn row(text: &mut String, title: &str, cell: impl Fn(&str) -> Option<Spread>, digits: usize) {
    let cells =
        ISAS.map(|isa| cell(isa).map_or("–".to_owned(), |found| format!("{:.digits$}", found.median)));
    *text += &format!("| {title} | {} |\n", cells.join(" | "));
}

fn merge(results: &Results, text: &mut String) {
    *text +=
        "\nSpeed of the merge relative to a plain loop that adds, compiled for the same instruction set:\n\n";
    *text += &format!("| lanes {HEAD}");
    for (place, lanes) in sizes(&[256, 352, 848, 2048]) {
        let name = |isa: &str, what: &str| format!("merge/{place}/{lanes}/{isa}/{what}");
        let title = format!("{lanes}, in {place}");
        row(
            text,
            &title,
            |isa| results.speed(&name(isa, "accept"), &name(isa, "add")),
            2,
        );
    }
    *text += "\nSpeed of the merge relative to a copy of the contribution's bytes (a merge also reads the sum):\n\n";
    *text += &format!("| lanes {HEAD}");
    for (place, lanes) in sizes(&[256, 352, 848, 2048]) {
        let accept = |isa: &str| format!("merge/{place}/{lanes}/{isa}/accept");
        let copy = format!("merge/{place}/{lanes}/copy");
        row(
            text,
            &format!("{lanes}, in {place}"),
            |isa| results.speed(&accept(isa), &copy),
            2,
        );
    }
}

fn handle(results: &Results, text: &mut String) {
    *text += "\n`Aggregator::handle`, nanoseconds for one packet of 352 lanes (in cache where not said otherwise):\n\n";
    *text += &format!("| packet {HEAD}");
    let time = |group: &str, place: &str, what: &str, isa: &str| {
        results.time(&format!("{group}/{place}/352/{isa}/{what}"))
    };
    for what in ["first", "middle", "last", "duplicate", "replay"] {
        row(text, what, |isa| time("handle", "cache", what, isa), 1);
    }
    row(
        text,
        "merge alone of middle",
        |isa| time("handle", "cache", "merge", isa),
        1,
    );
    row(
        text,
        "middle, out of cache",
        |isa| time("handle", "memory", "middle", isa),
        1,
    );
    row(
        text,
        "merge alone of that",
        |isa| time("handle", "memory", "merge", isa),
        1,
    );
    for kind in INVALID {
        row(
            text,
            &format!("invalid: {kind}"),
            |isa| time("invalid", "cache", kind, isa),
            1,
        );
    }
}

fn fixed_point(results: &Results, text: &mut String) {
    *text +=
        "\nSpeed of fixed point relative to one copy of the same bytes (both: to a copy there and back):\n\n";
    *text += &format!("| block {HEAD}");
    for (place, lanes) in sizes(&[352, 2048]) {
        for (what, other) in [
            ("quantize", "copy"),
            ("dequantize", "copy"),
            ("both", "there_and_back"),
            ("exponent", "copy"),
        ] {
            let name = |isa: &str| format!("fixed_point/{place}/{lanes}/{isa}/{what}");
            let other = format!("fixed_point/{place}/{lanes}/{other}");
            row(
                text,
                &format!("{what}, {lanes} lanes in {place}"),
                |isa| results.speed(&name(isa), &other),
                2,
            );
        }
    }
}

fn worker(results: &Results, text: &mut String) {
    *text += "\n`Worker`, nanoseconds for one chunk of 352 lanes";
    if let Some(copy) = results.time("worker/352/copy") {
        *text += &format!(" (a copy of its bytes into a packet: {:.1})", copy.median);
    }
    *text += &format!(":\n\n| call {HEAD}");
    for kind in ["i32", "f32"] {
        for call in ["transmit", "handle"] {
            let name = |isa: &str| format!("worker/352/{isa}/{kind}/{call}");
            row(
                text,
                &format!("{call}, {kind}"),
                |isa| results.time(&name(isa)),
                1,
            );
        }
    }
}

fn sizes(lanes: &'static [u32]) -> impl Iterator<Item = (&'static str, u32)> {
    PLACES
        .into_iter()
        .flat_map(move |place| lanes.iter().map(move |lanes| (place, *lanes)))
}
