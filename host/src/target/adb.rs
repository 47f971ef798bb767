//! Android devices, through the user's own `adb`.
//!
//! The client that the user has knows their devices, keys and server; a library would start a second server, and
//! the one there is loses the exit codes of commands. Every call names the device by its serial number, so that a
//! second one that is plugged in meanwhile is never taken for it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::bundle::Bundle;
use super::child::{self, End, Finished, last_lines};
use super::device::{DeviceTarget, Link};
use super::{Error, plain_words};
use crate::interrupt;
use crate::progress::Progress;

/// Time for a question to the server, which may have to start.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a device that was just connected may take until the server has greeted it.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(8);
/// Between two looks at such a device.
const ARRIVAL_PAUSE: Duration = Duration::from_millis(250);
/// Names the folder of Android's SDK.
pub const SDK_VARIABLE: &str = "ANDROID_HOME";
/// Its older name.
pub const OLD_SDK_VARIABLE: &str = "ANDROID_SDK_ROOT";

/// Which device, and how to come to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdbOptions {
    /// serial number; none: the only device there is
    pub serial: Option<String>,
    /// folder on the device for this tool's files; none: below `/data/local/tmp`
    pub folder: Option<String>,
    /// more environment variables for the client, e.g. the port of another server
    pub variables: Vec<(String, String)>,
}

/// Makes an Android device ready: finds it, copies the bundle there, and tries the runner.
///
/// # Errors
/// Whatever keeps programs from running there.
pub fn prepare(
    options: &AdbOptions,
    bundle: impl FnOnce() -> Result<Bundle, Error>,
    progress: &dyn Progress,
) -> Result<DeviceTarget, Error> {
    DeviceTarget::prepare(Box::new(AdbLink::open(options)?), options.folder.as_deref(), bundle, progress)
}

/// Where the shell of a device may write and start programs.
const FOLDER: &str = "/data/local/tmp/delegate-doctor";

/// What can be said of Android devices on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// it takes commands
    Ready,
    /// there is none
    None,
    /// it has not been told to trust this host
    Unauthorized,
    /// it is known and does not answer
    Offline,
    /// it is no device for 64-bit Arm
    WrongAbi,
    /// there is no `adb`
    NoAdb,
    /// there are several, and none was named
    Several,
}

impl fmt::Display for DeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "READY",
            Self::None => "NONE",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Offline => "OFFLINE",
            Self::WrongAbi => "WRONG_ABI",
            Self::NoAdb => "NO_ADB",
            Self::Several => "SEVERAL",
        })
    }
}

impl DeviceState {
    /// The next step; `None` when nothing has to be done.
    pub fn next_step(self) -> Option<&'static str> {
        Some(match self {
            Self::Ready => return None,
            Self::None => {
                "Connect a device by USB and turn on `USB debugging` in its developer options, or `adb connect HOST`"
            }
            Self::Unauthorized => {
                "Unlock the device and allow USB debugging from this computer in the dialog that it shows"
            }
            Self::Offline => {
                "Plug the cable in again, or run `adb reconnect`; restart the device if that does not help"
            }
            Self::WrongAbi => "Use a device with a 64-bit Arm system (arm64-v8a)",
            Self::NoAdb => {
                "Install Android's platform tools (Debian and Ubuntu: `apt install adb`), or set ANDROID_HOME"
            }
            Self::Several => {
                "Name one: `--target adb:SERIAL`; `delegate-doctor targets list` shows their serial numbers"
            }
        })
    }
}

/// A device as the server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// serial number
    pub serial: String,
    /// the server's word: `device`, `offline`, `unauthorized`, …
    pub word: String,
    /// model, where it is told
    pub model: Option<String>,
}

impl Listed {
    /// What that means.
    pub fn state(&self) -> DeviceState {
        match self.word.as_str() {
            "device" => DeviceState::Ready,
            "unauthorized" | "authorizing" | "no permissions" => DeviceState::Unauthorized,
            _ => DeviceState::Offline,
        }
    }

    /// Whether it may take commands in a moment: a device that was just plugged in, connected to or restarted is
    /// called by these words until the server has greeted it.
    fn is_on_its_way(&self) -> bool {
        matches!(self.word.as_str(), "offline" | "connecting" | "authorizing")
    }
}

/// The client in use.
///
/// # Errors
/// When there is none.
pub(crate) fn client() -> Result<PathBuf, Error> {
    let in_sdk = [SDK_VARIABLE, OLD_SDK_VARIABLE]
        .into_iter()
        .filter_map(std::env::var_os)
        .map(|folder| Path::new(&folder).join("platform-tools/adb"))
        .filter(|path| path.is_file());
    for candidate in std::iter::once(PathBuf::from("adb")).chain(in_sdk) {
        let Ok(done) = child::run(Command::new(&candidate).arg("version"), QUESTION_TIMEOUT) else { continue };
        match done.end {
            End::Exited(status) if status.success() => return Ok(candidate),
            End::Interrupted => return Err(Error::Interrupted),
            End::Exited(_) | End::TimedOut => {}
        }
    }
    Err(not_ready(DeviceState::NoAdb, "no program `adb` was found on PATH or below ANDROID_HOME"))
}

/// The devices that the server knows; starts the server if none is running. `variables` are more environment
/// variables for the client.
///
/// # Errors
/// When there is no client, or it fails.
pub fn list(variables: &[(String, String)]) -> Result<Vec<Listed>, Error> {
    list_by(&client()?, variables)
}

fn list_by(client: &Path, variables: &[(String, String)]) -> Result<Vec<Listed>, Error> {
    let mut command = Command::new(client);
    command.args(["devices", "-l"]).envs(variables.iter().cloned());
    let done = child::run(&mut command, QUESTION_TIMEOUT)?;
    match done.end {
        End::Exited(status) if status.success() => Ok(read_list(&String::from_utf8_lossy(&done.stdout))),
        End::Interrupted => Err(Error::Interrupted),
        End::TimedOut => Err(not_ready(DeviceState::Offline, "the server of `adb` does not answer")),
        End::Exited(_) => Err(not_ready(DeviceState::Offline, &last_lines(&done.stderr, 3))),
    }
}

fn read_list(said: &str) -> Vec<Listed> {
    let mut devices = Vec::new();
    for line in said.lines() {
        // Lines of the server's own begin with an asterisk; the title has no state.
        let line = line.trim_end();
        if line.starts_with('*') || line.starts_with("List of devices") {
            continue;
        }
        let Some((serial, rest)) = line.split_once(char::is_whitespace) else { continue };
        let rest = rest.trim_start();
        let word = if rest.starts_with("no permissions") {
            "no permissions"
        } else {
            rest.split_whitespace().next().unwrap_or_default()
        };
        if serial.is_empty() || word.is_empty() {
            continue;
        }
        let model =
            rest.split_whitespace().find_map(|part| part.strip_prefix("model:")).map(|text| text.replace('_', " "));
        devices.push(Listed { serial: serial.to_owned(), word: word.to_owned(), model });
    }
    devices
}

/// The device that is meant among those listed: the one with the serial number, or the only one that takes commands,
/// or else the first.
///
/// # Errors
/// When it is not there, or several could be meant.
fn choose(listed: Vec<Listed>, serial: Option<&str>) -> Result<Listed, Error> {
    if let Some(serial) = serial {
        let named = listed.into_iter().find(|device| device.serial == serial);
        return named.ok_or_else(|| not_ready(DeviceState::None, &format!("no device `{serial}` is connected")));
    }
    let (mut ready, others): (Vec<Listed>, Vec<Listed>) =
        listed.into_iter().partition(|device| device.state() == DeviceState::Ready);
    match (ready.len(), others.into_iter().next()) {
        (1, _) => Ok(ready.remove(0)),
        (0, None) => Err(not_ready(DeviceState::None, "no device is connected")),
        (0, Some(device)) => Ok(device),
        (count, _) => {
            let reason = format!("{count} devices are connected, and none was named");
            Err(not_ready(DeviceState::Several, &reason))
        }
    }
}

/// An error that names the state that the devices are in.
pub(crate) fn not_ready(state: DeviceState, reason: &str) -> Error {
    Error::NotReady { state, reason: reason.to_owned() }
}

/// The way to one Android device.
#[derive(Clone, Debug)]
struct AdbLink {
    client: PathBuf,
    variables: Vec<(String, String)>,
    serial: String,
    model: Option<String>,
}

impl AdbLink {
    /// The device with a serial number, or the only one there is.
    ///
    /// # Errors
    /// When it is not there or takes no commands.
    fn open(options: &AdbOptions) -> Result<Self, Error> {
        let client = client()?;
        let begin = Instant::now();
        let device = loop {
            let device = choose(list_by(&client, &options.variables)?, options.serial.as_deref())?;
            if !device.is_on_its_way() || begin.elapsed() > ARRIVAL_TIMEOUT {
                break device;
            }
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(ARRIVAL_PAUSE);
        };
        match device.state() {
            DeviceState::Ready => {
                Ok(Self { client, variables: options.variables.clone(), serial: device.serial, model: device.model })
            }
            state => Err(not_ready(state, &format!("the server of `adb` calls the device `{}`", device.word))),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.client);
        command.args(["-s", &self.serial]).envs(self.variables.iter().cloned());
        command
    }

    /// A copy in one direction.
    fn copy(&self, during: &str, words: [&std::ffi::OsStr; 3], timeout: Duration) -> Result<(), Error> {
        let done = child::run(self.command().args(words), timeout)?;
        match done.end {
            End::Interrupted => Err(Error::Interrupted),
            End::TimedOut => Err(self.trouble(during, "it takes too long")),
            End::Exited(status) if status.success() => Ok(()),
            End::Exited(_) => {
                let said = format!("{}\n{}", String::from_utf8_lossy(&done.stdout), done.stderr);
                Err(self.trouble(during, &last_lines(&said, 2)))
            }
        }
    }
}

impl Link for AdbLink {
    fn kind(&self) -> &'static str {
        "adb"
    }

    fn name(&self) -> String {
        self.model.clone().unwrap_or_else(|| "Android device".to_owned())
    }

    fn identity(&self) -> String {
        self.serial.clone()
    }

    fn root(&self) -> &'static str {
        FOLDER
    }

    fn shell(&self, script: &str, timeout: Duration) -> Result<Finished, Error> {
        Ok(child::run(self.command().args(["shell", "-T"]).arg(script), timeout)?)
    }

    fn push(&self, from: &Path, to: &str, timeout: Duration) -> Result<(), Error> {
        self.copy(
            &format!("copying `{}` there", from.display()),
            ["push".as_ref(), from.as_os_str(), to.as_ref()],
            timeout,
        )
    }

    fn pull(&self, from: &str, to: &Path, timeout: Duration) -> Result<(), Error> {
        self.copy(&format!("copying `{from}` back"), ["pull".as_ref(), from.as_ref(), to.as_os_str()], timeout)
    }

    fn trouble(&self, during: &str, reason: &str) -> Error {
        let reason = plain_words(reason);
        if super::is_full(&reason) {
            return Error::DeviceFull { target: self.name(), during: during.to_owned() };
        }
        let state = match list_by(&self.client, &self.variables) {
            Err(Error::Interrupted) => return Error::Interrupted,
            Err(_) => DeviceState::Offline,
            Ok(listed) => {
                listed.iter().find(|device| device.serial == self.serial).map_or(DeviceState::None, Listed::state)
            }
        };
        Error::Lost { target: self.name(), during: during.to_owned(), reason, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_that_is_meant_is_chosen_or_told() {
        let listed = |devices: &[(&str, &str)]| -> Vec<Listed> {
            let one = |&(serial, word): &(&str, &str)| Listed { serial: serial.into(), word: word.into(), model: None };
            devices.iter().map(one).collect()
        };
        let chosen = |devices: &[(&str, &str)], serial: Option<&str>| match choose(listed(devices), serial) {
            Ok(device) => Ok((device.serial.clone(), device.is_on_its_way())),
            Err(Error::NotReady { state, .. }) => Err(state),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(chosen(&[], None), Err(DeviceState::None));
        assert_eq!(chosen(&[("a", "device")], Some("b")), Err(DeviceState::None));
        assert_eq!(chosen(&[("a", "offline"), ("b", "device")], None), Ok(("b".into(), false)));
        assert_eq!(chosen(&[("a", "offline"), ("b", "device")], Some("a")), Ok(("a".into(), true)));
        assert_eq!(chosen(&[("a", "authorizing")], None), Ok(("a".into(), true)));
        assert_eq!(chosen(&[("a", "unauthorized")], None), Ok(("a".into(), false)));
        assert_eq!(chosen(&[("a", "device"), ("b", "device")], None), Err(DeviceState::Several));
    }

    #[test]
    fn devices_are_told_apart_by_what_the_server_says() {
        let said = "* daemon not running; starting now at tcp:5037\n* daemon started successfully\n\
            List of devices attached\n\
            8A1X0                  device usb:1-2 product:shiba model:Pixel_8 device:shiba transport_id:1\n\
            192.168.1.5:5555       offline transport_id:3\n\
            R58                    unauthorized usb:1-3 transport_id:4\n\
            0123                   no permissions (missing udev rules? user is in the plugdev group); see [http://x]\n\
            emulator-5554          bootloader\n\n";
        let devices = read_list(said);
        let seen: Vec<(&str, DeviceState)> =
            devices.iter().map(|device| (device.serial.as_str(), device.state())).collect();
        assert_eq!(
            seen,
            [
                ("8A1X0", DeviceState::Ready),
                ("192.168.1.5:5555", DeviceState::Offline),
                ("R58", DeviceState::Unauthorized),
                ("0123", DeviceState::Unauthorized),
                ("emulator-5554", DeviceState::Offline),
            ]
        );
        assert_eq!(devices.first().and_then(|device| device.model.as_deref()), Some("Pixel 8"));
    }

    #[test]
    fn every_state_but_ready_has_a_next_step() {
        use DeviceState::{NoAdb, None, Offline, Ready, Several, Unauthorized, WrongAbi};
        assert_eq!(Ready.next_step(), Option::None);
        for state in [None, Unauthorized, Offline, WrongAbi, NoAdb, Several] {
            assert!(state.next_step().is_some(), "{state}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_server_says_is_read(said: String) {
            let _ = read_list(&said);
        }
    }
}
