//! Which target a user means: `local`, `qemu:cortex-a76`, `adb:SERIAL`, `ssh:HOST`.

use std::fmt;
use std::str::FromStr;

/// The CPU that is emulated when none is named: what most phones in use can do at least.
pub const DEFAULT_CPU: &str = "cortex-a76";

/// A target as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// this machine
    Local,
    /// a 64-bit Arm CPU emulated on this machine, as qemu names it
    Qemu {
        /// e.g. `cortex-a76`, `max,sme=off`
        cpu: String,
    },
    /// an Android device
    Adb {
        /// its serial number; none: the only one that is connected
        serial: Option<String>,
    },
    /// a board with Linux
    Ssh {
        /// as the user's `ssh` knows it: `pi`, `user@host`
        host: String,
    },
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Qemu { cpu } => write!(f, "qemu:{cpu}"),
            Self::Adb { serial: None } => f.write_str("adb"),
            Self::Adb { serial: Some(serial) } => write!(f, "adb:{serial}"),
            Self::Ssh { host } => write!(f, "ssh:{host}"),
        }
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, which) = match text.split_once(':') {
            Some((kind, which)) => (kind, Some(which)),
            None => (text, None),
        };
        let fits = |which: &str, also: &str| {
            !which.is_empty()
                && !which.starts_with('-')
                && which.chars().all(|letter| letter.is_ascii_alphanumeric() || also.contains(letter))
        };
        match (kind, which) {
            ("local", None) => Ok(Self::Local),
            ("qemu", None) => Ok(Self::Qemu { cpu: DEFAULT_CPU.to_owned() }),
            ("qemu", Some(cpu)) if fits(cpu, "-._,=") => Ok(Self::Qemu { cpu: cpu.to_owned() }),
            ("adb", None) => Ok(Self::Adb { serial: None }),
            ("adb", Some(serial)) if fits(serial, "-._:[]%") => Ok(Self::Adb { serial: Some(serial.to_owned()) }),
            ("ssh", Some(host)) if fits(host, "-._:@[]%") => Ok(Self::Ssh { host: host.to_owned() }),
            ("ssh", None) => Err("a board needs the name of its host: `ssh:HOST`".to_owned()),
            ("local", Some(_)) => Err("this host has no further name: `local`".to_owned()),
            ("qemu", Some(cpu)) => Err(format!("`{cpu}` is no name of a CPU")),
            ("adb", Some(serial)) => Err(format!("`{serial}` is no serial number")),
            ("ssh", Some(host)) => Err(format!("`{host}` is no name of a host")),
            _ => Err("it is one of `local`, `qemu[:CPU]`, `adb[:SERIAL]` and `ssh:HOST`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_types_is_understood_and_shown_again() {
        for text in ["local", "qemu:max,sme=off", "adb", "adb:192.168.1.5:5555", "ssh:pi@10.0.0.2", "ssh:board-3"] {
            let selector: Selector = text.parse().expect(text);
            assert_eq!(selector.to_string(), text);
        }
        assert_eq!("qemu".parse::<Selector>().expect("qemu").to_string(), "qemu:cortex-a76");
    }

    #[test]
    fn what_a_command_line_could_take_for_something_else_is_refused() {
        for (text, why) in [
            ("", "it is one of"),
            ("phone", "it is one of"),
            ("local:1", "no further name"),
            ("ssh", "needs the name"),
            ("ssh:", "no name of a host"),
            ("ssh:-oProxyCommand=x", "no name of a host"),
            ("ssh:a b", "no name of a host"),
            ("ssh:a;b", "no name of a host"),
            ("adb:", "no serial"),
            ("adb:-s", "no serial"),
            ("qemu:", "no name of a CPU"),
            ("qemu:max$(x)", "no name of a CPU"),
        ] {
            let error = text.parse::<Selector>().expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
