//! Where the binaries under test are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder with the workspace's `Cargo.toml`.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests package lies in the workspace")
}

/// Folder of the profile that the running test was built with: `target/debug`.
pub fn profile() -> PathBuf {
    let test = std::env::current_exe().expect("path of the test");
    let deps = test.parent().expect("folder of the test");
    let folder = if deps.ends_with("deps") { deps.parent().expect("target folder") } else { deps };
    folder.to_path_buf()
}

/// Path of `delegate-doctor` or `dd`, built from the present sources in the profile of the running test.
///
/// # Panics
/// When it cannot be built.
pub fn binary(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let folder = profile();
        // Without cargo (a debugger, a copied test) the binaries that are there are used.
        if let Some(cargo) = std::env::var_os("CARGO") {
            let name = match folder.file_name().and_then(|name| name.to_str()) {
                Some("debug") | None => "dev".to_owned(),
                Some(other) => other.to_owned(),
            };
            let status = Command::new(cargo)
                .args(["build", "--quiet", "--package", "delegate-doctor", "--bins", "--profile", &name])
                .current_dir(workspace())
                .status()
                .expect("cargo starts");
            assert!(status.success(), "the binaries under test do not build");
        }
        folder
    });
    let path = folder.join(name);
    assert!(path.is_file(), "`{}` is not built", path.display());
    path
}
