//! Three hosts in network namespaces of their own: the server's, and one for each of two workers behind a link that
//! can be cut, slowed down and made to lose packets. Nothing of it touches the network of the machine.

use std::process::{Command, Stdio};
use std::time::Duration;

/// Address of the server.
pub(crate) const SERVER_ADDRESS: &str = "10.77.0.1";

/// The namespaces. They go with the value.
pub(crate) struct Net {
    hosts: [String; 3],
}

/// What can happen to a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkFault {
    /// Nothing passes.
    Cut,
    /// A quarter of the packets to the worker is lost.
    Loss,
    /// A few kilobytes a second.
    Slow,
}

impl LinkFault {
    /// What there are programs for.
    pub(crate) fn all() -> Vec<LinkFault> {
        let mut all = vec![LinkFault::Cut, LinkFault::Slow];
        match run("iptables --version") {
            Ok(()) => all.push(LinkFault::Loss),
            Err(error) => eprintln!("links that lose packets are left out: {error}"),
        }
        all
    }
}

impl Net {
    /// Makes them.
    ///
    /// # Errors
    /// What the system says when it permits no namespaces.
    pub(crate) fn new() -> Result<Net, String> {
        let id = std::process::id();
        let net = Net { hosts: ["s", "a", "b"].map(|host| format!("hqc{id}{host}")) };
        let [server, workers @ ..] = &net.hosts;
        run(&format!("ip netns add {server}"))?;
        net.wire(server, workers).unwrap_or_else(|error| panic!("{error}"));
        Ok(net)
    }

    fn wire(&self, server: &str, workers: &[String]) -> Result<(), String> {
        run(&format!("ip -n {server} link set lo up"))?;
        run(&format!("ip -n {server} link add bridge type bridge"))?;
        run(&format!("ip -n {server} addr add {SERVER_ADDRESS}/24 dev bridge"))?;
        run(&format!("ip -n {server} link set bridge up"))?;
        for (index, worker) in workers.iter().enumerate() {
            run(&format!("ip netns add {worker}"))?;
            run(&format!("ip -n {worker} link set lo up"))?;
            run(&format!("ip -n {server} link add link{index} type veth peer name uplink netns {worker}"))?;
            run(&format!("ip -n {server} link set link{index} master bridge up"))?;
            run(&format!("ip -n {worker} addr add 10.77.0.{}/24 dev uplink", index + 2))?;
            run(&format!("ip -n {worker} link set uplink up"))?;
        }
        Ok(())
    }

    /// The server's is 0, those of the workers follow.
    pub(crate) fn host(&self, index: usize) -> &str {
        &self.hosts[index]
    }

    /// Something happens to the link of a worker for a while.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn inject(&self, worker: usize, what: LinkFault, time: Duration) -> Result<(), String> {
        let [server, workers @ ..] = &self.hosts;
        let (link, worker) = (format!("link{worker}"), &workers[worker]);
        let (begin, end) = match what {
            LinkFault::Cut => {
                (format!("ip -n {server} link set {link} down"), format!("ip -n {server} link set {link} up"))
            }
            LinkFault::Loss => {
                let rule = "INPUT -m statistic --mode random --probability 0.25 -j DROP";
                (
                    format!("ip netns exec {worker} iptables -A {rule}"),
                    format!("ip netns exec {worker} iptables -D {rule}"),
                )
            }
            LinkFault::Slow => (
                format!("tc -n {server} qdisc add dev {link} root tbf rate 64kbit burst 4k latency 400ms"),
                format!("tc -n {server} qdisc del dev {link} root"),
            ),
        };
        run(&begin)?;
        std::thread::sleep(time);
        run(&end)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for host in &self.hosts {
            // One that was never made cannot be removed.
            let _ = run(&format!("ip netns del {host}"));
        }
    }
}

/// Runs a command line without quotes.
///
/// # Errors
/// What it says when it fails.
pub(crate) fn run(line: &str) -> Result<(), String> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    let output = command.args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
