//! The page that keeps the last results.

use std::{fs, io};

/// The page.
pub(super) const PATH: &str = "docs/performance.md";

const BEGIN: &str = "<!-- cargo xtask bench: begin -->\n";
const END: &str = "<!-- cargo xtask bench: end -->";

/// Puts `text` between the markers; all else stays.
pub(super) fn write(text: &str) -> io::Result<()> {
    let page = fs::read_to_string(PATH)?;
    let page = replaced(&page, text)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its markers are gone"))?;
    fs::write(PATH, page)
}

fn replaced(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{text}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let page = format!("# Page\n{BEGIN}old\n{END}\n## End to end\nby hand\n");
        let expected = format!("# Page\n{BEGIN}new\n{END}\n## End to end\nby hand\n");
        assert_eq!(replaced(&page, "new\n"), Some(expected));
        assert_eq!(replaced("# Page\n", "new\n"), None);
    }
}
