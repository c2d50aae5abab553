//! What interpreters start with from which those of functions are forked.

use hq_core::worker::Start;
use hq_model::pattern::Pattern;
use hq_model::{ByteString, Instance, TaskId, TaskRef};

use super::{Buffers, Prepared, Text, against, strings, variable_name};
use crate::environment::Node;
use crate::launcher::text::Subject;
use crate::launcher::{MARK, Order, Slot};

/// What a task's environment has in the place of its key before it is there: longer than any key.
const NO_KEY: [u8; 256] = [b'-'; 256];

impl Prepared {
    /// Fills in the order for an interpreter from which those of such functions are forked: with what they share, and `printed`
    /// for its outputs. Nothing where that is nothing.
    pub(crate) fn zygote_order<'a>(
        &'a self,
        slot: Slot,
        printed: ByteString,
        node: &'a Node,
        buffers: &'a mut Buffers,
    ) -> Option<Order<'a>> {
        let spec = &self.template.spec;
        let is_plain = |text: &[u8]| Text::new(text).is_plain();
        let cwd = Pattern::new(&spec.cwd);
        if spec.env.iter().any(|(_, value)| !is_plain(value)) || !cwd.names().all(|name| name == "SUBMIT_DIR")
        {
            return None;
        }
        buffers.cwd = self.paths.expand(TaskRef::new(self.template.id.job, TaskId(0)), Instance(0), None).cwd;
        buffers.task_dir.clear();
        buffers.cpus.clear();
        buffers.env.clear();
        for (number, (name, value)) in spec.env.iter().enumerate() {
            // Of a variable that is said twice the last one counts.
            if !spec.env[number + 1..].iter().any(|(later, _)| later == name) {
                [&name[..], b"=", &value[..], b"\0"]
                    .iter()
                    .for_each(|part| buffers.env.extend_from_slice(part));
            }
        }
        [MARK, &NO_KEY, b"\0"].iter().for_each(|part| buffers.env.extend_from_slice(part));
        let is_set = |variable: &[u8]| spec.env.iter().any(|(name, _)| name == variable_name(variable));
        let dropped = node.base.iter().enumerate().filter(|(_, variable)| is_set(variable));
        buffers.dropped = dropped.map(|(place, _)| place as u32).collect();
        (buffers.stdout, buffers.stderr) = (printed.clone(), printed);
        Some(Order {
            slot,
            programs: self.programs_block.as_deref()?,
            args: self.args_block.as_deref()?,
            env: &buffers.env,
            env_dropped: &buffers.dropped,
            cwd: &buffers.cwd,
            stdout: &buffers.stdout,
            stderr: &buffers.stderr,
            has_stdin: true,
            is_stdin_socket: true,
            ..Order::default()
        })
    }

    /// What an error text needs to know of that order.
    pub(crate) fn subject_of_zygote(&self, buffers: &Buffers) -> Subject {
        let words = |block: &Option<ByteString>| -> Vec<ByteString> {
            strings(block.as_deref().unwrap_or_default()).map(<[u8]>::to_vec).collect()
        };
        let candidates = words(&self.programs_block).iter().map(|path| against(&buffers.cwd, path)).collect();
        let program = words(&self.args_block).into_iter().next().unwrap_or_default();
        Subject { program, candidates, cwd: buffers.cwd.clone(), ..Subject::default() }
    }

    /// Names of variables that are of the task whose order was filled in last, or are missing for it.
    pub(crate) fn own_variables(&self, start: &Start, node: &Node, buffers: &Buffers) -> ByteString {
        let dropped = self.variant(start).dropped.iter().filter_map(|place| node.base.get(*place as usize));
        let all = strings(&buffers.env).chain(dropped.map(Vec::as_slice)).map(variable_name);
        let names: Vec<&[u8]> = all.chain([&MARK[..MARK.len() - 1]]).collect();
        names.join(&0)
    }
}
