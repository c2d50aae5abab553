//! A cluster whose workers have stores of their own, and the jobs that leave and take objects on them.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use crate::cluster::{Bench, Cluster};
use crate::row::BoxError;

/// Slots of each worker, and items of what only it has.
const SLOTS: u32 = 4;

/// The cluster. Its workers are counted from 0.
pub(super) struct Rig {
    pub(super) cluster: Cluster,
    jobs: u32,
}

impl Rig {
    /// Starts it with so many workers. Each has a resource of its own, `at0` and so on, and all but the first have a
    /// `reader`.
    ///
    /// # Errors
    /// When one does not start.
    pub(super) fn start(bench: &Bench, workers: u32) -> Result<Rig, BoxError> {
        let mut cluster = bench.cluster(&[], 0, &[])?;
        for worker in 0..workers {
            let store = cluster.home().join(format!("store-{worker}")).display().to_string();
            let (slots, own) = (SLOTS.to_string(), format!("at{worker}=sum({SLOTS})"));
            let mut options = vec!["--cpus", &slots, "--detect-resources", "none", "--object-store", &store];
            options.extend(["--resource", &own]);
            if worker > 0 {
                options.extend(["--resource", "reader=[r]"]);
            }
            cluster.start("worker", &options)?;
        }
        cluster.run(&["worker", "wait", &workers.to_string()])?;
        Ok(Rig { cluster, jobs: 0 })
    }

    /// Submits an array of tasks from 0 to `count`, each of which takes one of a resource, and waits for it. Its number, and
    /// how long that took.
    ///
    /// # Errors
    /// When a task fails.
    pub(super) fn job(
        &mut self,
        count: u32,
        resource: &str,
        options: &[String],
        program: &[&str],
    ) -> Result<(u32, Duration), BoxError> {
        let (ids, resource) = (format!("0-{}", count - 1), format!("{resource}=1"));
        let mut words = vec!["submit", "--wait", "--array", &ids, "--resource", &resource];
        words.extend(["--stdout=none", "--stderr=none"]);
        words.extend(options.iter().map(String::as_str));
        words.push("--");
        words.extend(program);
        let took = self.cluster.run(&words)?;
        self.jobs += 1;
        Ok((self.jobs, took))
    }

    /// One task on the first worker leaves a file of the private directory as the object `file`.
    ///
    /// # Errors
    /// When it fails.
    pub(super) fn leave(&mut self, file: &str) -> Result<(u32, Duration), BoxError> {
        self.job(1, "at0", &[format!("--output-object=file={file}")], &["true"])
    }

    /// Tasks with a resource take what was left so, to places named after them; how long that takes.
    ///
    /// # Errors
    /// When it fails.
    pub(super) fn take(
        &mut self,
        count: u32,
        resource: &str,
        from: u32,
        place: &str,
    ) -> Result<Duration, BoxError> {
        let option = format!("--input-object=file={from}@0:file->in/{place}-%{{TASK_ID}}");
        Ok(self.job(count, resource, &[option], &["true"])?.1)
    }

    /// Tasks with a resource take what was left so in place; how long that takes.
    ///
    /// # Errors
    /// When it fails.
    pub(super) fn broadcast(&mut self, count: u32, resource: &str, from: u32) -> Result<Duration, BoxError> {
        Ok(self.job(count, resource, &[format!("--broadcast={from}@0:file")], &["true"])?.1)
    }

    /// What was left and taken goes, and its pages with it, lest their way to the disk is measured next.
    ///
    /// # Errors
    /// When it is still needed.
    pub(super) fn forget(&mut self, jobs: &[u32]) -> Result<(), BoxError> {
        for job in jobs {
            self.cluster.run(&["object", "drop", &format!("{job}@0:file")])?;
        }
        let places = self.cluster.home().join("in");
        if places.exists() {
            fs::remove_dir_all(places)?;
        }
        Ok(())
    }

    /// Makes a file of so many bytes in the private directory.
    ///
    /// # Errors
    /// When the disk is full.
    pub(super) fn file(&self, name: &str, size: u64) -> Result<PathBuf, BoxError> {
        let path = self.cluster.home().join(name);
        let mut file = File::create(&path)?;
        let mut block = [0_u8; 4096];
        for number in 0..size.div_ceil(block.len() as u64) {
            block[..8].copy_from_slice(&number.to_le_bytes());
            let left = size - number * block.len() as u64;
            file.write_all(&block[..left.min(block.len() as u64) as usize])?;
        }
        file.sync_all()?;
        Ok(path)
    }
}
