//! Every environment variable that the tool looks at, in one place, with what it does.
//!
//! `docs/cli.md` lists them from [`ALL`]; a new variable is a constant here and a line there.

/// An environment variable and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// its name
    pub name: &'static str,
    /// what it does, in a sentence
    pub about: &'static str,
}

/// Root of everything the tool keeps between runs (`cache/`, `config/`, `data/`, `state/`), instead of the XDG folders.
pub const DELEGATE_DOCTOR_HOME: &str = "DELEGATE_DOCTOR_HOME";
/// The Python interpreter to use, like `--python`.
pub const DELEGATE_DOCTOR_PYTHON: &str = "DELEGATE_DOCTOR_PYTHON";
/// Where caches live when `DELEGATE_DOCTOR_HOME` is not set.
pub const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";
/// Where the managed Python environment lives when `DELEGATE_DOCTOR_HOME` is not set.
pub const XDG_DATA_HOME: &str = "XDG_DATA_HOME";
/// Where trusted registries are listed when `DELEGATE_DOCTOR_HOME` is not set.
pub const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// Where it is kept what was seen of registries when `DELEGATE_DOCTOR_HOME` is not set.
pub const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
/// An active virtual environment; used when it has executorch.
pub const VIRTUAL_ENV: &str = "VIRTUAL_ENV";
/// An active conda environment; like `VIRTUAL_ENV`, which wins.
pub const CONDA_PREFIX: &str = "CONDA_PREFIX";
/// A file with the certificates of authorities to believe when a registry is asked over `https://`.
pub const SSL_CERT_FILE: &str = crate::registry::transport::AUTHORITIES;
/// The C++ compiler that builds the native runner; without it, `c++`, `g++` and `clang++` are tried.
pub const CXX: &str = "CXX";
/// The C++ compiler for 64-bit Arm.
pub const CXX_AARCH64: &str = crate::target::bundle::COMPILER_VARIABLE;
/// Another folder for files on a device.
pub const DEVICE_FOLDER: &str = crate::target::device::FOLDER_VARIABLE;
/// Another configuration for `ssh`.
pub const SSH_CONFIG: &str = crate::target::ssh::CONFIGURATION_VARIABLE;
/// Where `adb` is when it is not on `PATH`.
pub const ANDROID_HOME: &str = crate::target::adb::SDK_VARIABLE;
/// The older name of `ANDROID_HOME`.
pub const ANDROID_SDK_ROOT: &str = crate::target::adb::OLD_SDK_VARIABLE;
/// No colours when set to anything but the empty string.
pub const NO_COLOR: &str = "NO_COLOR";
/// Colours also where the output is not a terminal.
pub const CLICOLOR_FORCE: &str = "CLICOLOR_FORCE";
/// The program that `--open` starts; without it, the desktop chooses.
pub const BROWSER: &str = "BROWSER";
/// Where programs are searched: Python, the C++ compiler, the disk copier behind `dd`.
pub const PATH: &str = "PATH";

/// All of them, in the order the reference lists them.
pub const ALL: &[Variable] = &[
    Variable {
        name: DELEGATE_DOCTOR_HOME,
        about: "Root of everything the tool keeps between runs (`cache/`, `config/`, `data/` and `state/`), instead of the XDG folders",
    },
    Variable { name: DELEGATE_DOCTOR_PYTHON, about: "The Python interpreter to use, like `--python`" },
    Variable {
        name: XDG_CACHE_HOME,
        about: "Where caches live when `DELEGATE_DOCTOR_HOME` is not set (default `~/.cache`)",
    },
    Variable {
        name: XDG_DATA_HOME,
        about: "Where the managed Python environment lives when `DELEGATE_DOCTOR_HOME` is not set (default `~/.local/share`)",
    },
    Variable {
        name: XDG_CONFIG_HOME,
        about: "Where trusted registries of rules are listed when `DELEGATE_DOCTOR_HOME` is not set (default `~/.config`)",
    },
    Variable {
        name: XDG_STATE_HOME,
        about: "Where it is kept what was seen of registries when `DELEGATE_DOCTOR_HOME` is not set (default `~/.local/state`)",
    },
    Variable { name: VIRTUAL_ENV, about: "An active virtual environment; it is used when it has executorch" },
    Variable { name: CONDA_PREFIX, about: "An active conda environment; `VIRTUAL_ENV` wins" },
    Variable {
        name: SSL_CERT_FILE,
        about: "A PEM file with the certificates of authorities to believe when a registry is asked over `https://`, instead of those that come with the tool",
    },
    Variable {
        name: CXX,
        about: "The C++ compiler that builds the native runner; without it, `c++`, `g++` and `clang++` are tried",
    },
    Variable {
        name: CXX_AARCH64,
        about: "The C++ compiler that builds the runner for 64-bit Arm; without it, the usual names are tried",
    },
    Variable {
        name: DEVICE_FOLDER,
        about: "A folder on phones and boards in which the tool keeps its own one, `delegate-doctor`, instead of the usual place",
    },
    Variable { name: SSH_CONFIG, about: "A configuration file for `ssh`, instead of the user's" },
    Variable {
        name: ANDROID_HOME,
        about: "The Android SDK, whose `platform-tools/adb` is used when `adb` is not on `PATH`",
    },
    Variable { name: ANDROID_SDK_ROOT, about: "Like `ANDROID_HOME`, which wins" },
    Variable { name: NO_COLOR, about: "No colours when set to anything but the empty string" },
    Variable { name: CLICOLOR_FORCE, about: "Colours also where the output is not a terminal" },
    Variable { name: BROWSER, about: "The program that `--open` starts; without it, the desktop chooses" },
    Variable {
        name: PATH,
        about: "Where Python, the C++ compilers, `qemu-aarch64-static`, `adb`, `ssh` and the system's own `dd` are searched",
    },
];
