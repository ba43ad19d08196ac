//! What the object is built of: a workspace below target/ that holds copies of its source files and nothing else.
//!
//! Cargo names a crate outside of its workspace by its absolute path, and the name goes into symbols. So agg-core must
//! lie within the workspace that is built, which it cannot do in the repository: there it belongs to another one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Where the copies are.
pub(super) const STAGE: &str = "target/ebpf/stage";

/// The package that becomes the object.
const PROGRAM: &str = "bpf-host/ebpf";

/// All packages of ours that go in.
const PACKAGES: &[&str] = &["agg-core", "bpf-host/layout", PROGRAM];

/// The manifest that our packages inherit from.
pub(super) const ROOT: &str = "Cargo.toml";

/// The source files by their paths, and what they hold. The root manifest is cut to what the packages take from it.
pub(super) fn sources() -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut sources = BTreeMap::new();
    for package in PACKAGES {
        let manifest = PathBuf::from(package).join("Cargo.toml");
        let source = PathBuf::from(package).join("src");
        // The layout may not be there yet.
        if manifest.exists() {
            add(&mut sources, &manifest)?;
            add_folder(&mut sources, &source)?;
        }
    }
    add(&mut sources, &Path::new(PROGRAM).join("Cargo.lock"))?;
    let root = root_manifest(&sources)?;
    sources.insert(ROOT.into(), root.to_string().into_bytes());
    Ok(sources)
}

/// Writes the workspace anew.
pub(super) fn write() -> Result<(), String> {
    let mut sources = sources()?;
    let lock = format!("{PROGRAM}/Cargo.lock");
    let manifest = format!("{PROGRAM}/Cargo.toml");
    // Here the program is a member like the others, and both belong to the root.
    let locked = sources.remove(&lock).unwrap_or_default();
    sources.insert("Cargo.lock".into(), locked);
    let mut member = table(&sources, &manifest)?;
    member.remove("workspace");
    member.remove("profile");
    sources.insert(manifest, member.to_string().into_bytes());

    let cannot = |error| format!("cannot write {STAGE}: {error}");
    if Path::new(STAGE).exists() {
        fs::remove_dir_all(STAGE).map_err(cannot)?;
    }
    for (path, bytes) in &sources {
        let path = Path::new(STAGE).join(path);
        let folder = path.parent().unwrap_or(Path::new(STAGE));
        fs::create_dir_all(folder).map_err(cannot)?;
        fs::write(&path, bytes).map_err(cannot)?;
    }
    Ok(())
}

fn add(sources: &mut BTreeMap<String, Vec<u8>>, file: &Path) -> Result<(), String> {
    let bytes = fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    sources.insert(file.display().to_string(), bytes);
    Ok(())
}

/// All Rust source below a folder, but for files that hold tests alone.
fn add_folder(sources: &mut BTreeMap<String, Vec<u8>>, folder: &Path) -> Result<(), String> {
    let entries =
        fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_folder(sources, &path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            add(sources, &path)?;
        }
    }
    Ok(())
}

/// The staged root: the program's profile, and of our own root what packages inherit. Another crate's dependency is no
/// reason to build the object anew.
fn root_manifest(sources: &BTreeMap<String, Vec<u8>>) -> Result<Table, String> {
    let text = fs::read_to_string(ROOT).map_err(|error| format!("cannot read {ROOT}: {error}"))?;
    let ours: Table = text
        .parse()
        .map_err(|error| format!("cannot read {ROOT}: {error}"))?;
    let mut workspace = ours
        .get("workspace")
        .and_then(Value::as_table)
        .cloned()
        .unwrap_or_default();
    workspace.retain(|key, _| ["resolver", "package", "dependencies", "lints"].contains(&key));
    let mut inherited = Vec::new();
    for path in sources.keys().filter(|path| path.ends_with("Cargo.toml")) {
        inherited.extend(inherits(&table(sources, path)?));
    }
    if let Some(Value::Table(dependencies)) = workspace.get_mut("dependencies") {
        dependencies.retain(|name, _| inherited.iter().any(|taken| taken == name));
    }
    workspace.insert("members".into(), Value::Array(vec![PROGRAM.into()]));
    let mut root = Table::new();
    root.insert("workspace".into(), Value::Table(workspace));
    if let Some(profile) = table(sources, &format!("{PROGRAM}/Cargo.toml"))?.remove("profile") {
        root.insert("profile".into(), profile);
    }
    Ok(root)
}

/// The dependencies that a package takes from the workspace.
fn inherits(manifest: &Table) -> Vec<String> {
    let dependencies = manifest.get("dependencies").and_then(Value::as_table);
    let from_workspace = |value: &Value| value.get("workspace").and_then(Value::as_bool) == Some(true);
    dependencies
        .into_iter()
        .flatten()
        .filter(|(_, value)| from_workspace(value))
        .map(|(name, _)| name.clone())
        .collect()
}

fn table(sources: &BTreeMap<String, Vec<u8>>, path: &str) -> Result<Table, String> {
    let bytes = sources.get(path).ok_or_else(|| format!("{path} is missing"))?;
    String::from_utf8_lossy(bytes)
        .parse()
        .map_err(|error| format!("cannot read {path}: {error}"))
}
