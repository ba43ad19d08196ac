//! The XDP object in bpf-host/object: what it is built of and with, and whether it is what its source gives.
//!
//! Who uses bpf-host needs no BPF toolchain, because the object is kept. So that nobody has to trust it, it is built in
//! such a way that the same versions give the same bytes anywhere: from copies of the files that the recipe lists, in a
//! workspace that holds nothing else ([`stage`]), with each path replaced by a name ([`build`]).

mod build;
mod object;
mod recipe;
mod stage;
mod toolchain;

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

/// The object that bpf-host includes.
const KEPT: &str = "bpf-host/object/tributary-xdp.o";

/// The object that was built last.
const BUILT: &str = "target/ebpf/tributary-xdp.o";

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

fn compare(step: &mut Step, recipe: &Recipe, built: &[u8], versions: &Versions) {
    if recipe.toolchain != *versions {
        step.note(format!(
            "bytes NOT COMPARED: {KEPT} was built with {}, here is {versions}",
            recipe.toolchain
        ));
        return step.pass();
    }
    match fs::read(KEPT) {
        Ok(kept) if kept == built => step.pass(),
        Ok(kept) => step.fail(format!(
            "{KEPT} is not what its source gives: {}; {REMEDY}",
            object::difference(&kept, built)
        )),
        Err(error) => step.fail(format!("cannot read {KEPT}: {error}; {REMEDY}")),
    }
}

fn keep_it(step: &mut Step) {
    let Some((built, versions)) = build_it(step) else {
        return;
    };
    let kept = Recipe::of(&built, versions).and_then(|recipe| {
        fs::create_dir_all("bpf-host/object")
            .and_then(|()| fs::write(KEPT, &built))
            .map_err(|error| format!("cannot write {KEPT}: {error}"))?;
        recipe.write()
    });
    match kept {
        Ok(()) => step.pass(),
        Err(why) => step.fail(why),
    }
}

/// Builds the object and leaves it below target/; says with what.
fn build_it(step: &mut Step) -> Option<(Vec<u8>, Versions)> {
    let compiler = Compiler::find()?;
    let built = Versions::of(compiler).and_then(|versions| Ok((build(step, compiler)?, versions)));
    let written = built.and_then(|built| {
        fs::write(BUILT, &built.0).map_err(|error| format!("cannot write {BUILT}: {error}"))?;
        Ok(built)
    });
    match written {
        Ok((object, versions)) => {
            println!("{BUILT}: {} bytes, by {versions}", object.len());
            Some((object, versions))
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
