//! Where things are kept between runs.

use std::path::PathBuf;

use etcetera::BaseStrategy as _;

use super::Error;
use super::environment_variables::{DELEGATE_DOCTOR_HOME, XDG_CACHE_HOME, XDG_DATA_HOME};

/// The tool's own folders. They need not exist; whoever writes creates them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// what can be made again: lowered programs, profiles, compiled rules, the built runner
    pub cache: PathBuf,
    /// what takes long to make again: the managed Python environment
    pub data: PathBuf,
}

const NAME: &str = "delegate-doctor";

impl Folders {
    /// Where the sandbox keeps compiled rules.
    pub fn compiled_rules(&self) -> PathBuf {
        self.cache.join("compiled-rules")
    }

    /// `DELEGATE_DOCTOR_HOME`, or the XDG folders, or their defaults in the home folder.
    ///
    /// # Errors
    /// When none of the variables is set and the home folder is unknown.
    pub fn resolve(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Result<Self, Error> {
        if let Some(home) = variable(DELEGATE_DOCTOR_HOME) {
            let home = std::path::absolute(&home).unwrap_or(home);
            return Ok(Self { cache: home.join("cache"), data: home.join("data") });
        }
        // The XDG specification: a relative path is to be ignored.
        let xdg = |name: &str| variable(name).filter(|path| path.is_absolute());
        if let (Some(cache), Some(data)) = (xdg(XDG_CACHE_HOME), xdg(XDG_DATA_HOME)) {
            return Ok(Self { cache: cache.join(NAME), data: data.join(NAME) });
        }
        let base = etcetera::base_strategy::Xdg::new().map_err(Error::NoHome)?;
        Ok(Self {
            cache: xdg(XDG_CACHE_HOME).unwrap_or_else(|| base.home_dir().join(".cache")).join(NAME),
            data: xdg(XDG_DATA_HOME).unwrap_or_else(|| base.home_dir().join(".local/share")).join(NAME),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_own_variable_wins_and_relative_xdg_folders_are_ignored() {
        let resolve = |set: &[(&str, &str)]| {
            let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value));
            Folders::resolve(&variable).expect("folders")
        };
        let xdg = [(XDG_CACHE_HOME, "/c"), (XDG_DATA_HOME, "/d")];
        assert_eq!(resolve(&xdg), Folders { cache: "/c/delegate-doctor".into(), data: "/d/delegate-doctor".into() });
        let both = [(DELEGATE_DOCTOR_HOME, "/h"), (XDG_CACHE_HOME, "/c")];
        assert_eq!(resolve(&both), Folders { cache: "/h/cache".into(), data: "/h/data".into() });
        let relative = resolve(&[(XDG_CACHE_HOME, "c"), (XDG_DATA_HOME, "/d")]);
        assert!(relative.cache.is_absolute() && relative.cache.ends_with(".cache/delegate-doctor"), "{relative:?}");
    }
}
