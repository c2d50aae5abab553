//! Which faults exist in a run and how strong they are: drawn from the seed, most runs have some.

use std::time::Duration;

use hq_core::server::Keep;

use crate::rng::Rng;

/// The faults of one run. Counts are per run.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Kills of the server's process.
    pub server_kills: u64,
    /// Further kills, in the middle of a commit.
    pub commit_kills: u64,
    /// Of all those, in per mille, the whole machine goes down: what was not synced is gone.
    pub machine_per_mille: u64,
    /// Kills of workers.
    pub worker_kills: u64,
    /// Workers stopped for longer than their heartbeat.
    pub freezes: u64,
    /// Connections cut.
    pub cuts: u64,
    /// Connections that fall silent in one direction.
    pub mutes: u64,
    /// Workers asked to drain or to end.
    pub stops: u64,
    /// Times in which the disk of the journal is full.
    pub full_disks: u64,
    /// Which ended jobs the server keeps.
    pub keep_jobs: Keep,
    /// Longest delay of a message, µs.
    pub delay_max: u64,
    /// Longest time that a write or a sync takes, µs.
    pub disk_max: u64,
    /// Tasks that fail, in per mille.
    pub failing_per_mille: u64,
    /// Tasks that ignore SIGTERM, in per mille.
    pub stubborn_per_mille: u64,
    /// How long tasks run, µs: from, to. Else anything up to half a minute.
    pub runs_us: Option<(u64, u64)>,
    /// Tasks that take long are started a second time: in each third seed.
    pub speculates: bool,
    /// Tasks on several nodes are submitted: in two fifths of the seeds.
    pub has_multi_node: bool,
    /// Tasks ask for resources in groups, and for time: in three of eleven seeds.
    pub has_groups: bool,
    /// Tasks and workers have more resources than CPUs and memory: in a third of the seeds.
    pub has_variety: bool,
    /// Some tasks are functions: in one of eight seeds.
    pub has_functions: bool,
    /// Some tasks print into streams, and their ends come after what they had is free: in a quarter of the seeds.
    pub has_streams: bool,
    /// Some tasks are to have ended soon after their submit, else they do not start: in a fifth of the seeds.
    pub has_last_moments: bool,
    /// Somebody is told of jobs: in one of seven seeds.
    pub has_notices: bool,
    /// Open jobs are closed when nobody waits for their ends: in a sixth of the seeds.
    pub has_lingering: bool,
    /// Some tasks are pulled, and there are relays: in one of eight seeds.
    pub has_pulled: bool,
    /// Some jobs are fed by generators and drained by reducers: in one of eight seeds.
    pub has_feeds: bool,
    /// Some tasks leave objects, and others take these: in a quarter of the seeds.
    pub has_objects: bool,
    /// Stored objects that are lost, in a run that has objects.
    pub losses: u64,
    /// Starts that the node refuses.
    pub not_started_per_mille: u64,
}

impl Faults {
    /// Adds what it takes to hurt a server that does not wait for its slow disk.
    pub fn hurry_commits(&mut self) {
        self.commit_kills += 6;
        self.disk_max = 300_000;
    }

    /// Draws the faults of a run.
    pub fn draw(rng: &mut Rng) -> Faults {
        let some = |rng: &mut Rng, max: u64| if rng.chance(500) { rng.between(1, max) } else { 0 };
        Faults {
            server_kills: some(rng, 4),
            commit_kills: some(rng, 3),
            machine_per_mille: if rng.chance(300) { 500 } else { 0 },
            worker_kills: some(rng, 4),
            freezes: some(rng, 3),
            cuts: some(rng, 6),
            mutes: some(rng, 3),
            stops: some(rng, 3),
            full_disks: some(rng, 3),
            keep_jobs: if rng.chance(300) {
                Keep {
                    jobs: Some(rng.between(0, 5) as usize),
                    time: Some(Duration::from_secs(rng.between(1, 60))),
                }
            } else {
                Keep::default()
            },
            delay_max: [100, 2_000, 500_000][rng.between(0, 2) as usize],
            disk_max: [50, 5_000, 300_000][rng.between(0, 2) as usize],
            failing_per_mille: [0, 50, 500][rng.between(0, 2) as usize],
            stubborn_per_mille: [0, 100][rng.between(0, 1) as usize],
            runs_us: None,
            speculates: false,
            has_multi_node: false,
            has_variety: false,
            has_functions: false,
            has_streams: false,
            has_last_moments: false,
            has_notices: false,
            has_lingering: false,
            has_pulled: false,
            has_feeds: false,
            has_groups: false,
            has_objects: false,
            losses: 0,
            not_started_per_mille: 0,
        }
    }
}
