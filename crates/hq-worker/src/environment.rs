//! The environment variables that tasks get beside those of the worker.

mod gpus;
mod ranks;

use std::io::Write;

use hq_core::worker::{Grant, GrantedResource, Start};
use hq_core::worker_messages::Template;
use hq_model::request::CPUS;
use hq_model::task::Pin;
use hq_model::{ByteString, PoolKind, TaskSpec, WorkerResources};

use crate::mpirun;
use crate::nodes;
use crate::notify::AccessKeys;
use crate::prepare::{Text, Values, put_number};
use crate::ranks::AskStart;
use crate::supervise::has_node_files;

use gpus::GpuVariables;
use ranks::append_numbers;

/// Where programs are looked for when nobody says.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// What all tasks of a worker see.
#[derive(Debug)]
pub(crate) struct Node {
    /// `KEY=VALUE` of the environment that tasks start from.
    pub(crate) base: Vec<ByteString>,
    /// Value of `HQ_SERVER_DIR`, for tasks that ask the server for more; with `None` they keep the worker's.
    pub(crate) server_dir: Option<ByteString>,
    /// There is no server that tasks could ask.
    is_of_run: bool,
    /// Value of `HQ_PULL_SOCKET`, likewise.
    pub(crate) pull_socket: Option<ByteString>,
    /// Where objects are stored, if they are.
    pub(crate) store_dir: Option<ByteString>,
    /// Names the server; known once it has answered.
    pub(crate) server_uid: String,
    /// Path of the `hq` binary.
    pub(crate) hq: ByteString,
    /// The worker's directory.
    pub(crate) work_dir: ByteString,
    /// Makes the keys by which tasks speak to the worker.
    pub(crate) keys: AccessKeys,
    all_of_base: Vec<u32>,
    pools: Vec<Pool>,
}

/// Where temporary files go, and what a node is called.
const NODE_VARIABLES: [&[u8]; 5] =
    [b"TMPDIR", b"HOSTNAME", b"SLURMD_NODENAME", b"SLURM_NODEID", b"PBS_NODENUM"];

#[derive(Debug)]
struct Pool {
    name: String,
    is_indexed: bool,
    labels: Vec<ByteString>,
    /// The labels as CPU numbers, where they are.
    cpus: Vec<Option<u32>>,
}

impl Node {
    pub(crate) fn new(
        base: Vec<ByteString>,
        hq: ByteString,
        work_dir: ByteString,
        keys: AccessKeys,
        resources: &WorkerResources,
    ) -> Node {
        let pools = resources.pools.iter().map(|pool| {
            let labels: Vec<String> = pool.kind.labels().into_iter().flatten().collect();
            Pool {
                name: pool.name.clone(),
                is_indexed: !matches!(pool.kind, PoolKind::Sum(_)),
                cpus: if pool.name == CPUS {
                    labels.iter().map(|l| l.parse().ok()).collect()
                } else {
                    Vec::new()
                },
                labels: labels.into_iter().map(String::into_bytes).collect(),
            }
        });
        let all_of_base = (0..base.len() as u32).collect();
        Node {
            base,
            server_dir: None,
            is_of_run: false,
            store_dir: None,
            pull_socket: None,
            server_uid: String::new(),
            hq,
            work_dir,
            keys,
            all_of_base,
            pools: pools.collect(),
        }
    }

    /// Tasks have no server to ask, and `HQ_RUN` says so: one that was named to this process has other jobs.
    pub(crate) fn has_no_server(&mut self) {
        self.is_of_run = true;
    }

    /// The search path of the worker's environment.
    pub(crate) fn base_path(&self) -> &[u8] {
        self.base.iter().find_map(|v| v.strip_prefix(b"PATH=")).unwrap_or(DEFAULT_PATH)
    }

    /// The value of a variable of that environment.
    fn base_value(&self, name: &str) -> Option<&[u8]> {
        self.base.iter().find_map(|v| v.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }

    /// True when the worker offers a pool of this name.
    fn offers(&self, name: &str) -> bool {
        self.pools.iter().any(|pool| pool.name == name)
    }

    /// Appends the path of a task's private directory.
    pub(crate) fn append_task_dir(&self, start: &Start, out: &mut ByteString) {
        out.extend_from_slice(&self.work_dir);
        let (task, instance) = (start.task, start.instance);
        // Writing to a vector cannot fail.
        let _ = write!(out, "/task-{}-{}-{instance}", task.job, task.task);
    }

    /// Appends the path of a task's directory of broadcasts: in the store, where files need no copy.
    pub(crate) fn append_broadcast_dir(&self, start: &Start, out: &mut ByteString) {
        out.extend_from_slice(self.store_dir.as_deref().unwrap_or(&self.work_dir));
        let (task, instance) = (start.task, start.instance);
        // Writing to a vector cannot fail.
        let _ = write!(out, "/broadcast-{}-{}-{instance}", task.job, task.task);
    }

    /// Appends the path of the directory with the lists of a task's nodes.
    pub(crate) fn append_nodes_dir(&self, start: &Start, out: &mut ByteString) {
        out.extend_from_slice(&self.work_dir);
        let (task, instance) = (start.task, start.instance);
        // Writing to a vector cannot fail.
        let _ = write!(out, "/nodes-{}-{}-{instance}", task.job, task.task);
    }

    /// Appends the path of a file for what a task prints that has a result in it and else goes nowhere.
    pub(crate) fn append_result_file(&self, start: &Start, out: &mut ByteString) {
        out.extend_from_slice(&self.work_dir);
        let (task, instance) = (start.task, start.instance);
        // Writing to a vector cannot fail.
        let _ = write!(out, "/result-{}-{}-{instance}", task.job, task.task);
    }

    /// The positions of all variables of the base environment.
    pub(crate) fn all_of_base(&self) -> &[u32] {
        &self.all_of_base
    }

    fn append_node_files(&self, start: &Start, out: &mut ByteString) {
        for (name, file) in [(&b"HQ_NODE_FILE="[..], nodes::NODE_FILE), (b"HQ_HOST_FILE=", nodes::HOST_FILE)]
        {
            out.extend_from_slice(name);
            self.append_nodes_dir(start, out);
            out.push(b'/');
            out.extend_from_slice(file.as_bytes());
            out.push(0);
        }
        // Writing to a vector cannot fail.
        let _ = write!(out, "HQ_NUM_NODES={}\0", start.nodes.len());
    }

    /// Appends the CPUs given to a task.
    ///
    /// # Errors
    /// The text for people when they have names that are not CPU numbers.
    pub(crate) fn cpus_of(&self, start: &Start, out: &mut Vec<u32>) -> Result<(), String> {
        self.cpus_in(&start.grant, out)
    }

    /// Appends the CPUs of a grant.
    ///
    /// # Errors
    /// The text for people when they have names that are not CPU numbers.
    pub(crate) fn cpus_in(&self, grant: &Grant, out: &mut Vec<u32>) -> Result<(), String> {
        for resource in &grant.resources {
            let Some(pool) = self.pools.get(resource.pool as usize).filter(|pool| pool.name == CPUS) else {
                continue;
            };
            for (index, _) in &resource.indices {
                match pool.cpus.get(*index as usize) {
                    Some(Some(cpu)) if *cpu < 1 << 16 => out.push(*cpu),
                    _ => {
                        return Err(
                            "the task cannot be bound to CPUs: this worker names its CPUs with labels that \
                             are not CPU numbers"
                                .to_owned(),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// How much of a resource a task got, where it asked for some.
    pub(crate) fn amount_of(&self, start: &Start, name: &str) -> Option<hq_model::Amount> {
        let of_pool = |pool: u32| self.pools.get(pool as usize).is_some_and(|pool| pool.name == name);
        start.grant.resources.iter().find(|resource| of_pool(resource.pool)).map(|r| r.amount)
    }

    fn append_labels(&self, resource: &GrantedResource, out: &mut ByteString) {
        let Some(pool) = self.pools.get(resource.pool as usize) else { return };
        for (i, (index, _)) in resource.indices.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(pool.labels.get(*index as usize).map_or(&b"?"[..], Vec::as_slice));
        }
    }
}

/// The variables of one variant of a template.
#[derive(Debug)]
pub(crate) struct VariantEnvironment {
    /// `KEY=VALUE`, NUL-terminated: the same for all tasks.
    same: ByteString,
    /// Variables of the user with placeholders in them.
    varying: Vec<(ByteString, Text)>,
    /// Positions in the base environment of variables that tasks of this variant get from elsewhere, ascending.
    pub(crate) dropped: Vec<u32>,
    resources: Vec<ResourceVariables>,
    sets_omp_threads: bool,
    sets_omp_places: bool,
    gpus: GpuVariables,
}

#[derive(Debug)]
struct ResourceVariables {
    is_cpus: bool,
    /// `HQ_RESOURCE_VALUES_<name>=`
    values: ByteString,
}

impl VariantEnvironment {
    pub(crate) fn new(spec: &TaskSpec, template: &Template, variant: usize, node: &Node) -> Self {
        let user: Vec<&(ByteString, ByteString)> = spec
            .env
            .iter()
            .enumerate()
            .filter(|(i, (name, _))| !spec.env[i + 1..].iter().any(|(later, _)| later == name))
            .map(|(_, variable)| variable)
            .collect();
        let is_free = |name: &str| !user.iter().any(|(n, _)| n == name.as_bytes());
        let request = spec.requests.get(variant);
        let resources = request.map_or(&[][..], |r| &r.resources);
        let asks = |names: &[&str]| resources.iter().any(|r| names.contains(&r.name.as_str()));
        let is_pinned_by_omp = spec.pin == Pin::Omp && asks(&[CPUS]);

        let mut block = Block::default();
        block.set("HQ_JOB_ID", template.id.job.to_string().as_bytes());
        if spec.priority != 0 {
            block.set("HQ_PRIORITY", spec.priority.to_string().as_bytes());
        }
        block.set("HQ_SUBMIT_DIR", &template.submit_dir);
        block.set("HQ", &node.hq);
        match spec.pin {
            Pin::None => {}
            Pin::Taskset => block.set("HQ_PIN", b"taskset"),
            Pin::Omp => block.set("HQ_PIN", b"omp"),
        }
        if let Some(request) = request.filter(|request| request.nodes > 0) {
            block.set("HQ_MPIRUN", &mpirun::for_shell(spec, &node.hq));
            if request.ranks > 0 {
                block.set("HQ_RANKS_PER_NODE", request.ranks.to_string().as_bytes());
                if let Some(cpus) = resources.iter().find(|resource| resource.name == CPUS) {
                    block.set("HQ_CPUS_PER_RANK", cpus.amount.to_string().as_bytes());
                }
            }
        }
        for resource in resources {
            let name = format!("HQ_RESOURCE_REQUEST_{}", variable_name(&resource.name));
            block.set(&name, resource.amount.to_string().as_bytes());
        }
        if spec.requests.len() > 1 {
            block.set("HQ_RESOURCE_VARIANT", variant.to_string().as_bytes());
        }
        if is_pinned_by_omp && is_free("OMP_PROC_BIND") {
            block.set("OMP_PROC_BIND", b"close");
        }
        let is_whole = request.is_some_and(|request| request.nodes > 0);
        let asked: Vec<&str> = resources.iter().map(|r| r.name.as_str()).collect();
        let gpus = GpuVariables::new(&asked, is_whole, &is_free, node, &mut block);
        for (name, value) in [("HQ_SERVER_DIR", &node.server_dir), ("HQ_PULL_SOCKET", &node.pull_socket)] {
            if let Some(value) = value
                && is_free(name)
            {
                block.set_bytes(name.as_bytes(), value);
            }
        }
        if node.is_of_run && is_free("HQ_RUN") {
            block.set("HQ_RUN", b"1");
        }
        let is_program = spec.body.function().is_none();
        let sets_task_dir =
            spec.task_dir || is_program && spec.requests.iter().any(|request| request.nodes > 0);
        let sets_omp_threads = asks(&[CPUS]) && is_free("OMP_NUM_THREADS");
        let sets_omp_places = is_pinned_by_omp && is_free("OMP_PLACES");
        for (is_set, name) in [
            (true, "HQ_TASK_ID"),
            (true, "HQ_INSTANCE_ID"),
            (true, "HQ_ENTRY"),
            (true, "HQ_ACCESS_KEY"),
            (true, "HQ_CPUS"),
            (true, "HQ_NODE_FILE"),
            (true, "HQ_HOST_FILE"),
            (true, "HQ_NUM_NODES"),
            (true, "HQ_RANK"),
            (true, "HQ_RANKS"),
            (true, "HQ_NODE_RANK"),
            (true, "HQ_LOCAL_RANK"),
            (spec.has_broadcasts(), "HQ_BROADCAST_DIR"),
            (sets_task_dir, "HQ_TASK_DIR"),
            (sets_task_dir, "HQ_ERROR_FILENAME"),
            (sets_omp_threads, "OMP_NUM_THREADS"),
            (sets_omp_places, "OMP_PLACES"),
        ] {
            if is_set {
                block.names.push(name.into());
            }
        }
        let mut varying = Vec::new();
        for (name, value) in &user {
            // What the task runs in is for the worker to say; everything else is for the user.
            if block.names.contains(name) {
                continue;
            }
            match Text::new(value) {
                Text::Plain(value) => block.set_bytes(name, &value),
                text => {
                    block.names.push(name.clone());
                    varying.push((name.clone(), text));
                }
            }
        }
        let name_of =
            |variable: &ByteString| variable.iter().position(|b| *b == b'=').unwrap_or(variable.len());
        let dropped = node.base.iter().enumerate().filter(|(_, variable)| {
            let name = &variable[..name_of(variable)];
            let is_of_another = node.is_of_run && name == b"HQ_SERVER_DIR";
            is_of_another || block.names.iter().any(|n| n == name)
        });
        VariantEnvironment {
            dropped: dropped.map(|(i, _)| i as u32).collect(),
            same: block.bytes,
            varying,
            resources: resources
                .iter()
                .map(|r| ResourceVariables {
                    is_cpus: r.name == CPUS,
                    values: format!("HQ_RESOURCE_VALUES_{}=", variable_name(&r.name)).into_bytes(),
                })
                .collect(),
            sets_omp_threads,
            sets_omp_places,
            gpus,
        }
    }

    /// Appends all variables of one task, NUL-terminated.
    pub(crate) fn append(&self, out: &mut ByteString, values: &Values<'_>, node: &Node, task_dir: &[u8]) {
        let start = values.start;
        out.extend_from_slice(&self.same);
        for (name, text) in &self.varying {
            out.extend_from_slice(name);
            out.push(b'=');
            text.append(out, values);
            out.push(0);
        }
        out.extend_from_slice(b"HQ_TASK_ID=");
        put_number(out, start.task.task.0);
        out.extend_from_slice(b"\0HQ_INSTANCE_ID=");
        put_number(out, start.instance.0);
        out.extend_from_slice(b"\0HQ_ACCESS_KEY=");
        node.keys.append(start.task, start.instance, out);
        out.push(0);
        if has_node_files(start) && !start.is_part {
            node.append_node_files(start, out);
        }
        for (key, text) in start.services.iter() {
            let name = variable_name(&String::from_utf8_lossy(key));
            for part in [b"HQ_SERVICE_", name.as_bytes(), b"=", text, b"\0"] {
                out.extend_from_slice(part);
            }
        }
        if !task_dir.is_empty() {
            for (name, file) in [(&b"HQ_TASK_DIR="[..], &b""[..]), (b"HQ_ERROR_FILENAME=", b"/hq-error")] {
                for part in [name, task_dir, file, b"\0"] {
                    out.extend_from_slice(part);
                }
            }
        }
        if !values.broadcast_dir.is_empty() {
            for part in [&b"HQ_BROADCAST_DIR="[..], values.broadcast_dir, b"\0"] {
                out.extend_from_slice(part);
            }
        }
        for (resource, variables) in start.grant.resources.iter().zip(&self.resources) {
            self.append_resource(resource, variables, node, out);
        }
        self.gpus.append_hidden(&start.grant, node, out);
    }

    /// The variables that a process of a task on several nodes gets from the worker that starts it.
    pub(crate) fn process_variables(&self, start: &Start, asked: &AskStart, node: &Node) -> ByteString {
        let mut out = ByteString::new();
        for (name, value) in [(&b"HQ="[..], node.hq.as_slice()), (b"HQ_ACCESS_KEY=", b"")] {
            out.extend_from_slice(name);
            out.extend_from_slice(value);
            if value.is_empty() {
                node.keys.append(start.task, start.instance, &mut out);
            }
            out.push(0);
        }
        // What each node says for itself, unless the user does.
        let is_users = |name: &[u8]| start.template.spec.env.iter().any(|(theirs, _)| theirs == name);
        for variable in &node.base {
            let name = variable.split(|byte| *byte == b'=').next().unwrap_or_default();
            if NODE_VARIABLES.contains(&name) && !is_users(name) {
                out.extend_from_slice(variable);
                out.push(0);
            }
        }
        let Some(rank) = asked.start.rank else { return out };
        let says_threads = asked.start.env.iter().any(|variable| variable.starts_with(b"OMP_NUM_THREADS="));
        append_numbers(asked.node, rank, &mut out);
        self.append_given(start, rank.local, says_threads, node, &mut out);
        out
    }

    fn append_resource(
        &self,
        resource: &GrantedResource,
        variables: &ResourceVariables,
        node: &Node,
        out: &mut ByteString,
    ) {
        let Some(pool) = node.pools.get(resource.pool as usize).filter(|pool| pool.is_indexed) else {
            return;
        };
        let mut labels = |name: &[u8], after: &[u8]| {
            out.extend_from_slice(name);
            node.append_labels(resource, out);
            out.extend_from_slice(after);
        };
        labels(&variables.values, b"\0");
        if let Some(name) = self.gpus.variable(&pool.name) {
            labels(name, b"\0");
        }
        if variables.is_cpus {
            labels(b"HQ_CPUS=", b"\0");
            if self.sets_omp_places {
                labels(b"OMP_PLACES={", b"}\0");
            }
            if self.sets_omp_threads && resource.amount.fraction() == 0 {
                // Writing to a vector cannot fail.
                let _ = write!(out, "OMP_NUM_THREADS={}\0", resource.amount.wholes());
            }
        }
    }
}

#[derive(Default)]
struct Block {
    bytes: ByteString,
    names: Vec<ByteString>,
}

impl Block {
    fn set(&mut self, name: &str, value: &[u8]) {
        self.set_bytes(name.as_bytes(), value);
    }

    fn set_bytes(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, b"=", value, b"\0"] {
            self.bytes.extend_from_slice(part);
        }
        self.names.push(name.to_vec());
    }
}

/// A resource's name as part of a variable's name.
fn variable_name(resource: &str) -> String {
    resource.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use hq_core::worker::Grant;
    use hq_core::worker_messages::TemplateId;
    use hq_model::request::GPUS;
    use hq_model::{
        Amount, AmountRequest, Body, Instance, JobId, Policy, Request, ResourcePool, ResourceRequest, TaskId,
        TaskRef,
    };

    use super::*;
    use crate::discovery::{AMD, NVIDIA};

    const BASE: [&str; 6] = [
        "PATH=/bin",
        "CUDA_VISIBLE_DEVICES=4,5",
        "ROCR_VISIBLE_DEVICES=4,5",
        "HIP_VISIBLE_DEVICES=0",
        "OMP_NUM_THREADS=64",
        "HOME=/h",
    ];

    /// The variables that a task gets when it asks for one of `pool` and got the first of it.
    fn variables(asked: &str, pool: u32, user: &[(&str, &str)]) -> Vec<String> {
        variables_on(&[CPUS, AMD, NVIDIA], asked, pool, user)
    }

    fn variables_on(offered: &[&str], asked: &str, pool: u32, user: &[(&str, &str)]) -> Vec<String> {
        variables_from(&BASE, offered, asked, pool, user)
    }

    pub(super) fn variables_from(
        base: &[&str],
        offered: &[&str],
        asked: &str,
        pool: u32,
        user: &[(&str, &str)],
    ) -> Vec<String> {
        let labels = |name: &str| if name == CPUS { ["7", "8"] } else { ["4", "5"] };
        let indexed = |name: &&str| ResourcePool {
            name: (*name).into(),
            kind: PoolKind::Groups(vec![labels(name).map(str::to_owned).to_vec()]),
        };
        let pools = offered.iter().map(indexed).collect();
        let resources = WorkerResources { pools, coupling: Vec::new() };
        let keys = AccessKeys::new(Path::new("/s")).expect("randomness");
        let base = base.iter().map(|v| v.as_bytes().to_vec()).collect();
        let node = Node::new(base, b"/bin/hq".into(), b"/w".into(), keys, &resources);
        let one = AmountRequest::Some(Amount::whole(1), Policy::Compact);
        let resources = vec![ResourceRequest { name: asked.into(), amount: one }];
        let spec = TaskSpec {
            body: Body::program(["true"]),
            env: user.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec())).collect(),
            requests: vec![Request { resources, ..Request::default() }],
            ..TaskSpec::default()
        };
        let template = Arc::new(Template {
            id: TemplateId { job: JobId(1), submit: 0 },
            spec: Arc::new(spec),
            submit_dir: b"/d".into(),
            submitted: Default::default(),
            has_siblings: false,
        });
        let start = Start {
            task: TaskRef::new(JobId(1), TaskId(2)),
            instance: Instance(0),
            template: template.clone(),
            services: Default::default(),
            entry: None,
            inputs: Vec::new(),
            objects: Vec::new(),
            variant: 0,
            grant: Grant {
                resources: vec![GrantedResource {
                    pool,
                    amount: Amount::whole(1),
                    indices: vec![(0, 10_000)],
                }],
            },
            ranks: Vec::new(),
            nodes: Vec::new(),
            runs_in: None,
            is_part: false,
        };
        let variant = VariantEnvironment::new(&template.spec, &template, 0, &node);
        let mut block = ByteString::new();
        variant.append(
            &mut block,
            &Values { start: &start, server_uid: "u", cwd: b"/d", broadcast_dir: b"" },
            &node,
            b"",
        );
        let base = node.base.iter().enumerate().filter(|(i, _)| !variant.dropped.contains(&(*i as u32)));
        let all = base.map(|(_, v)| v.as_slice()).chain(crate::prepare::strings(&block));
        let mut all: Vec<String> = all.map(|v| String::from_utf8_lossy(v).into_owned()).collect();
        all.retain(|v| !v.starts_with("HQ"));
        all.sort();
        all
    }

    fn check(asked: &str, pool: u32, user: &[(&str, &str)], expected: &[&str]) {
        assert_eq!(variables(asked, pool, user), expected, "{asked}");
    }

    #[test]
    fn a_task_sees_the_devices_it_was_given_and_no_others() {
        check(
            CPUS,
            0,
            &[],
            &[
                "CUDA_VISIBLE_DEVICES=",
                "HIP_VISIBLE_DEVICES=-1",
                "HOME=/h",
                "OMP_NUM_THREADS=1",
                "PATH=/bin",
                "ROCR_VISIBLE_DEVICES=",
            ],
        );
        let nvidia = [
            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=4",
            "HIP_VISIBLE_DEVICES=-1",
            "HOME=/h",
            "OMP_NUM_THREADS=64",
            "PATH=/bin",
            "ROCR_VISIBLE_DEVICES=",
        ];
        check(NVIDIA, 2, &[], &nvidia);
        // Those of the worker would narrow the choice again.
        check(AMD, 1, &[], &["HOME=/h", "OMP_NUM_THREADS=64", "PATH=/bin", "ROCR_VISIBLE_DEVICES=4"]);
        check(
            GPUS,
            1,
            &[],
            &[
                "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                "HOME=/h",
                "OMP_NUM_THREADS=64",
                "PATH=/bin",
                "ROCR_VISIBLE_DEVICES=4",
            ],
        );
    }

    #[test]
    fn variables_of_another_vendor_hide_devices_from_who_asks_for_none() {
        let on = |asked, pool| variables_on(&[CPUS, NVIDIA], asked, pool, &[]).join(" ");
        assert!(
            on(CPUS, 0).contains("ROCR_VISIBLE_DEVICES= ") || on(CPUS, 0).ends_with("ROCR_VISIBLE_DEVICES=")
        );
        assert!(on(NVIDIA, 1).contains("CUDA_VISIBLE_DEVICES=4"));
    }

    #[test]
    fn what_the_user_sets_stays() {
        let user = [("OMP_NUM_THREADS", "3"), ("PATH", "/mine"), ("HQ_JOB_ID", "9")];
        check(
            CPUS,
            0,
            &user,
            &[
                "CUDA_VISIBLE_DEVICES=",
                "HIP_VISIBLE_DEVICES=-1",
                "HOME=/h",
                "OMP_NUM_THREADS=3",
                "PATH=/mine",
                "ROCR_VISIBLE_DEVICES=",
            ],
        );
    }

    #[test]
    fn who_asks_for_gpus_sees_those_that_it_was_given_whatever_the_user_says() {
        let cuda = variables(NVIDIA, 2, &[("CUDA_VISIBLE_DEVICES", "0")]);
        assert!(cuda.contains(&"CUDA_VISIBLE_DEVICES=4".to_owned()), "{cuda:?}");
        assert!(!cuda.contains(&"CUDA_VISIBLE_DEVICES=0".to_owned()), "{cuda:?}");
        let rocr = variables(AMD, 1, &[("ROCR_VISIBLE_DEVICES", "7")]);
        assert!(rocr.contains(&"ROCR_VISIBLE_DEVICES=4".to_owned()), "{rocr:?}");
    }
}
