//! Workers for parallel work, started when needed and replaced when they die.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use super::{Environment, Error, Worker, WorkerOptions};

/// A fixed number of places for workers; a place is filled when somebody asks for it.
pub struct WorkerPool {
    environment: Environment,
    options: WorkerOptions,
    places: Mutex<Places>,
    freed: Condvar,
}

struct Places {
    idle: Vec<Worker>,
    /// workers in use or being started
    busy: usize,
    limit: usize,
}

impl WorkerPool {
    /// A pool without any process yet.
    pub fn new(environment: Environment, options: WorkerOptions) -> Self {
        let places = Places { idle: Vec::new(), busy: 0, limit: 1 };
        Self { environment, options, places: Mutex::new(places), freed: Condvar::new() }
    }

    /// How many workers may live at the same time from now on; at least one.
    pub fn set_limit(&self, limit: usize) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.limit = limit.max(1);
        self.freed.notify_all();
    }

    /// Starts a worker ahead of time, so that importing torch overlaps with other work.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn warm(&self) -> Result<(), Error> {
        self.with(|_| Ok(()))
    }

    /// Lends a worker to `work`; waits for a free place. A worker that died is not lent again.
    ///
    /// # Errors
    /// When no worker can be started, and whatever `work` gives.
    pub fn with<T>(&self, work: impl FnOnce(&mut Worker) -> Result<T, Error>) -> Result<T, Error> {
        let mut lent = Lent { pool: self, worker: None };
        let idle = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                if let Some(worker) = places.idle.pop() {
                    places.busy += 1;
                    break Some(worker);
                }
                if places.busy < places.limit {
                    places.busy += 1;
                    break None;
                }
                places = self.freed.wait(places).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let worker = match idle {
            Some(worker) if worker.is_alive() => worker,
            _ => Worker::start(&self.environment, &self.options)?,
        };
        work(lent.worker.insert(worker))
    }

    /// The environment that workers run in.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Runs `work` on every item, at most as many at a time as there are places, and keeps the order.
    pub fn each<I: Send, T: Send>(
        &self,
        items: Vec<I>,
        work: impl Fn(&mut Worker, I) -> Result<T, Error> + Sync,
    ) -> Vec<Result<T, Error>> {
        let work = &work;
        thread::scope(|scope| {
            let handles: Vec<_> =
                items.into_iter().map(|item| scope.spawn(move || self.with(|worker| work(worker, item)))).collect();
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap_or(Err(Error::Ended { method: "parallel work" })))
                .collect()
        })
    }
}

/// Gives the place back also when the work panics.
struct Lent<'a> {
    pool: &'a WorkerPool,
    worker: Option<Worker>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut places = self.pool.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.busy -= 1;
        if let Some(worker) = self.worker.take()
            && worker.is_alive()
        {
            places.idle.push(worker);
        }
        drop(places);
        self.pool.freed.notify_one();
    }
}
