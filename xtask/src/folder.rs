//! A temporary folder.

use std::fs;
use std::path::{Path, PathBuf};

/// A folder of this process in the system's temporary one, which goes with this.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Empty: what a process of the same number left behind is gone.
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("trib-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path)
            .map_err(|error| format!("cannot make the folder {}: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it; returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the system's temporary folder harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_all_that_is_in_it() {
        let folder = Folder::new("folder-test").unwrap();
        let file = folder.write("file", "text").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }
}
