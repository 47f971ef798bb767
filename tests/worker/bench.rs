//! A worker that the tests share, and folders of their own.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use delegate_doctor::tensor::Tensor;
use delegate_doctor::torch::protocol::{Exported, ModelSource, TensorFile};
use delegate_doctor::torch::{Error, Worker, WorkerOptions};

/// Generous: the machine may be busy with other tests.
pub const LIMIT: Duration = Duration::from_secs(600);

/// One process for all tests that leave it alive: importing torch takes seconds.
pub fn shared() -> MutexGuard<'static, Worker> {
    static SHARED: OnceLock<Mutex<Worker>> = OnceLock::new();
    SHARED.get_or_init(|| Mutex::new(start(|_| {}))).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker of one's own.
pub fn start(change: impl FnOnce(&mut WorkerOptions)) -> Worker {
    let mut options = WorkerOptions::new(&std::env::temp_dir().join("delegate-doctor-tests"));
    options.start_limit = LIMIT;
    change(&mut options);
    Worker::start(&dd_tests::python(), &options).expect("worker starts")
}

/// A model file among the fixtures.
pub fn model(name: &str) -> ModelSource {
    let path = dd_tests::workspace().join("tests/fixtures/models").join(format!("{name}.py"));
    assert!(path.is_file(), "{}", path.display());
    ModelSource::File { path }
}

/// A folder for one test.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("temporary folder"));
        fs_err::create_dir(place.inputs()).expect("folder");
        place
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn inputs(&self) -> PathBuf {
        self.file("inputs")
    }

    /// A new folder inside.
    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = self.file(name);
        fs_err::create_dir(&folder).expect("folder");
        folder
    }

    pub fn export(&self, worker: &mut Worker, source: &ModelSource) -> Result<Exported, Error> {
        worker.export(source, &self.file("model.pt2"), &self.inputs(), 7, LIMIT)
    }

    /// Exports a fixture that is known to be good.
    pub fn exported(&self, worker: &mut Worker, name: &str) -> Exported {
        self.export(worker, &model(name)).expect("export")
    }

    /// Names of the files that are there.
    pub fn names(&self) -> Vec<String> {
        names(self.0.path())
    }
}

pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs_err::read_dir(folder)
        .expect("list")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

pub fn numbers(file: &TensorFile) -> Vec<f64> {
    Tensor::read(file).expect("tensor").to_f64().expect("numbers")
}
