//! A device that is none: a folder of this machine with a shell of its own, in which programs for 64-bit Arm run
//! under qemu. What stands in its `bin` is all that its scripts find, so a tool can be missing there or lie.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use dd_tests::make_executable;

/// Tools that Android's shell has and that scripts may use.
const TOOLS: [&str; 21] = [
    "cat",
    "chmod",
    "cp",
    "find",
    "grep",
    "head",
    "id",
    "kill",
    "ls",
    "mkdir",
    "mv",
    "printf",
    "rm",
    "sed",
    "sha256sum",
    "sleep",
    "sort",
    "tail",
    "tr",
    "true",
    "wc",
];

/// One stand-in device.
pub struct StandIn {
    folder: tempfile::TempDir,
}

/// The library that starts programs for Arm, compiled once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("arm64_programs.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets/arm64_programs.c");
        let done = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&path, &source])
            .arg("-ldl")
            .output()
            .expect("a C compiler");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        (folder, path)
    });
    path
}

/// A program of this machine.
pub fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("no program `{name}`: run `cargo xtask test`, which installs it"))
}

impl StandIn {
    /// A phone of the given name with the given CPU.
    pub fn new(model: &str, cpu: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("dd-device-").tempdir().expect("folder");
        let device = Self { folder };
        fs_err::create_dir_all(device.bin()).expect("folder");
        fs_err::create_dir_all(device.storage()).expect("folder");
        for tool in TOOLS {
            std::os::unix::fs::symlink(program(tool), device.bin().join(tool)).expect("link");
        }
        std::os::unix::fs::symlink("/bin/sh", device.bin().join("sh")).expect("link");
        device.tool("uname", "case \"$1\" in -m) echo aarch64;; *) echo 'Linux 6.1.0';; esac");
        device.tool(
            "getprop",
            &format!(
                "case \"$1\" in ro.product.model) echo '{model}';; ro.build.version.release) echo 15;; \
                 ro.build.version.sdk) echo 35;; ro.product.cpu.abi) echo arm64-v8a;; esac"
            ),
        );
        device.calls_itself_arm();
        device.tool("emulator", &format!("exec {} -cpu {cpu} \"$@\"", program("qemu-aarch64-static").display()));
        device
    }

    /// The kernel tells of an Arm processor, and not of this machine's.
    fn calls_itself_arm(&self) {
        let told = self.folder.path().join("cpuinfo");
        let core = "processor\t: 0\nFeatures\t: fp asimd asimddp\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\n";
        fs_err::write(&told, core).expect("cpuinfo");
        let sed = program("sed").display().to_string();
        let told = told.display();
        self.tool("sed", &format!("[ \"$3\" = /proc/cpuinfo ] && exec {sed} \"$1\" \"$2\" {told}; exec {sed} \"$@\""));
        let head = program("head").display().to_string();
        let machine = "cpu:type:aarch64:feature:,0000";
        self.tool("head", &format!("case \"$*\" in *modalias*) echo {machine};; *) exec {head} \"$@\";; esac"));
    }

    fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// The place for this tool's files.
    pub fn storage(&self) -> PathBuf {
        self.folder.path().join("storage")
    }

    /// Gives the device a tool, or another one in its place.
    pub fn tool(&self, name: &str, script: &str) {
        let path = self.bin().join(name);
        let _ = fs_err::remove_file(&path);
        fs_err::write(&path, format!("#!/bin/sh\n{script}\n")).expect("tool");
        make_executable(&path);
    }

    /// Takes a tool away.
    pub fn without(&self, name: &str) {
        fs_err::remove_file(self.bin().join(name)).expect("tool");
    }

    /// What the programs of the device see.
    pub fn variables(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        vec![
            ("PATH".to_owned(), text(&self.bin())),
            ("HOME".to_owned(), text(self.folder.path())),
            ("LD_PRELOAD".to_owned(), text(library())),
            // Found by its whole name, so that it may use the machine's own tools.
            ("STAND_IN_EMULATOR".to_owned(), text(&self.bin().join("emulator"))),
        ]
    }

    /// Runs a script in the device's shell.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script).env_clear().envs(self.variables()).current_dir("/");
        command
    }
}
