//! The recipe beside the kept object: from which files it was built, and with what.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::toolchain::Versions;
use super::{KEPT, OBJECTS, Objects, REMEDY, kept, stage};

const FILE: &str = "bpf-host/object/recipe.toml";

const HEADER: &str = "\
# What these objects were built with and from; written by `cargo xtask ebpf --keep`, checked by `cargo xtask test`.
# The sha256 sums are those of the files. Of the workspace's Cargo.toml only what these packages inherit counts.

";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipe {
    pub(super) toolchain: Versions,
    /// The sums of the objects themselves.
    objects: BTreeMap<String, String>,
    sources: BTreeMap<String, String>,
}

impl Recipe {
    /// The recipe of objects that were built just now.
    pub(super) fn of(objects: &Objects, toolchain: Versions) -> Result<Self, String> {
        Ok(Self {
            objects: objects
                .iter()
                .map(|(file, object)| (file.clone(), sum(object)))
                .collect(),
            toolchain,
            sources: sources()?,
        })
    }

    /// The kept one.
    pub(super) fn read() -> Result<Self, String> {
        let text =
            fs::read_to_string(FILE).map_err(|error| format!("cannot read {FILE}: {error}; {REMEDY}"))?;
        toml::from_str(&text).map_err(|error| format!("{FILE} is no recipe: {}; {REMEDY}", error.message()))
    }

    pub(super) fn write(&self) -> Result<(), String> {
        let text = toml::to_string(self).map_err(|error| format!("cannot write {FILE}: {error}"))?;
        fs::write(FILE, HEADER.to_owned() + &text).map_err(|error| format!("cannot write {FILE}: {error}"))
    }

    /// Whether object and sources are those that it names.
    pub(super) fn check(&self) -> Result<(), String> {
        for (_, file) in OBJECTS {
            if self.objects.get(*file) != Some(&sum(&kept(file)?)) {
                return Err(format!(
                    "{KEPT}/{file} is not the object that {FILE} is about; {REMEDY}"
                ));
            }
        }
        let changed = changed(&self.sources, &sources()?);
        if changed.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{KEPT} is older than its sources: {} changed; {REMEDY}",
            changed.join(", ")
        ))
    }
}

/// The files that are in one list only, or differ.
fn changed(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let mut paths: Vec<_> = then.keys().chain(now.keys()).collect();
    paths.sort();
    paths.dedup();
    paths
        .into_iter()
        .filter(|path| then.get(*path) != now.get(*path))
        .cloned()
        .collect()
}

fn sources() -> Result<BTreeMap<String, String>, String> {
    let sources = stage::sources()?;
    Ok(sources
        .into_iter()
        .map(|(path, bytes)| (path, sum(&bytes)))
        .collect())
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_come_go_or_change_are_named() {
        let list = |entries: &[(&str, &str)]| {
            entries
                .iter()
                .map(|(path, sum)| ((*path).to_owned(), (*sum).to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let then = list(&[("gone", "1"), ("same", "2"), ("other", "3")]);
        let now = list(&[("new", "1"), ("same", "2"), ("other", "4")]);
        assert_eq!(changed(&then, &now), ["gone", "new", "other"]);
        assert!(changed(&then, &then).is_empty());
    }
}
