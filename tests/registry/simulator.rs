//! A simulated repository for the cases of the client workflow: any document, changed in any way, and signed.

use std::collections::BTreeMap;

use delegate_doctor::registry::client::View;
use delegate_doctor::registry::key::SigningKey;
use delegate_doctor::registry::metadata::signed;
use delegate_doctor::registry::trust::{Known, Pin};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::world::*;

/// A repository as plain documents; publishing writes and signs them.
pub(crate) struct Simulator {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) root: Value,
    pub(crate) timestamp: Value,
    pub(crate) snapshot: Value,
    pub(crate) targets: Value,
    pub(crate) roles: BTreeMap<String, Value>,
    /// keys that sign a role
    pub(crate) signers: BTreeMap<String, Vec<u8>>,
    /// the snapshot lists lengths and hashes
    pub(crate) hashes: bool,
}

pub(crate) fn expires(days: i64) -> Value {
    let time = noon() + SignedDuration::from_hours(24 * days);
    Value::from(time.to_string())
}

pub(crate) fn key_entry(seed: u8) -> (String, Value) {
    let public = key(seed).public();
    let value = json!({ "keytype": "ed25519", "scheme": "ed25519", "keyval": { "public": public.to_hex() } });
    (public.key_id(), value)
}

impl Simulator {
    pub(crate) fn new() -> Self {
        let mut root = json!({ "_type": "root", "spec_version": "1.0.34", "version": 1, "expires": expires(365),
            "consistent_snapshot": true, "keys": {}, "roles": {} });
        let mut signers = BTreeMap::new();
        for (role, seed) in [("root", 30), ("timestamp", 31), ("snapshot", 32), ("targets", 33)] {
            let (id, value) = key_entry(seed);
            root["keys"][&id] = value;
            root["roles"][role] = json!({ "keyids": [id], "threshold": 1 });
            signers.insert(role.to_owned(), vec![seed]);
        }
        let document =
            |kind: &str| json!({ "_type": kind, "spec_version": "1.0.34", "version": 1, "expires": expires(30) });
        let (mut timestamp, mut snapshot, mut targets) =
            (document("timestamp"), document("snapshot"), document("targets"));
        timestamp["meta"] = json!({ "snapshot.json": { "version": 1 } });
        snapshot["meta"] = json!({ "targets.json": { "version": 1 } });
        targets["targets"] = json!({});
        targets["delegations"] = json!({ "keys": {}, "roles": [] });
        let folder = tempfile::tempdir().expect("temporary folder");
        fs_err::create_dir_all(folder.path().join("metadata")).expect("folder");
        let mut simulator =
            Self { folder, root, timestamp, snapshot, targets, roles: BTreeMap::new(), signers, hashes: false };
        simulator.delegate("acme", &[34], 1);
        simulator.publish_root();
        simulator.publish();
        simulator
    }

    pub(crate) fn delegate(&mut self, name: &str, seeds: &[u8], threshold: u64) {
        let mut ids = Vec::new();
        for seed in seeds {
            let (id, value) = key_entry(*seed);
            self.targets["delegations"]["keys"][&id] = value;
            ids.push(id);
        }
        let role = json!({ "name": name, "keyids": ids, "threshold": threshold, "terminating": true,
            "paths": [format!("{name}/*/*")] });
        let roles = self.targets["delegations"]["roles"].as_array_mut().expect("roles");
        roles.retain(|other| other["name"] != name);
        roles.push(role);
        self.signers.insert(name.to_owned(), seeds.to_vec());
        self.roles.entry(name.to_owned()).or_insert_with(|| {
            json!({ "_type": "targets", "spec_version": "1.0.34", "version": 1, "expires": expires(30), "targets": {} })
        });
    }

    pub(crate) fn write(&self, name: &str, role: &str, document: &Value) -> Vec<u8> {
        let keys: Vec<SigningKey> = self.signers[role].iter().map(|seed| key(*seed)).collect();
        let bytes = signed(document, &keys.iter().collect::<Vec<_>>()).expect("signed");
        fs_err::write(self.folder.path().join("metadata").join(name), &bytes).expect("write");
        bytes
    }

    pub(crate) fn publish_root(&self) {
        self.write(&format!("{}.root.json", self.root["version"]), "root", &self.root);
    }

    /// The next root.
    pub(crate) fn next_root(&mut self) {
        bump(&mut self.root);
        self.publish_root();
    }

    /// Other keys for a role of the root.
    pub(crate) fn rekey(&mut self, role: &str, seeds: &[u8]) {
        let mut ids = Vec::new();
        for seed in seeds {
            let (id, value) = key_entry(*seed);
            self.root["keys"][&id] = value;
            ids.push(id);
        }
        self.root["roles"][role]["keyids"] = json!(ids);
        if role != "root" {
            self.signers.insert(role.to_owned(), seeds.to_vec());
        }
    }

    /// Writes targets, roles, snapshot and timestamp as they are, making them name each other.
    pub(crate) fn publish(&mut self) {
        let targets = self.write(&format!("{}.targets.json", self.targets["version"]), "targets", &self.targets);
        let pin = |version: &Value, bytes: &[u8], hashes: bool| match hashes {
            true => meta(version.as_u64().expect("version"), bytes),
            false => json!({ "version": version }),
        };
        self.snapshot["meta"]["targets.json"] = pin(&self.targets["version"], &targets, self.hashes);
        for (name, role) in &self.roles {
            let bytes = self.write(&format!("{}.{name}.json", role["version"]), name, role);
            self.snapshot["meta"][format!("{name}.json")] = pin(&role["version"], &bytes, self.hashes);
        }
        self.publish_snapshot();
    }

    pub(crate) fn publish_snapshot(&mut self) {
        let bytes = self.write(&format!("{}.snapshot.json", self.snapshot["version"]), "snapshot", &self.snapshot);
        let version = self.snapshot["version"].as_u64().expect("version");
        let pin = if self.hashes { meta(version, &bytes) } else { json!({ "version": version }) };
        self.timestamp["meta"]["snapshot.json"] = pin;
        self.publish_timestamp();
    }

    pub(crate) fn publish_timestamp(&self) {
        self.write("timestamp.json", "timestamp", &self.timestamp);
    }

    /// Everything once more with the next versions of snapshot and timestamp.
    pub(crate) fn update(&mut self) {
        bump(&mut self.snapshot);
        bump(&mut self.timestamp);
        self.publish();
    }

    pub(crate) fn remove(&self, name: &str) {
        fs_err::remove_file(self.folder.path().join("metadata").join(name)).expect("removed");
    }

    pub(crate) fn client(&self) -> User {
        let root = fs_err::read(self.folder.path().join("metadata/1.root.json")).expect("root");
        let pin = Pin { version: 1, sha256: delegate_doctor::files::sha256_hex(&root) };
        User::of(Known { name: NAME.to_owned(), place: self.folder.path().display().to_string(), root: pin })
    }
}

pub(crate) fn bump(document: &mut Value) {
    let version = document["version"].as_u64().expect("version");
    document["version"] = (version + 1).into();
}

/// What a client trusts: versions of root, timestamp, snapshot and targets.
pub(crate) fn trusted(view: &View) -> [u64; 4] {
    let chain = view.chain();
    let stamp = view.stamp();
    [chain.root_version(), stamp.version, stamp.snapshot, chain.listed()["targets"]]
}

pub(crate) fn good(client: &User) -> [u64; 4] {
    trusted(&client.refresh().expect("refreshed"))
}

pub(crate) fn refused(client: &User) -> String {
    client.refresh().map(|view| trusted(&view)).expect_err("refused").replace("of the registry `community` ", "")
}
