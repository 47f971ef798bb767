//! `cargo xtask c-bindings`: the contract's types and functions for rules in C.

use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;

use crate::workspace::{Result, root};

/// Writes the bindings, or compares them.
pub(crate) fn c_bindings(check: bool) -> Result {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(root().join("wit")).map_err(|error| format!("{error:#}"))?;
    let world = resolve.select_world(&[package], Some("repair-rule")).map_err(|error| format!("{error:#}"))?;
    let mut files = Files::default();
    // The types are put into the linked module by `rules build`.
    let options = wit_bindgen_c::Opts { no_object_file: true, ..Default::default() };
    options.build().generate(&mut resolve, world, &mut files).map_err(|error| format!("{error:#}"))?;
    let folder = root().join("host/templates/rule/c/sdk/bindings");
    for (name, content) in files.iter() {
        let path = folder.join(name);
        if !check {
            fs_err::write(&path, content).map_err(|error| error.to_string())?;
        } else if fs_err::read(&path).map_err(|error| error.to_string())? != content {
            return Err(format!("`{}` is not what the contract gives; run `cargo xtask c-bindings`", path.display()));
        }
    }
    Ok(())
}
