//! The device's end of the protocol of Android's debug bridge, on loopback only: enough of it for the real client
//! to list, push, pull and run scripts with exit codes. What goes over the wire is as in the public protocol notes
//! of Android (`packages/modules/adb/protocol.txt`, `SYNC.TXT`).

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::stand_in::StandIn;

const CONNECT: u32 = u32::from_le_bytes(*b"CNXN");
const AUTHORIZE: u32 = u32::from_le_bytes(*b"AUTH");
const OPEN: u32 = u32::from_le_bytes(*b"OPEN");
const OKAY: u32 = u32::from_le_bytes(*b"OKAY");
const CLOSE: u32 = u32::from_le_bytes(*b"CLSE");
const WRITE: u32 = u32::from_le_bytes(*b"WRTE");
const VERSION: u32 = 0x0100_0001;
const LARGEST: u32 = 256 * 1024;

/// Something that the client asks of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// run a script
    Shell(String),
    /// keep a file
    Push(String),
    /// give a file
    Pull(String),
}

/// What happens instead of what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// the cable comes out
    Unplug,
    /// the device says no, in these words
    Refuse(String),
    /// one byte changes on the way
    Alter,
    /// only so many bytes arrive
    Cut(usize),
    /// nothing happens any more, until the client gives up
    Hang,
    /// the script runs, and the client hears this instead
    Say(String),
}

type Plan = Box<dyn FnMut(&Event) -> Option<Fault> + Send>;

/// A daemon that serves one device.
pub struct AdbDaemon {
    /// where it listens
    pub port: u16,
    stop: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

struct Shared {
    device: Arc<StandIn>,
    authorized: AtomicBool,
    plan: Mutex<Plan>,
    connections: Mutex<Vec<TcpStream>>,
}

impl AdbDaemon {
    /// Starts one.
    pub fn start(device: Arc<StandIn>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = listener.local_addr().expect("address").port();
        let shared = Arc::new(Shared {
            device,
            authorized: AtomicBool::new(true),
            plan: Mutex::new(Box::new(|_| None)),
            connections: Mutex::new(Vec::new()),
        });
        let stop = Arc::new(AtomicBool::new(false));
        let (serving, stopping) = (Arc::clone(&shared), Arc::clone(&stop));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                serving.connections.lock().expect("lock").push(stream.try_clone().expect("clone"));
                let serving = Arc::clone(&serving);
                // A client that goes away in the middle ends its connection, nothing else.
                thread::spawn(move || serve(stream, &serving));
            }
        });
        Self { port, stop, shared }
    }

    /// Says what goes wrong from now on.
    pub fn plan(&self, plan: impl FnMut(&Event) -> Option<Fault> + Send + 'static) {
        *self.shared.plan.lock().expect("lock") = Box::new(plan);
    }

    /// The device asks its user before it trusts anybody, and nobody answers.
    pub fn ask_user(&self) {
        self.shared.authorized.store(false, Ordering::SeqCst);
    }

    /// Ends all connections.
    pub fn unplug(&self) {
        for stream in self.shared.connections.lock().expect("lock").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for AdbDaemon {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.unplug();
        // Wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// The way back to the client.
#[derive(Clone)]
struct Wire(Arc<Mutex<TcpStream>>);

impl Wire {
    fn send(&self, command: u32, one: u32, two: u32, payload: &[u8]) -> std::io::Result<()> {
        let sum = payload.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
        let length = u32::try_from(payload.len()).expect("small");
        let mut message = Vec::with_capacity(24 + payload.len());
        for word in [command, one, two, length, sum, command ^ u32::MAX] {
            message.extend_from_slice(&word.to_le_bytes());
        }
        message.extend_from_slice(payload);
        self.0.lock().expect("lock").write_all(&message)
    }

    fn unplug(&self) {
        let _ = self.0.lock().expect("lock").shutdown(Shutdown::Both);
    }
}

/// What arrives for one stream.
enum Arrived {
    Bytes(Vec<u8>),
    Room,
}

fn serve(mut stream: TcpStream, shared: &Arc<Shared>) {
    let wire = Wire(Arc::new(Mutex::new(stream.try_clone().expect("clone"))));
    let mut streams: HashMap<u32, Sender<Arrived>> = HashMap::new();
    let next = AtomicU32::new(1);
    loop {
        let mut header = [0; 24];
        if stream.read_exact(&mut header).is_err() {
            return;
        }
        let word = |index: usize| u32::from_le_bytes(header[index * 4..index * 4 + 4].try_into().expect("four bytes"));
        let (command, theirs, ours, length) = (word(0), word(1), word(2), word(3));
        let mut payload = vec![0; length as usize];
        if stream.read_exact(&mut payload).is_err() {
            return;
        }
        match command {
            // A token that no key answers; the client's own key (3) waits for the user for ever.
            CONNECT | AUTHORIZE if !shared.authorized.load(Ordering::SeqCst) && (command == CONNECT || theirs == 2) => {
                let _ = wire.send(AUTHORIZE, 1, 0, &[7; 20]);
            }
            AUTHORIZE => {}
            CONNECT => {
                let banner = b"device::ro.product.name=stand_in;ro.product.model=Stand_in;\
                               ro.product.device=stand_in;features=shell_v2,cmd,fixed_push_mkdir";
                let _ = wire.send(CONNECT, VERSION, LARGEST, banner);
            }
            OPEN => {
                let id = next.fetch_add(1, Ordering::SeqCst);
                let (sender, receiver) = channel();
                streams.insert(id, sender);
                let service = String::from_utf8_lossy(&payload).trim_end_matches('\0').to_owned();
                let _ = wire.send(OKAY, id, theirs, &[]);
                let channel =
                    Channel { wire: wire.clone(), id, theirs, arrived: receiver, kept: Vec::new(), credit: 1 };
                let shared = Arc::clone(shared);
                thread::spawn(move || open(channel, &service, &shared));
            }
            WRITE => {
                if let Some(sender) = streams.get(&ours) {
                    let _ = sender.send(Arrived::Bytes(payload));
                    let _ = wire.send(OKAY, ours, theirs, &[]);
                }
            }
            OKAY => {
                if let Some(sender) = streams.get(&ours) {
                    let _ = sender.send(Arrived::Room);
                }
            }
            CLOSE => {
                streams.remove(&ours);
            }
            _ => {}
        }
    }
}

/// One stream of a connection.
struct Channel {
    wire: Wire,
    id: u32,
    theirs: u32,
    arrived: Receiver<Arrived>,
    kept: Vec<u8>,
    credit: u32,
}

impl Channel {
    fn wait(&mut self) -> Option<()> {
        match self.arrived.recv().ok()? {
            Arrived::Bytes(bytes) => self.kept.extend(bytes),
            Arrived::Room => self.credit += 1,
        }
        Some(())
    }

    fn write(&mut self, bytes: &[u8]) -> Option<()> {
        for part in bytes.chunks(LARGEST as usize) {
            while self.credit == 0 {
                self.wait()?;
            }
            self.credit -= 1;
            self.wire.send(WRITE, self.id, self.theirs, part).ok()?;
        }
        Some(())
    }

    fn read(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.kept.len() < count {
            self.wait()?;
        }
        Some(self.kept.drain(..count).collect())
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.read(4)?.try_into().ok()?))
    }

    fn close(&self) {
        let _ = self.wire.send(CLOSE, self.id, self.theirs, &[]);
    }
}

fn open(mut channel: Channel, service: &str, shared: &Shared) {
    if let Some(rest) = service.strip_prefix("shell") {
        let script = rest.split_once(':').map_or("", |(_, script)| script);
        shell(&mut channel, script, rest.starts_with(",v2"), shared);
    } else if service.starts_with("sync:") {
        sync(&mut channel, shared);
    }
    channel.close();
}

fn fault(event: Event, shared: &Shared) -> Option<Fault> {
    shared.plan.lock().expect("lock")(&event)
}

fn packet(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut packet = vec![kind];
    packet.extend(u32::try_from(bytes.len()).expect("small").to_le_bytes());
    packet.extend(bytes);
    packet
}

fn shell(channel: &mut Channel, script: &str, packets: bool, shared: &Shared) {
    let fault = fault(Event::Shell(script.to_owned()), shared);
    match fault {
        Some(Fault::Unplug) => return channel.wire.unplug(),
        Some(Fault::Hang) => loop {
            if channel.wait().is_none() {
                return;
            }
        },
        _ => {}
    }
    let mut child = shared
        .device
        .shell(script)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("a shell");
    let (told, hear) = channel_of_output(&mut child);
    let mut stdout_bytes = Vec::new();
    let mut gone = false;
    let altered = matches!(fault, Some(Fault::Alter | Fault::Cut(_) | Fault::Say(_) | Fault::Refuse(_)));
    drop(told);
    loop {
        match hear.recv_timeout(Duration::from_millis(20)) {
            Ok((1, bytes)) if altered => stdout_bytes.extend(bytes),
            Ok((kind, bytes)) => {
                let message = if packets { packet(kind, &bytes) } else { bytes };
                if channel.write(&message).is_none() {
                    gone = true;
                    break;
                }
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                // A client that went away takes its command along.
                match channel.arrived.try_recv() {
                    Ok(Arrived::Bytes(bytes)) => channel.kept.extend(bytes),
                    Ok(Arrived::Room) => channel.credit += 1,
                    Err(std::sync::mpsc::TryRecvError::Empty) => {}
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                        gone = true;
                        break;
                    }
                }
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    if altered {
        let bytes = match &fault {
            Some(Fault::Say(text) | Fault::Refuse(text)) => text.clone().into_bytes(),
            Some(Fault::Cut(length)) => stdout_bytes.into_iter().take(*length).collect(),
            _ => with_other_byte(stdout_bytes),
        };
        let _ = channel.write(&packet(1, &bytes));
    }
    if gone {
        let group = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let status = child.wait().expect("waited");
    let code = u8::try_from(status.code().unwrap_or(137) & 0xff).expect("a byte");
    if packets {
        let _ = channel.write(&packet(3, &[code]));
    }
}

type Output = (Sender<(u8, Vec<u8>)>, Receiver<(u8, Vec<u8>)>);

fn channel_of_output(child: &mut std::process::Child) -> Output {
    let (told, hear) = channel();
    let pump = |kind: u8, mut pipe: Box<dyn Read + Send>| {
        let told = told.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 32 * 1024];
            while let Ok(count) = pipe.read(&mut buffer) {
                if count == 0 || told.send((kind, buffer[..count].to_vec())).is_err() {
                    return;
                }
            }
        });
    };
    pump(1, Box::new(child.stdout.take().expect("piped")));
    pump(2, Box::new(child.stderr.take().expect("piped")));
    (told, hear)
}

fn with_other_byte(mut bytes: Vec<u8>) -> Vec<u8> {
    let middle = bytes.len() / 2;
    if let Some(byte) = bytes.get_mut(middle) {
        *byte ^= 1;
    }
    bytes
}

fn sync(channel: &mut Channel, shared: &Shared) {
    while let Some(request) = channel.read(4) {
        let Some(length) = channel.number() else { return };
        let Some(argument) = channel.read(length as usize) else { return };
        let argument = String::from_utf8_lossy(&argument).into_owned();
        let done = match request.as_slice() {
            b"STAT" => stat(channel, Path::new(&argument)),
            b"SEND" => keep(channel, &argument, shared),
            b"RECV" => give(channel, &argument, shared),
            _ => return,
        };
        if done.is_none() {
            return;
        }
    }
}

fn stat(channel: &mut Channel, path: &Path) -> Option<()> {
    use std::os::unix::fs::MetadataExt as _;

    let mut answer = b"STAT".to_vec();
    let metadata = std::fs::metadata(path).ok();
    let words = metadata.map_or([0; 3], |found| {
        [found.mode(), u32::try_from(found.size()).unwrap_or(u32::MAX), u32::try_from(found.mtime()).unwrap_or(0)]
    });
    answer.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    channel.write(&answer)
}

fn fail(channel: &mut Channel, reason: &str) -> Option<()> {
    let mut answer = b"FAIL".to_vec();
    answer.extend(u32::try_from(reason.len()).ok()?.to_le_bytes());
    answer.extend(reason.as_bytes());
    channel.write(&answer)
}

fn keep(channel: &mut Channel, argument: &str, shared: &Shared) -> Option<()> {
    let (path, mode) = argument.rsplit_once(',')?;
    let fault = fault(Event::Push(path.to_owned()), shared);
    let mut content = Vec::new();
    loop {
        let word = channel.read(4)?;
        let length = channel.number()?;
        match word.as_slice() {
            b"DATA" => content.extend(channel.read(length as usize)?),
            b"DONE" => break,
            _ => return None,
        }
        if fault == Some(Fault::Unplug) {
            channel.wire.unplug();
            return None;
        }
    }
    match fault {
        Some(Fault::Refuse(reason)) => return fail(channel, &reason),
        Some(Fault::Hang) => loop {
            channel.wait()?;
        },
        Some(Fault::Alter) => content = with_other_byte(content),
        Some(Fault::Cut(length)) => content.truncate(length),
        Some(Fault::Unplug) => {
            channel.wire.unplug();
            return None;
        }
        Some(Fault::Say(_)) | None => {}
    }
    if let Err(error) = fs_err::write(path, content) {
        return fail(channel, &error.to_string());
    }
    let mode = mode.parse::<u32>().unwrap_or(0o644) & 0o777;
    let _ = std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode));
    channel.write(b"OKAY\0\0\0\0")
}

fn give(channel: &mut Channel, path: &str, shared: &Shared) -> Option<()> {
    let mut content = match fs_err::read(path) {
        Ok(content) => content,
        Err(error) => return fail(channel, &error.to_string()),
    };
    match fault(Event::Pull(path.to_owned()), shared) {
        Some(Fault::Unplug) => {
            channel.wire.unplug();
            return None;
        }
        Some(Fault::Refuse(reason)) => return fail(channel, &reason),
        Some(Fault::Hang) => loop {
            channel.wait()?;
        },
        Some(Fault::Alter) => content = with_other_byte(content),
        Some(Fault::Cut(length)) => content.truncate(length),
        Some(Fault::Say(_)) | None => {}
    }
    for part in content.chunks(64 * 1024) {
        let mut answer = b"DATA".to_vec();
        answer.extend(u32::try_from(part.len()).ok()?.to_le_bytes());
        answer.extend(part);
        channel.write(&answer)?;
    }
    channel.write(b"DONE\0\0\0\0")
}
