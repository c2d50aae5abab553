//! Machines as small directory trees.

use std::fs;

use super::*;

/// A machine: files and their content, environment, what `nvidia-smi -L` says.
#[derive(Default)]
struct Machine<'a> {
    files: &'a [(&'a str, &'a str)],
    environment: &'a [(&'a str, &'a str)],
    affinity: &'a [u32],
    one_thread: bool,
    nvidia_smi: Option<&'a str>,
}

impl Machine<'_> {
    fn detect(&self) -> Detected {
        let root = tempfile::tempdir().expect("a temporary directory");
        for (path, content) in self.files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("below the root")).expect("writable");
            fs::write(path, content).expect("writable");
        }
        detect(&DetectOptions {
            root: root.path().to_owned(),
            environment: self.environment.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            affinity: self.affinity.to_vec(),
            hyper_threading: !self.one_thread,
            kinds: Kinds::ALL,
            nvidia_smi: self.nvidia_smi.map(str::to_owned),
        })
    }

    /// One line a pool, then the notes.
    fn text(&self) -> String {
        let found = self.detect();
        let pools = found.resources.pools.iter().map(|pool| format!("{}={}", pool.name, pool.kind));
        let coupling = found.resources.coupling.iter().map(ToString::to_string);
        pools.chain(coupling).chain(found.notes).collect::<Vec<_>>().join("\n")
    }
}

const TWO_SOCKETS: [(&str, &str); 12] = [
    ("sys/devices/system/cpu/online", "0-7\n"),
    ("sys/devices/system/node/node0/cpulist", "0-1,4-5\n"),
    ("sys/devices/system/node/node1/cpulist", "2-3,6-7\n"),
    ("sys/devices/system/node/possible", "0-1\n"),
    ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4\n"),
    ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,5\n"),
    ("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2,6\n"),
    ("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "3,7\n"),
    ("sys/devices/system/cpu/cpu4/topology/thread_siblings_list", "0,4\n"),
    ("sys/devices/system/cpu/cpu5/topology/thread_siblings_list", "1,5\n"),
    ("sys/devices/system/cpu/cpu6/topology/thread_siblings_list", "2,6\n"),
    ("proc/meminfo", "MemTotal:       24684092 kB\nMemFree:        1 kB\n"),
];

fn two_sockets_and(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    TWO_SOCKETS.iter().chain(more).copied().collect()
}

#[test]
fn a_bare_machine() {
    insta::assert_snapshot!(Machine { files: &TWO_SOCKETS, ..Machine::default() }.text(), @r"
    cpus=[[0,1,4,5],[2,3,6,7]]
    mem=sum(24105)
    ");
}

#[test]
fn without_hyper_threading() {
    let machine = Machine { files: &TWO_SOCKETS, one_thread: true, ..Machine::default() };
    // CPU 7 has no file about its core: it counts as one.
    insta::assert_snapshot!(machine.text(), @r"
    cpus=[[0,1],[2,3,7]]
    mem=sum(24105)
    cpus: 5 cores with 8 threads; the first of each core
    ");
}

#[test]
fn within_an_affinity_mask() {
    let machine = Machine { files: &TWO_SOCKETS, affinity: &[4, 5, 6, 99], ..Machine::default() };
    insta::assert_snapshot!(machine.text(), @r"
    cpus=[[4,5],[6]]
    mem=sum(24105)
    cpus: 3 of 8, by the affinity mask of this process
    ");
    let machine = Machine { one_thread: true, ..machine };
    insta::assert_snapshot!(machine.text(), @r"
    cpus=[[4,5],[6]]
    mem=sum(24105)
    cpus: 3 of 8, by the affinity mask of this process
    ");
}

#[test]
fn in_control_groups_of_version_2() {
    let files = two_sockets_and(&[
        ("proc/self/cgroup", "0::/user/job_7\n"),
        ("sys/fs/cgroup/user/job_7/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/user/cpu.max", "350000 100000\n"),
        ("sys/fs/cgroup/user/job_7/memory.max", "2147483648\n"),
        ("sys/fs/cgroup/user/memory.max", "max\n"),
        ("sys/fs/cgroup/user/job_7/cpuset.cpus.effective", "2-7\n"),
        ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n"),
    ]);
    insta::assert_snapshot!(Machine { files: &files, ..Machine::default() }.text(), @r"
    cpus=[[4,5],[2]]
    mem=sum(2048)
    cpus: 6 of 8, by the cpuset of its control group
    cpus: 3 of 6, by the CPU quota of its control group
    mem: 2048 MiB of 24105 MiB, by the limit of its control group
    ");
}

#[test]
fn in_control_groups_of_version_1() {
    let files = two_sockets_and(&[
        ("proc/self/cgroup", "7:cpu,cpuacct:/slurm/uid_1/job_2\n4:memory:/slurm\n3:cpuset:/slurm\n0::/\n"),
        ("sys/fs/cgroup/cpu,cpuacct/slurm/uid_1/job_2/cpu.cfs_quota_us", "50000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/slurm/uid_1/job_2/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "1073741824\n"),
        ("sys/fs/cgroup/cpuset/slurm/cpuset.cpus", "6-7\n"),
    ]);
    insta::assert_snapshot!(Machine { files: &files, ..Machine::default() }.text(), @r"
    cpus=range(6-6)
    mem=sum(1024)
    cpus: 2 of 8, by the cpuset of its control group
    cpus: 1 of 2, by the CPU quota of its control group
    mem: 1024 MiB of 24105 MiB, by the limit of its control group
    ");
}

#[test]
fn in_a_container_whose_groups_are_named_as_on_the_host() {
    let files = two_sockets_and(&[
        ("proc/self/cgroup", "0::/../../host/path\n"),
        ("sys/fs/cgroup/cpu.max", "100000 100000\n"),
        ("sys/fs/cgroup/memory.max", "1073741824\n"),
    ]);
    insta::assert_snapshot!(Machine { files: &files, ..Machine::default() }.text(), @r"
    cpus=range(0-0)
    mem=sum(1024)
    cpus: 1 of 8, by the CPU quota of its control group
    mem: 1024 MiB of 24105 MiB, by the limit of its control group
    ");
}

#[test]
fn cpus_that_the_batch_system_gave() {
    let check = |environment: &[(&str, &str)], expected: u64| {
        let found = Machine { files: &TWO_SOCKETS, environment, ..Machine::default() }.detect();
        let total = found.resources.pool(hq_model::request::CPUS).expect("CPUs").kind.total();
        assert_eq!(total, Amount::whole(expected), "{environment:?}");
    };
    check(&[("SLURM_JOB_ID", "7"), ("SLURM_CPUS_ON_NODE", "1")], 1);
    check(&[("SLURM_JOB_ID", "7"), ("SLURM_CPUS_ON_NODE", "64")], 8);
    check(&[("SLURM_JOB_ID", "7"), ("SLURM_CPUS_ON_NODE", "some")], 8);
    check(&[("SLURM_CPUS_ON_NODE", "1")], 8);
    check(&[("PBS_JOBID", "7.pbs0"), ("NCPUS", "2")], 2);
    check(&[("NCPUS", "2")], 8);
}

#[test]
fn memory_that_the_batch_system_gave() {
    let check = |environment: &[(&str, &str)], expected: u64| {
        let found = Machine { files: &TWO_SOCKETS, environment, ..Machine::default() }.detect();
        let total = found.resources.pool(MEM).expect("memory").kind.total();
        assert_eq!(total, Amount::whole(expected), "{environment:?}");
    };
    check(&[("SLURM_MEM_PER_NODE", "4096")], 4096);
    check(&[("SLURM_MEM_PER_NODE", "0")], 24105);
    check(&[("SLURM_MEM_PER_CPU", "500"), ("SLURM_CPUS_ON_NODE", "4")], 2000);
    check(&[("SLURM_MEM_PER_CPU", "500")], 24105);
    check(&[("SLURM_MEM_PER_NODE", "9999999")], 24105);
    check(&[("SLURM_MEM_PER_NODE", "much")], 24105);
}

#[test]
fn a_machine_that_shows_nothing_has_one_cpu() {
    insta::assert_snapshot!(Machine::default().text(), @"cpus=range(0-0)");
    insta::assert_snapshot!(Machine { affinity: &[3, 5], ..Machine::default() }.text(), @"cpus=[3,5]");
}

const NVIDIA_FILES: [(&str, &str); 3] = [
    ("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: A100\n"),
    ("proc/driver/nvidia/gpus/0000:41:00.0/information", "Model: A100\n"),
    ("proc/driver/nvidia/gpus/0000:81:00.0/information", "Model: A100\n"),
];
const AMD_FILES: [(&str, &str); 4] = [
    ("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n"),
    ("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51140\n"),
    ("sys/class/kfd/kfd/topology/nodes/2/gpu_id", "4711\n"),
    ("sys/class/kfd/kfd/topology/nodes/10/gpu_id", "1\n"),
];

fn gpus(machine: &Machine<'_>) -> String {
    let found = machine.detect();
    let pools = found.resources.pools.iter().filter(|pool| pool.name.starts_with("gpus/"));
    pools.map(|pool| format!("{}={}", pool.name, pool.kind)).collect::<Vec<_>>().join(" ")
}

#[test]
fn gpus_by_driver_and_variable() {
    let check = |files: &[(&str, &str)], environment: &[(&str, &str)], expected: &str| {
        let machine = Machine { files, environment, ..Machine::default() };
        assert_eq!(gpus(&machine), expected, "{environment:?}");
    };
    check(&[], &[], "");
    check(&NVIDIA_FILES, &[], "gpus/nvidia=range(0-2)");
    check(&AMD_FILES, &[], "gpus/amd=range(0-2)");
    let both: Vec<_> = NVIDIA_FILES.iter().chain(&AMD_FILES).copied().collect();
    check(&both, &[], "gpus/amd=range(0-2) gpus/nvidia=range(0-2)");

    let cuda = |value| [("CUDA_VISIBLE_DEVICES", value)];
    check(&NVIDIA_FILES, &cuda("2,0"), "gpus/nvidia=[2,0]");
    check(&NVIDIA_FILES, &cuda("0, 7,1"), "gpus/nvidia=range(0-0)");
    check(&NVIDIA_FILES, &cuda("0,0"), "gpus/nvidia=range(0-0)");
    for none in ["", "-1", "NoDevFiles"] {
        check(&NVIDIA_FILES, &cuda(none), "");
    }
    check(&[], &cuda("0,1"), "gpus/nvidia=range(0-1)");
    check(&[], &cuda("MIG-6bd1,GPU-08f2"), "gpus/nvidia=[MIG-6bd1,GPU-08f2]");
    check(&[], &[("ROCR_VISIBLE_DEVICES", "0,GPU-08f2")], "gpus/amd=[0,GPU-08f2]");
    check(&AMD_FILES, &[("HIP_VISIBLE_DEVICES", "1")], "gpus/amd=range(1-1)");
    check(
        &AMD_FILES,
        &[("ROCR_VISIBLE_DEVICES", "2,1"), ("HIP_VISIBLE_DEVICES", "1")],
        "gpus/amd=range(1-1)",
    );
}

#[test]
fn devices_that_slurm_names_twice_count_once() {
    let environment = &[("CUDA_VISIBLE_DEVICES", "0,1"), ("ROCR_VISIBLE_DEVICES", "0,1")];
    for (files, expected) in [
        (&[][..], "gpus/nvidia=range(0-1)"),
        (&NVIDIA_FILES, "gpus/nvidia=range(0-1)"),
        (&AMD_FILES, "gpus/amd=range(0-1)"),
    ] {
        assert_eq!(gpus(&Machine { files, environment, ..Machine::default() }), expected);
    }
}

// Two cards of two tiles, a screen's connector, and a card that no program may open.
const INTEL_FILES: [(&str, &str); 11] = [
    ("sys/class/drm/card0/device/uevent", "DRIVER=i915\nPCI_ID=8086:0BD5\nPCI_SLOT_NAME=0000:29:00.0\n"),
    ("sys/class/drm/card0/device/drm/renderD128/dev", "226:128\n"),
    ("sys/class/drm/card0/gt/gt0/id", "0\n"),
    ("sys/class/drm/card0/gt/gt1/id", "1\n"),
    ("sys/class/drm/card1/device/uevent", "DRIVER=xe\nPCI_ID=8086:0BD5\nPCI_SLOT_NAME=0000:9a:00.0\n"),
    ("sys/class/drm/card1/device/drm/renderD129/dev", "226:129\n"),
    ("sys/class/drm/card1/device/tile0/physical_vram_size_bytes", "1\n"),
    ("sys/class/drm/card1/device/tile1/physical_vram_size_bytes", "1\n"),
    ("sys/class/drm/card1-DP-1/status", "disconnected\n"),
    ("sys/class/drm/card2/device/uevent", "PCI_ID=8086:56C0\nPCI_SLOT_NAME=0000:aa:00.0\n"),
    ("sys/class/drm/card2/device/drm/renderD130/dev", "226:130\n"),
];
const INTEL_NODES: [(&str, &str); 2] = [("dev/dri/renderD128", ""), ("dev/dri/renderD129", "")];

#[test]
fn devices_of_intel() {
    let check = |more: &[(&str, &str)], environment: &[(&str, &str)], expected: &str| {
        let files: Vec<_> = INTEL_FILES.iter().chain(&INTEL_NODES).chain(more).copied().collect();
        assert_eq!(
            gpus(&Machine { files: &files, environment, ..Machine::default() }),
            expected,
            "{environment:?}"
        );
    };
    let hierarchy = |value| ("ZE_FLAT_DEVICE_HIERARCHY", value);
    let mask = |value| ("ZE_AFFINITY_MASK", value);
    check(&[], &[], "gpus/intel=range(0-1)");
    check(&[], &[hierarchy("COMPOSITE")], "gpus/intel=range(0-1)");
    check(&[], &[hierarchy("FLAT")], "gpus/intel=range(0-3)");
    check(&[], &[mask("")], "gpus/intel=range(0-1)");
    check(&[], &[mask("3,1")], "gpus/intel=[3,1]");
    check(&[], &[mask("1.0,1.1"), hierarchy("composite")], "gpus/intel=[1.0,1.1]");
    check(&[], &[mask("0,7,x,0")], "gpus/intel=range(0-0)");
    check(&[], &[mask("65535")], "");
    // Slurm says the same of all vendors.
    check(
        &[],
        &[("CUDA_VISIBLE_DEVICES", "0"), mask("0"), ("ROCR_VISIBLE_DEVICES", "0")],
        "gpus/intel=range(0-0)",
    );
    check(&NVIDIA_FILES[..1], &[], "gpus/intel=range(0-1) gpus/nvidia=range(0-0)");
    // The GPU of a processor is none, and takes a number.
    let integrated = [
        ("sys/class/drm/card3/device/uevent", "PCI_ID=8086:A780\nPCI_SLOT_NAME=0000:00:02.0\n"),
        ("sys/class/drm/card3/device/drm/renderD131/dev", "226:131\n"),
        ("dev/dri/renderD131", ""),
    ];
    check(&integrated, &[], "");
    check(&integrated, &[mask("1")], "gpus/intel=range(1-1)");
    let laptop = Machine { files: &integrated, ..Machine::default() };
    assert_eq!(gpus(&laptop), "");
    // In a container without devices.
    assert_eq!(gpus(&Machine { files: &INTEL_FILES, ..Machine::default() }), "");
    assert_eq!(gpus(&Machine { environment: &[mask("0,1")], ..Machine::default() }), "gpus/intel=range(0-1)");
    assert_eq!(gpus(&Machine { environment: &[mask("65535")], ..Machine::default() }), "");
}

#[test]
fn devices_of_intel_are_coupled_with_the_cpus_beside_them() {
    let more = [
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("sys/devices/system/node/node1/cpulist", "2-3\n"),
        ("sys/bus/pci/devices/0000:29:00.0/numa_node", "0\n"),
        ("sys/bus/pci/devices/0000:9a:00.0/numa_node", "1\n"),
    ];
    let files: Vec<_> = INTEL_FILES.iter().chain(&INTEL_NODES).chain(&more).copied().collect();
    insta::assert_snapshot!(Machine { files: &files, ..Machine::default() }.text(), @r"
    cpus=[[0,1],[2,3]]
    gpus/intel=[[0],[1]]
    cpus[0]:gpus/intel[0]=256
    cpus[1]:gpus/intel[1]=256
    ");
    let tiles = [("ZE_FLAT_DEVICE_HIERARCHY", "FLAT")];
    insta::assert_snapshot!(Machine { files: &files, environment: &tiles, ..Machine::default() }.text(), @r"
    cpus=[[0,1],[2,3]]
    gpus/intel=[[0,1],[2,3]]
    cpus[0]:gpus/intel[0]=256
    cpus[1]:gpus/intel[1]=256
    ");
}

#[test]
fn slices_of_divided_gpus() {
    let text = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)\n  \
        MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n  \
        MIG 1g.5gb      Device  1: (UUID: MIG-GPU-b8ea3855/1/0)\n\
        GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-00000000-d33d-2b2c-524d-9e3d8d2b8a77)\n";
    let machine = Machine { files: &NVIDIA_FILES[..2], nvidia_smi: Some(text), ..Machine::default() };
    insta::assert_snapshot!(
        gpus(&machine),
        @"gpus/nvidia=[MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f,MIG-GPU-b8ea3855/1/0,1]"
    );
    let failing = Machine { nvidia_smi: Some("NVIDIA-SMI has failed\n"), ..machine };
    assert_eq!(gpus(&failing), "gpus/nvidia=range(0-1)");
}

#[test]
fn only_what_is_asked_for() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let options = DetectOptions {
        root: root.path().to_owned(),
        environment: [("CUDA_VISIBLE_DEVICES".to_owned(), "0".to_owned())].into(),
        affinity: vec![0],
        hyper_threading: true,
        kinds: Kinds::named(["gpus/nvidia", "disks"]),
        nvidia_smi: None,
    };
    let names = |options: &DetectOptions| {
        detect(options).resources.pools.into_iter().map(|pool| pool.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&options), ["gpus/nvidia"]);
    assert_eq!(names(&DetectOptions { kinds: Kinds::NONE, ..options }), [""; 0]);
}

#[test]
fn this_node_can_be_asked() {
    let options = ask::this_node(Kinds { nvidia: false, ..Kinds::ALL }, true);
    assert!(!options.affinity.is_empty());
    let cpus = detect(&options).resources.pool(CPUS).expect("CPUs").kind.total().wholes();
    assert!(cpus >= 1 && cpus <= options.affinity.len() as u64);
}

// Two sockets with two devices each, the second socket's first on the bus.
const FOUR_NVIDIA: [(&str, &str); 12] = [
    ("sys/devices/system/cpu/online", "0-7\n"),
    ("sys/devices/system/node/node0/cpulist", "0-3\n"),
    ("sys/devices/system/node/node1/cpulist", "4-7\n"),
    ("proc/driver/nvidia/gpus/0000:07:00.0/information", "Model: \t A100\nGPU UUID: \t GPU-aaaa-1\n"),
    ("proc/driver/nvidia/gpus/0000:0B:00.0/information", "GPU UUID: \t GPU-bbbb-2\n"),
    ("proc/driver/nvidia/gpus/0000:48:00.0/information", "GPU UUID: \t GPU-cccc-3\n"),
    ("proc/driver/nvidia/gpus/0000:4c:00.0/information", "GPU UUID: \t GPU-dddd-4\n"),
    ("sys/bus/pci/devices/0000:07:00.0/numa_node", "1\n"),
    ("sys/bus/pci/devices/0000:0b:00.0/numa_node", "1\n"),
    ("sys/bus/pci/devices/0000:48:00.0/numa_node", "0\n"),
    ("sys/bus/pci/devices/0000:4c:00.0/numa_node", "0\n"),
    ("proc/meminfo", ""),
];

#[test]
fn gpus_are_coupled_with_the_cpus_beside_them() {
    let all = Machine { files: &FOUR_NVIDIA, ..Machine::default() };
    insta::assert_snapshot!(all.text(), @r"
    cpus=[[0,1,2,3],[4,5,6,7]]
    gpus/nvidia=[[2,3],[0,1]]
    cpus[0]:gpus/nvidia[0]=256
    cpus[1]:gpus/nvidia[1]=256
    ");
    // Of an allocation of two devices, by UUID.
    let some = Machine {
        files: &FOUR_NVIDIA,
        environment: &[("CUDA_VISIBLE_DEVICES", "GPU-dddd-4,GPU-aaaa")],
        ..Machine::default()
    };
    insta::assert_snapshot!(some.text(), @r"
    cpus=[[0,1,2,3],[4,5,6,7]]
    gpus/nvidia=[[GPU-dddd-4],[GPU-aaaa]]
    cpus[0]:gpus/nvidia[0]=256
    cpus[1]:gpus/nvidia[1]=256
    gpus/nvidia: 2 by CUDA_VISIBLE_DEVICES
    ");
    // One device and one socket: there is nothing to choose.
    let one = Machine {
        files: &FOUR_NVIDIA,
        affinity: &[4, 5],
        nvidia_smi: Some("GPU 0: NVIDIA A100 (UUID: GPU-bbbb-2)\n  MIG 3g.20gb  Device  0: (UUID: MIG-x)\n"),
        ..Machine::default()
    };
    insta::assert_snapshot!(one.text(), @r"
    cpus=range(4-5)
    gpus/nvidia=[MIG-x]
    cpus: 2 of 8, by the affinity mask of this process
    ");
}

#[test]
fn a_slice_is_beside_the_cpus_of_its_device() {
    // A process that may use one device counts it as number 0; the driver shows all.
    let one = Machine {
        files: &FOUR_NVIDIA,
        nvidia_smi: Some("GPU 0: NVIDIA A100 (UUID: GPU-bbbb-2)\n  MIG 3g.20gb  Device  0: (UUID: MIG-x)\n"),
        ..Machine::default()
    };
    insta::assert_snapshot!(one.text(), @r"
    cpus=[[0,1,2,3],[4,5,6,7]]
    gpus/nvidia=[MIG-x]
    cpus[1]:gpus/nvidia[0]=256
    ");
}

#[test]
fn amd_devices_are_found_on_the_bus_by_their_location() {
    let files = [
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("sys/devices/system/node/node3/cpulist", "2-3\n"),
        ("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n"),
        ("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51110\n"),
        ("sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 440\nlocation_id 49408\ndomain 0\n"),
        ("sys/class/kfd/kfd/topology/nodes/2/gpu_id", "51111\n"),
        ("sys/class/kfd/kfd/topology/nodes/2/properties", "location_id 55552\nunique_id 17\n"),
        ("sys/bus/pci/devices/0000:c1:00.0/numa_node", "0\n"),
        ("sys/bus/pci/devices/0000:d9:00.0/numa_node", "3\n"),
    ];
    let all = Machine { files: &files, ..Machine::default() };
    insta::assert_snapshot!(all.text(), @r"
    cpus=[[0,1],[2,3]]
    gpus/amd=[[0],[1]]
    cpus[0]:gpus/amd[0]=256
    cpus[1]:gpus/amd[1]=256
    ");
    let by_number = [("ROCR_VISIBLE_DEVICES", "GPU-11")];
    let one = Machine { files: &files, environment: &by_number, ..Machine::default() };
    insta::assert_snapshot!(one.text(), @r"
    cpus=[[0,1],[2,3]]
    gpus/amd=[GPU-11]
    cpus[1]:gpus/amd[0]=256
    gpus/amd: 1 by ROCR_VISIBLE_DEVICES
    ");
    // One that the system knows no place of: nothing is grouped.
    let mut unknown = files;
    unknown[9].1 = "-1\n";
    let unknown = Machine { files: &unknown, ..Machine::default() };
    insta::assert_snapshot!(unknown.text(), @r"
    cpus=[[0,1],[2,3]]
    gpus/amd=range(0-1)
    ");
}
