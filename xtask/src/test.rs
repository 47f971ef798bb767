//! Everything a change must pass, on a machine that may lack all of it: `cargo xtask test`.

use std::process::{Command, Stdio};
use std::time::Instant;

use delegate_doctor::output::{Printer, Talk};
use delegate_doctor::torch::environment::{Search, find_or_create};

use crate::workspace::{Result, cargo, home, root, run};

/// A named check.
type Step = (&'static str, fn() -> Result);

/// Runs every check in order and stops at the first failure.
pub(crate) fn test() -> Result {
    let steps: [Step; 9] = [
        ("system packages", system_packages),
        ("format", || run(cargo().args(["fmt", "--all", "--check"]))),
        ("lints", || run(cargo().args(["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))),
        ("C bindings", || crate::c_bindings::c_bindings(true)),
        ("rules", || crate::rules::command(true, true).map_err(|error| error.to_string())),
        ("Python environment and runner", || python().map(drop)),
        ("tests", tests),
        ("fuzz targets", || crate::fuzz::fuzz(crate::fuzz::SHORT, None)),
        ("documentation", || {
            run(cargo()
                .args(["doc", "--locked", "--workspace", "--no-deps", "--quiet"])
                .env("RUSTDOCFLAGS", "-D warnings"))
        }),
    ];
    for (name, step) in steps {
        eprintln!("==> {name}");
        let begin = Instant::now();
        step().map_err(|error| format!("{name}: {error}"))?;
        eprintln!("    {name}: {:.0} s", begin.elapsed().as_secs_f64());
    }
    Ok(())
}

/// The browser that looks at reports, the tools that rules in C and JavaScript are built with, and what targets
/// beside this host need. Installed where that is possible without asking; the tests that need them say what is missing elsewhere.
fn system_packages() -> Result {
    const PACKAGES: [(&str, &str); 10] = [
        ("chromium", "chromium"),
        ("clang", "clang"),
        ("wasm-ld", "lld"),
        ("node", "nodejs"),
        ("npm", "npm"),
        ("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"),
        ("qemu-aarch64-static", "qemu-user-static"),
        ("adb", "adb"),
        ("ssh", "openssh-client"),
        ("/usr/sbin/sshd", "openssh-server"),
    ];
    let found =
        |name: &str| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    let missing: Vec<&str> =
        PACKAGES.iter().filter(|(program, _)| !found(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() || !found("apt-get") {
        eprintln!("    missing, and not to be installed by this user: {}", missing.join(", "));
        eprintln!("    tests that need them will say so");
        return Ok(());
    }
    let apt = |arguments: &[&str]| {
        run(Command::new("apt-get")
            .arg("-qq")
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null()))
    };
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], missing.as_slice()].concat())
}

/// The interpreter of the managed environment in the repository's cache, created when it is missing.
pub(crate) fn python() -> Result<String> {
    if let Ok(given) = std::env::var("DELEGATE_DOCTOR_PYTHON") {
        return Ok(given);
    }
    let search = Search {
        python: None,
        active: None,
        data_dir: home().join("data"),
        path: std::env::var_os("PATH").unwrap_or_default(),
    };
    let environment = find_or_create(&search, &Printer::new(Talk::Normal).progress()).map_err(|error| {
        let hint = error.hint().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
        format!("{error}{hint}")
    })?;
    Ok(environment.python.display().to_string())
}

fn tests() -> Result {
    run(cargo()
        .args(["test", "--locked", "--workspace", "--no-fail-fast"])
        .env("DELEGATE_DOCTOR_HOME", home())
        .env("DELEGATE_DOCTOR_PYTHON", python()?)
        .env("DD_TESTS_TUF_PYTHON", python_tuf()?)
        .envs(crate::rules::test_environment()))
}

/// A Python with the implementation that registries are held against, made when it is missing.
fn python_tuf() -> Result<String> {
    if let Ok(given) = std::env::var("DD_TESTS_TUF_PYTHON") {
        return Ok(given);
    }
    let requirements = root().join("tests/registry/requirements.txt");
    let wanted = fs_err::read_to_string(&requirements).map_err(|error| error.to_string())?;
    let folder = root().join(".cache/python-tuf");
    let (interpreter, made) = (folder.join("bin/python"), folder.join("requirements.txt"));
    if fs_err::read_to_string(&made).ok().as_ref() != Some(&wanted) {
        run(Command::new(python()?).args(["-m", "venv", "--clear"]).arg(&folder))?;
        run(Command::new(&interpreter).args(["-m", "pip", "install", "--quiet", "-r"]).arg(&requirements))?;
        fs_err::write(&made, wanted).map_err(|error| error.to_string())?;
    }
    Ok(interpreter.display().to_string())
}
