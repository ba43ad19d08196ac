//! The object as a file: without debug information, and how two of them differ.

use std::collections::BTreeMap;

use object::build::elf::{Builder, SectionData};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, elf};

/// The object without DWARF. BTF stays: the kernel wants it for locks, and names lines in the verifier's log by it.
pub(super) fn strip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let cannot = |error| format!("cannot strip the XDP object: {error}");
    let mut builder = Builder::read64(bytes).map_err(cannot)?;
    for section in builder.sections.iter_mut() {
        section.delete = is_debug(&section.name);
    }
    // Their symbols and relocations.
    builder.delete_orphans();
    // LLVM has one table for all names; the one who writes wants another for those of sections.
    let names = builder.sections.add();
    names.name = ".shstrtab".into();
    names.sh_type = elf::SHT_STRTAB;
    names.sh_addralign = 1;
    names.data = SectionData::SectionString;
    let mut stripped = Vec::new();
    builder.write(&mut stripped).map_err(cannot)?;
    Ok(stripped)
}

fn is_debug(name: &[u8]) -> bool {
    name.starts_with(b".debug_") || name.starts_with(b".rel.debug_")
}

/// Whether a text is anywhere in the object.
pub(super) fn holds(object: &[u8], text: &str) -> bool {
    object.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Where two objects differ, for people.
pub(super) fn difference(kept: &[u8], built: &[u8]) -> String {
    let (kept, built) = (sections(kept), sections(built));
    let mut names: Vec<_> = kept.keys().chain(built.keys()).collect();
    names.sort();
    names.dedup();
    let differ = names
        .into_iter()
        .filter(|name| kept.get(*name) != built.get(*name));
    let length = |bytes: Option<&&[u8]>| bytes.map_or_else(|| "no".into(), |bytes| bytes.len().to_string());
    let told: Vec<String> = differ
        .map(|name| {
            format!(
                "section {name} differs ({} bytes kept, {} bytes built)",
                length(kept.get(name)),
                length(built.get(name))
            )
        })
        .collect();
    if told.is_empty() {
        "its sections are the same but lie otherwise".into()
    } else {
        told.join(", ")
    }
}

/// The contents of an object by section; nothing of what is none.
fn sections(bytes: &[u8]) -> BTreeMap<String, &[u8]> {
    let read = || -> object::Result<BTreeMap<String, &[u8]>> {
        let header = elf::FileHeader64::<Endianness>::parse(bytes)?;
        let endian = header.endian()?;
        let table = header.sections(endian, bytes)?;
        let named = table.iter().map(|section| {
            let name = String::from_utf8_lossy(table.section_name(endian, section)?).into_owned();
            Ok((name, section.data(endian, bytes)?))
        });
        named.collect()
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_information_is_told_from_btf() {
        for name in [".debug_info", ".debug_str", ".rel.debug_line"] {
            assert!(is_debug(name.as_bytes()), "{name}");
        }
        for name in [".BTF", ".BTF.ext", ".rel.BTF", "xdp", ".maps", ".symtab"] {
            assert!(!is_debug(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_text_is_found_wherever_it_lies() {
        assert!(holds(b"\0one\0/home/builder/x\0", "/home/builder"));
        assert!(!holds(b"\0one\0", "/home/builder"));
    }

    #[test]
    fn what_is_no_object_differs_without_a_panic() {
        assert_eq!(
            difference(b"not", b"ELF"),
            "its sections are the same but lie otherwise"
        );
    }
}
