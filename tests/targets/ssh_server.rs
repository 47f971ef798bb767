//! A real OpenSSH server on loopback, whose sessions are those of a stand-in device.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::stand_in::{StandIn, program};

pub struct SshServer {
    folder: tempfile::TempDir,
    child: Child,
    port: u16,
}

impl SshServer {
    pub fn start(device: &StandIn) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["host_key", "user_key"] {
            let done = Command::new(program("ssh-keygen"))
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(path(name))
                .output()
                .expect("ssh-keygen");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        fs_err::copy(path("user_key.pub"), path("authorized_keys")).expect("copy");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = free.local_addr().expect("address").port();
        drop(free);
        let mut variables = String::new();
        for (name, value) in device.variables() {
            let _ = write!(variables, " \"{name}={value}\"");
        }
        let text = |name: &str| path(name).display().to_string();
        let configuration = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
             StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
             Subsystem sftp internal-sftp\nSetEnv{variables}\n",
            text("host_key"),
            text("authorized_keys"),
        );
        fs_err::write(path("sshd_config"), configuration).expect("write");
        // The place where a server that runs as root puts itself away.
        let _ = std::fs::create_dir_all("/run/sshd");
        let child = Command::new(program("sshd"))
            .args(["-D", "-e", "-f"])
            .arg(path("sshd_config"))
            .stdout(Stdio::null())
            .stderr(fs_err::File::create(path("log")).expect("log").into_parts().0)
            .spawn()
            .expect("sshd");
        let user = String::from_utf8(Command::new("id").arg("-un").output().expect("id").stdout).expect("text");
        let client = format!(
            "Host board\nHostName 127.0.0.1\nPort {port}\nUser {}\nIdentityFile {}\nIdentitiesOnly yes\n\
             UserKnownHostsFile {}\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n",
            user.trim(),
            text("user_key"),
            text("known_hosts"),
        );
        fs_err::write(path("client_config"), client).expect("write");
        let server = Self { folder, child, port };
        server.wait();
        server
    }

    fn wait(&self) {
        for _ in 0..200 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("sshd does not listen: {}", self.log());
    }

    /// What the server said.
    pub fn log(&self) -> String {
        fs_err::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The configuration with which `ssh board` comes here.
    pub fn client_configuration(&self) -> PathBuf {
        self.folder.path().join("client_config")
    }

    /// Trusts nobody any more.
    pub fn forget_keys(&self) {
        fs_err::write(self.folder.path().join("authorized_keys"), "").expect("write");
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
