//! Where things are kept between runs.

use std::path::PathBuf;

use etcetera::BaseStrategy as _;

use super::Error;
use super::environment_variables::{
    DELEGATE_DOCTOR_HOME, XDG_CACHE_HOME, XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME,
};
use crate::registry::client::Places;

/// The tool's own folders. They need not exist; whoever writes creates them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// what can be made again: lowered programs, profiles, compiled rules, the built runner
    pub cache: PathBuf,
    /// what takes long to make again: the managed Python environment, installed rules
    pub data: PathBuf,
    /// whom the user trusts: registries and publishers of rules
    pub config: PathBuf,
    /// what was seen of registries, so that nobody can go back behind it
    pub state: PathBuf,
}

const NAME: &str = "delegate-doctor";

impl Folders {
    /// Where the sandbox keeps compiled rules.
    pub fn compiled_rules(&self) -> PathBuf {
        self.cache.join("compiled-rules")
    }

    /// Where registries and installed rules are kept.
    pub fn rules(&self) -> Places {
        Places {
            trust: self.config.join("registries.toml"),
            state: self.state.join("registries"),
            cache: self.cache.join("registries"),
            rules: self.data.join("rules"),
        }
    }

    /// `DELEGATE_DOCTOR_HOME`, or the XDG folders, or their defaults in the home folder.
    ///
    /// # Errors
    /// When none of the variables is set and the home folder is unknown.
    pub fn resolve(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Result<Self, Error> {
        if let Some(home) = variable(DELEGATE_DOCTOR_HOME) {
            let home = std::path::absolute(&home).unwrap_or(home);
            return Ok(Self {
                cache: home.join("cache"),
                data: home.join("data"),
                config: home.join("config"),
                state: home.join("state"),
            });
        }
        // The XDG specification: a relative path is to be ignored.
        let xdg = |name: &str| variable(name).filter(|path| path.is_absolute());
        let names = [XDG_CACHE_HOME, XDG_DATA_HOME, XDG_CONFIG_HOME, XDG_STATE_HOME];
        if let [Some(cache), Some(data), Some(config), Some(state)] = names.map(xdg) {
            let ours = |folder: PathBuf| folder.join(NAME);
            return Ok(Self { cache: ours(cache), data: ours(data), config: ours(config), state: ours(state) });
        }
        let base = etcetera::base_strategy::Xdg::new().map_err(Error::NoHome)?;
        let or_home = |name: &str, folder: &str| xdg(name).unwrap_or_else(|| base.home_dir().join(folder)).join(NAME);
        Ok(Self {
            cache: or_home(XDG_CACHE_HOME, ".cache"),
            data: or_home(XDG_DATA_HOME, ".local/share"),
            config: or_home(XDG_CONFIG_HOME, ".config"),
            state: or_home(XDG_STATE_HOME, ".local/state"),
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
        let xdg = [(XDG_CACHE_HOME, "/c"), (XDG_DATA_HOME, "/d"), (XDG_CONFIG_HOME, "/o"), (XDG_STATE_HOME, "/s")];
        let folders = |below: [&str; 4]| {
            let [cache, data, config, state] = below.map(PathBuf::from);
            Folders { cache, data, config, state }
        };
        let named = ["/c/delegate-doctor", "/d/delegate-doctor", "/o/delegate-doctor", "/s/delegate-doctor"];
        assert_eq!(resolve(&xdg), folders(named));
        let both = [(DELEGATE_DOCTOR_HOME, "/h"), (XDG_CACHE_HOME, "/c")];
        assert_eq!(resolve(&both), folders(["/h/cache", "/h/data", "/h/config", "/h/state"]));
        let relative = resolve(&[(XDG_CACHE_HOME, "c"), (XDG_DATA_HOME, "/d")]);
        assert!(relative.cache.is_absolute() && relative.cache.ends_with(".cache/delegate-doctor"), "{relative:?}");
    }
}
