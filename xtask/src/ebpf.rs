//! The XDP objects in bpf-host/object: what they are built of and with, and whether they are what their source gives.
//!
//! Who uses bpf-host needs no BPF toolchain, because the object is kept. So that nobody has to trust it, it is built in
//! such a way that the same versions give the same bytes anywhere: from copies of the files that the recipe lists, in a
//! workspace that holds nothing else ([`stage`]), with each path replaced by a name ([`mod@build`]).

mod build;
mod object;
mod recipe;
mod stage;
mod toolchain;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use build::build;
use recipe::Recipe;
use toolchain::Versions;

use crate::needs::{BPF_COMPILER, BPF_LINKER, BPF_LLVM};
use crate::step::Step;

pub(crate) use toolchain::{Compiler, LLVM};

/// Installing the compiler and building the linker included, on two cores.
pub(crate) const LIMIT: Duration = Duration::from_secs(25 * 60);

/// The programs that are built, and the files that hold them: what bpf-host loads, and bare loops to measure it against.
const OBJECTS: &[(&str, &str)] = &[("tributary-xdp", "tributary-xdp.o"), ("loops", "loops.o")];

/// Objects by their files.
type Objects = BTreeMap<String, Vec<u8>>;

/// The folder of the kept objects.
const KEPT: &str = "bpf-host/object";

/// The folder of those that were built last.
const BUILT: &str = "target/ebpf";

/// What to do about an object that is not current.
const REMEDY: &str = "run `cargo xtask ebpf --keep` and commit bpf-host/object";

/// `cargo xtask ebpf`: builds the object, then keeps it or compares it with the kept one.
pub(crate) fn task(step: &mut Step, keep: bool) {
    if keep {
        match provide(step) {
            Ok(()) => keep_it(step),
            Err(why) => step.fail(why),
        }
    } else {
        check(step);
    }
}

/// The group of tests: the recipe names the sources that are here, and building them gives the kept object.
pub(crate) fn check(step: &mut Step) {
    let recipe = match Recipe::read().and_then(|recipe| recipe.check().map(|()| recipe)) {
        Ok(recipe) => {
            step.pass();
            Some(recipe)
        }
        Err(why) => {
            step.fail(why);
            None
        }
    };
    if let Err(why) = provide(step) {
        return step.skip(format!("building the XDP object: {why}"));
    }
    let Some((built, versions)) = build_it(step) else {
        return;
    };
    // What is wrong with the recipe was told. That the source builds still counts.
    match recipe {
        Some(recipe) => compare(step, &recipe, &built, &versions),
        None => step.pass(),
    }
}

fn compare(step: &mut Step, recipe: &Recipe, built: &Objects, versions: &Versions) {
    if recipe.toolchain != *versions {
        step.note(format!(
            "bytes NOT COMPARED: {KEPT} was built with {}, here is {versions}",
            recipe.toolchain
        ));
        return step.pass();
    }
    for (file, built) in built {
        match kept(file) {
            Ok(kept) if kept == *built => step.pass(),
            Ok(kept) => step.fail(format!(
                "{KEPT}/{file} is not what its source gives: {}; {REMEDY}",
                object::difference(&kept, built)
            )),
            Err(why) => step.fail(why),
        }
    }
}

/// A kept object.
fn kept(file: &str) -> Result<Vec<u8>, String> {
    fs::read(format!("{KEPT}/{file}"))
        .map_err(|error| format!("cannot read {KEPT}/{file}: {error}; {REMEDY}"))
}

fn write(folder: &str, objects: &Objects) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {folder}: {error}"))?;
    for (file, object) in objects {
        fs::write(format!("{folder}/{file}"), object)
            .map_err(|error| format!("cannot write {folder}/{file}: {error}"))?;
    }
    Ok(())
}

fn keep_it(step: &mut Step) {
    let Some((built, versions)) = build_it(step) else {
        return;
    };
    let kept = Recipe::of(&built, versions).and_then(|recipe| {
        write(KEPT, &built)?;
        recipe.write()
    });
    match kept {
        Ok(()) => step.pass(),
        Err(why) => step.fail(why),
    }
}

/// Builds the objects and leaves them below target/; says with what.
fn build_it(step: &mut Step) -> Option<(Objects, Versions)> {
    let compiler = Compiler::find()?;
    let built = Versions::of(compiler).and_then(|versions| Ok((build(step, compiler)?, versions)));
    let written = built.and_then(|built| {
        write(BUILT, &built.0)?;
        Ok(built)
    });
    match written {
        Ok((objects, versions)) => {
            for (file, object) in &objects {
                println!("{BUILT}/{file}: {} bytes, by {versions}", object.len());
            }
            Some((objects, versions))
        }
        Err(why) => {
            step.fail(why);
            None
        }
    }
}

fn provide(step: &Step) -> Result<(), String> {
    BPF_COMPILER.provide(step)?;
    BPF_LLVM.provide(step)?;
    BPF_LINKER.provide(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs no BPF toolchain, so everybody who changes the sources sees at once that the object is to be built anew.
    #[test]
    fn the_recipe_of_the_kept_object_names_the_sources_as_they_are() {
        // Tests run in the package's folder; a second one that relies on the folder must not run in this process.
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        Recipe::read().and_then(|recipe| recipe.check()).unwrap();
    }
}
