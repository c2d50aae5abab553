// This file is generated: `cargo xtask gen`.
pub(crate) static SHAPES: &[Shape] = &[
    Shape { name: "Hello", size: size_of::<Hello>(), fields: &[
        Field { number: 4, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Passage", size: size_of::<Passage>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Nothing", size: size_of::<Nothing>(), fields: &[
    ] },
    Shape { name: "IdSet", size: size_of::<IdSet>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "TaskRef", size: size_of::<TaskRef>(), fields: &[
    ] },
    Shape { name: "TasksOfJob", size: size_of::<TasksOfJob>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "AbortedTasks", size: size_of::<AbortedTasks>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Entries", size: size_of::<Entries>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "Usage", size: size_of::<Usage>(), fields: &[
    ] },
    Shape { name: "Counters", size: size_of::<Counters>(), fields: &[
    ] },
    Shape { name: "Selector", size: size_of::<Selector>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(2) },
        Field { number: 2, is_repeated: false, content: Content::Message(2) },
        Field { number: 3, is_repeated: false, content: Content::Message(3) },
    ] },
    Shape { name: "JobBudget", size: size_of::<JobBudget>(), fields: &[
    ] },
    Shape { name: "JobSpec", size: size_of::<JobSpec>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 50, is_repeated: false, content: Content::Message(15) },
        Field { number: 210, is_repeated: true, content: Content::Message(14) },
        Field { number: 231, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Told", size: size_of::<Told>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "NoticeRule", size: size_of::<NoticeRule>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Share", size: size_of::<Share>(), fields: &[
    ] },
    Shape { name: "Submit", size: size_of::<Submit>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(12) },
        Field { number: 3, is_repeated: false, content: Content::Message(3) },
        Field { number: 5, is_repeated: false, content: Content::Message(7) },
        Field { number: 6, is_repeated: false, content: Content::Message(19) },
        Field { number: 7, is_repeated: false, content: Content::Bytes },
        Field { number: 40, is_repeated: false, content: Content::Message(17) },
        Field { number: 90, is_repeated: false, content: Content::Message(7) },
    ] },
    Shape { name: "Dependencies", size: size_of::<Dependencies>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(18) },
        Field { number: 2, is_repeated: true, content: Content::Numbers },
        Field { number: 3, is_repeated: true, content: Content::Numbers },
        Field { number: 90, is_repeated: true, content: Content::Bytes },
        Field { number: 91, is_repeated: true, content: Content::Numbers },
        Field { number: 92, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "After", size: size_of::<After>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(3) },
        Field { number: 90, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "TaskSpec", size: size_of::<TaskSpec>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Bytes },
        Field { number: 2, is_repeated: true, content: Content::Message(25) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Message(26) },
        Field { number: 6, is_repeated: false, content: Content::Message(26) },
        Field { number: 7, is_repeated: true, content: Content::Message(30) },
        Field { number: 12, is_repeated: false, content: Content::Message(27) },
        Field { number: 13, is_repeated: false, content: Content::Message(28) },
        Field { number: 14, is_repeated: false, content: Content::Message(29) },
        Field { number: 90, is_repeated: true, content: Content::Bytes },
        Field { number: 80, is_repeated: false, content: Content::Bytes },
        Field { number: 101, is_repeated: false, content: Content::Bytes },
        Field { number: 110, is_repeated: false, content: Content::Bytes },
        Field { number: 111, is_repeated: false, content: Content::Bytes },
        Field { number: 140, is_repeated: false, content: Content::Message(24) },
        Field { number: 150, is_repeated: true, content: Content::Bytes },
        Field { number: 170, is_repeated: false, content: Content::Message(23) },
        Field { number: 190, is_repeated: true, content: Content::Message(21) },
        Field { number: 191, is_repeated: true, content: Content::Message(22) },
        Field { number: 192, is_repeated: false, content: Content::Message(20) },
    ] },
    Shape { name: "Rebuild", size: size_of::<Rebuild>(), fields: &[
    ] },
    Shape { name: "OutputObject", size: size_of::<OutputObject>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "InputObject", size: size_of::<InputObject>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ResultFrom", size: size_of::<ResultFrom>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Function", size: size_of::<Function>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: true, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Variable", size: size_of::<Variable>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Output", size: size_of::<Output>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Warning", size: size_of::<Warning>(), fields: &[
    ] },
    Shape { name: "CrashLimit", size: size_of::<CrashLimit>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(2) },
        Field { number: 3, is_repeated: false, content: Content::Message(2) },
    ] },
    Shape { name: "Retry", size: size_of::<Retry>(), fields: &[
        Field { number: 3, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "Request", size: size_of::<Request>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Message(31) },
    ] },
    Shape { name: "ResourceRequest", size: size_of::<ResourceRequest>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Message(2) },
    ] },
    Shape { name: "WorkerConfig", size: size_of::<WorkerConfig>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(36) },
        Field { number: 2, is_repeated: true, content: Content::Message(40) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
        Field { number: 6, is_repeated: false, content: Content::Bytes },
        Field { number: 15, is_repeated: false, content: Content::Message(41) },
        Field { number: 60, is_repeated: false, content: Content::Message(35) },
        Field { number: 190, is_repeated: false, content: Content::Message(33) },
    ] },
    Shape { name: "ObjectStore", size: size_of::<ObjectStore>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Message(34) },
    ] },
    Shape { name: "ObjectSpill", size: size_of::<ObjectSpill>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "AllocationRef", size: size_of::<AllocationRef>(), fields: &[
    ] },
    Shape { name: "ResourcePool", size: size_of::<ResourcePool>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Message(37) },
        Field { number: 3, is_repeated: false, content: Content::Message(39) },
    ] },
    Shape { name: "Groups", size: size_of::<Groups>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(38) },
    ] },
    Shape { name: "Group", size: size_of::<Group>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "Range", size: size_of::<Range>(), fields: &[
    ] },
    Shape { name: "Coupling", size: size_of::<Coupling>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Allocation", size: size_of::<Allocation>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "FinishedSpan", size: size_of::<FinishedSpan>(), fields: &[
        Field { number: 3, is_repeated: true, content: Content::Numbers },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 140, is_repeated: false, content: Content::Message(7) },
    ] },
    Shape { name: "Failure", size: size_of::<Failure>(), fields: &[
        Field { number: 4, is_repeated: false, content: Content::Message(47) },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
        Field { number: 7, is_repeated: false, content: Content::Message(8) },
        Field { number: 8, is_repeated: true, content: Content::Numbers },
        Field { number: 9, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "PastAttempt", size: size_of::<PastAttempt>(), fields: &[
        Field { number: 4, is_repeated: true, content: Content::Numbers },
        Field { number: 7, is_repeated: false, content: Content::Message(45) },
        Field { number: 8, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "AttemptEnd", size: size_of::<AttemptEnd>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(47) },
        Field { number: 2, is_repeated: false, content: Content::Message(2) },
        Field { number: 3, is_repeated: false, content: Content::Message(2) },
        Field { number: 4, is_repeated: false, content: Content::Message(2) },
        Field { number: 5, is_repeated: false, content: Content::Message(2) },
        Field { number: 6, is_repeated: false, content: Content::Message(2) },
        Field { number: 7, is_repeated: false, content: Content::Message(2) },
        Field { number: 8, is_repeated: false, content: Content::Message(2) },
    ] },
    Shape { name: "FailureCause", size: size_of::<FailureCause>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(47) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 4, is_repeated: true, content: Content::Numbers },
        Field { number: 7, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "FailureKind", size: size_of::<FailureKind>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Message(2) },
        Field { number: 4, is_repeated: false, content: Content::Message(2) },
        Field { number: 5, is_repeated: false, content: Content::Message(2) },
        Field { number: 90, is_repeated: false, content: Content::Message(2) },
        Field { number: 91, is_repeated: false, content: Content::Message(2) },
        Field { number: 92, is_repeated: false, content: Content::Message(2) },
    ] },
    Shape { name: "NodeSample", size: size_of::<NodeSample>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
        Field { number: 10, is_repeated: true, content: Content::Message(55) },
    ] },
    Shape { name: "TaskLoad", size: size_of::<TaskLoad>(), fields: &[
    ] },
    Shape { name: "TaskSample", size: size_of::<TaskSample>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
        Field { number: 3, is_repeated: false, content: Content::Message(49) },
    ] },
    Shape { name: "TasksSum", size: size_of::<TasksSum>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(49) },
    ] },
    Shape { name: "NodeLoad", size: size_of::<NodeLoad>(), fields: &[
    ] },
    Shape { name: "LoadPoint", size: size_of::<LoadPoint>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Message(52) },
        Field { number: 4, is_repeated: false, content: Content::Message(52) },
    ] },
    Shape { name: "TasksSample", size: size_of::<TasksSample>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(49) },
        Field { number: 3, is_repeated: true, content: Content::Message(50) },
    ] },
    Shape { name: "GpuSample", size: size_of::<GpuSample>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ReadFrom", size: size_of::<ReadFrom>(), fields: &[
    ] },
    Shape { name: "OutputRead", size: size_of::<OutputRead>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
        Field { number: 5, is_repeated: false, content: Content::Message(56) },
    ] },
    Shape { name: "OutputAnswer", size: size_of::<OutputAnswer>(), fields: &[
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Message(2) },
        Field { number: 6, is_repeated: false, content: Content::Message(2) },
        Field { number: 7, is_repeated: false, content: Content::Message(2) },
        Field { number: 9, is_repeated: false, content: Content::Message(2) },
        Field { number: 10, is_repeated: false, content: Content::Message(2) },
        Field { number: 11, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ReadOrder", size: size_of::<ReadOrder>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(4) },
        Field { number: 5, is_repeated: false, content: Content::Message(56) },
        Field { number: 150, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ReadAnswer", size: size_of::<ReadAnswer>(), fields: &[
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Message(2) },
        Field { number: 6, is_repeated: false, content: Content::Message(2) },
        Field { number: 7, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "QueueParams", size: size_of::<QueueParams>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 7, is_repeated: true, content: Content::Bytes },
        Field { number: 8, is_repeated: true, content: Content::Bytes },
        Field { number: 9, is_repeated: true, content: Content::Message(36) },
        Field { number: 14, is_repeated: false, content: Content::Bytes },
        Field { number: 15, is_repeated: false, content: Content::Bytes },
        Field { number: 16, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "BatchState", size: size_of::<BatchState>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(2) },
        Field { number: 2, is_repeated: false, content: Content::Message(2) },
        Field { number: 3, is_repeated: false, content: Content::Message(2) },
        Field { number: 4, is_repeated: false, content: Content::Message(2) },
        Field { number: 5, is_repeated: false, content: Content::Message(2) },
        Field { number: 6, is_repeated: false, content: Content::Bytes },
        Field { number: 7, is_repeated: false, content: Content::Message(2) },
        Field { number: 8, is_repeated: false, content: Content::Message(2) },
        Field { number: 9, is_repeated: false, content: Content::Message(2) },
        Field { number: 10, is_repeated: false, content: Content::Message(2) },
        Field { number: 11, is_repeated: false, content: Content::Message(2) },
        Field { number: 12, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "AllocationEnd", size: size_of::<AllocationEnd>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(2) },
        Field { number: 2, is_repeated: false, content: Content::Message(2) },
        Field { number: 3, is_repeated: false, content: Content::Message(2) },
        Field { number: 4, is_repeated: false, content: Content::Message(2) },
        Field { number: 5, is_repeated: false, content: Content::Message(2) },
        Field { number: 6, is_repeated: false, content: Content::Message(2) },
        Field { number: 7, is_repeated: false, content: Content::Bytes },
        Field { number: 8, is_repeated: false, content: Content::Message(2) },
        Field { number: 9, is_repeated: false, content: Content::Bytes },
        Field { number: 10, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "PauseCause", size: size_of::<PauseCause>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "NodeTime", size: size_of::<NodeTime>(), fields: &[
    ] },
    Shape { name: "WorkerShape", size: size_of::<WorkerShape>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(36) },
        Field { number: 2, is_repeated: true, content: Content::Message(40) },
    ] },
    Shape { name: "AllocRecord", size: size_of::<AllocRecord>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(68) },
        Field { number: 2, is_repeated: false, content: Content::Message(68) },
        Field { number: 3, is_repeated: false, content: Content::Message(69) },
        Field { number: 4, is_repeated: false, content: Content::Message(70) },
        Field { number: 7, is_repeated: false, content: Content::Message(71) },
        Field { number: 8, is_repeated: false, content: Content::Message(72) },
        Field { number: 9, is_repeated: false, content: Content::Message(74) },
        Field { number: 10, is_repeated: false, content: Content::Message(35) },
        Field { number: 11, is_repeated: false, content: Content::Message(35) },
        Field { number: 12, is_repeated: false, content: Content::Message(75) },
        Field { number: 14, is_repeated: false, content: Content::Message(76) },
        Field { number: 15, is_repeated: false, content: Content::Message(77) },
        Field { number: 16, is_repeated: false, content: Content::Message(73) },
    ] },
    Shape { name: "QueueRecord", size: size_of::<QueueRecord>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(61) },
    ] },
    Shape { name: "QueuePaused", size: size_of::<QueuePaused>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(64) },
    ] },
    Shape { name: "QueueResumed", size: size_of::<QueueResumed>(), fields: &[
    ] },
    Shape { name: "ShapeLearned", size: size_of::<ShapeLearned>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(66) },
    ] },
    Shape { name: "AllocationPlanned", size: size_of::<AllocationPlanned>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(35) },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "AllocationMeasured", size: size_of::<AllocationMeasured>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(35) },
        Field { number: 2, is_repeated: false, content: Content::Message(65) },
    ] },
    Shape { name: "AllocationSubmitted", size: size_of::<AllocationSubmitted>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(35) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "AllocationEnded", size: size_of::<AllocationEnded>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(35) },
        Field { number: 2, is_repeated: false, content: Content::Message(63) },
        Field { number: 3, is_repeated: false, content: Content::Message(65) },
    ] },
    Shape { name: "QueueKept", size: size_of::<QueueKept>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(61) },
        Field { number: 4, is_repeated: false, content: Content::Message(64) },
        Field { number: 8, is_repeated: false, content: Content::Message(66) },
        Field { number: 15, is_repeated: false, content: Content::Message(65) },
    ] },
    Shape { name: "AllocationKept", size: size_of::<AllocationKept>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(35) },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 7, is_repeated: false, content: Content::Bytes },
        Field { number: 10, is_repeated: false, content: Content::Message(63) },
        Field { number: 14, is_repeated: true, content: Content::Numbers },
        Field { number: 17, is_repeated: false, content: Content::Message(65) },
    ] },
    Shape { name: "AllocRequest", size: size_of::<AllocRequest>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(79) },
        Field { number: 2, is_repeated: false, content: Content::Message(61) },
        Field { number: 3, is_repeated: false, content: Content::Message(2) },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
        Field { number: 9, is_repeated: false, content: Content::Message(80) },
        Field { number: 10, is_repeated: false, content: Content::Message(68) },
    ] },
    Shape { name: "AddQueue", size: size_of::<AddQueue>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(61) },
    ] },
    Shape { name: "RemoveQueue", size: size_of::<RemoveQueue>(), fields: &[
    ] },
    Shape { name: "AllocResponse", size: size_of::<AllocResponse>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(82) },
        Field { number: 3, is_repeated: false, content: Content::Message(84) },
        Field { number: 4, is_repeated: false, content: Content::Message(85) },
        Field { number: 5, is_repeated: false, content: Content::Message(86) },
    ] },
    Shape { name: "QueueInfos", size: size_of::<QueueInfos>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(83) },
    ] },
    Shape { name: "QueueInfo", size: size_of::<QueueInfo>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(61) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
        Field { number: 7, is_repeated: false, content: Content::Message(66) },
        Field { number: 12, is_repeated: false, content: Content::Message(65) },
        Field { number: 210, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "QueueDetails", size: size_of::<QueueDetails>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(83) },
        Field { number: 2, is_repeated: true, content: Content::Message(85) },
    ] },
    Shape { name: "AllocationInfo", size: size_of::<AllocationInfo>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(35) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 6, is_repeated: true, content: Content::Numbers },
        Field { number: 10, is_repeated: false, content: Content::Message(63) },
        Field { number: 12, is_repeated: false, content: Content::Message(62) },
        Field { number: 14, is_repeated: false, content: Content::Bytes },
        Field { number: 16, is_repeated: false, content: Content::Message(65) },
    ] },
    Shape { name: "QueueExplanation", size: size_of::<QueueExplanation>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(83) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: true, content: Content::Bytes },
        Field { number: 4, is_repeated: true, content: Content::Message(87) },
        Field { number: 5, is_repeated: true, content: Content::Message(88) },
    ] },
    Shape { name: "DemandLine", size: size_of::<DemandLine>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 7, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Decision", size: size_of::<Decision>(), fields: &[
        Field { number: 4, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Feed", size: size_of::<Feed>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Bytes },
        Field { number: 6, is_repeated: false, content: Content::Bytes },
        Field { number: 7, is_repeated: true, content: Content::Numbers },
        Field { number: 9, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "FeedChange", size: size_of::<FeedChange>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(91) },
        Field { number: 2, is_repeated: false, content: Content::Message(92) },
        Field { number: 3, is_repeated: false, content: Content::Message(94) },
        Field { number: 5, is_repeated: false, content: Content::Message(93) },
    ] },
    Shape { name: "FeedMade", size: size_of::<FeedMade>(), fields: &[
    ] },
    Shape { name: "Fed", size: size_of::<Fed>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "FeedGivenUp", size: size_of::<FeedGivenUp>(), fields: &[
    ] },
    Shape { name: "Reduced", size: size_of::<Reduced>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "SubmitJobs", size: size_of::<SubmitJobs>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: true, content: Content::Message(96) },
    ] },
    Shape { name: "NewJob", size: size_of::<NewJob>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(12) },
        Field { number: 2, is_repeated: true, content: Content::Message(18) },
        Field { number: 3, is_repeated: true, content: Content::Message(16) },
        Field { number: 4, is_repeated: false, content: Content::Message(16) },
        Field { number: 5, is_repeated: false, content: Content::Message(16) },
        Field { number: 6, is_repeated: true, content: Content::Message(97) },
    ] },
    Shape { name: "Broadcast", size: size_of::<Broadcast>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "FeedRequest", size: size_of::<FeedRequest>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
        Field { number: 3, is_repeated: false, content: Content::Message(99) },
        Field { number: 5, is_repeated: false, content: Content::Message(100) },
        Field { number: 6, is_repeated: false, content: Content::Message(94) },
        Field { number: 7, is_repeated: false, content: Content::Message(101) },
    ] },
    Shape { name: "FeedLook", size: size_of::<FeedLook>(), fields: &[
    ] },
    Shape { name: "FeedAdd", size: size_of::<FeedAdd>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Message(16) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "FeedEntries", size: size_of::<FeedEntries>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "FeedState", size: size_of::<FeedState>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(89) },
        Field { number: 9, is_repeated: false, content: Content::Message(7) },
        Field { number: 11, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "ObjectId", size: size_of::<ObjectId>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ObjectCopy", size: size_of::<ObjectCopy>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(103) },
    ] },
    Shape { name: "TaskObjects", size: size_of::<TaskObjects>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(3) },
        Field { number: 2, is_repeated: true, content: Content::Message(106) },
    ] },
    Shape { name: "ObjectSource", size: size_of::<ObjectSource>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(104) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: true, content: Content::Message(107) },
    ] },
    Shape { name: "TaskNode", size: size_of::<TaskNode>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ObjectIds", size: size_of::<ObjectIds>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(103) },
    ] },
    Shape { name: "ObjectNews", size: size_of::<ObjectNews>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(104) },
        Field { number: 2, is_repeated: true, content: Content::Message(103) },
        Field { number: 3, is_repeated: true, content: Content::Message(111) },
        Field { number: 4, is_repeated: true, content: Content::Message(123) },
        Field { number: 5, is_repeated: true, content: Content::Message(103) },
        Field { number: 6, is_repeated: false, content: Content::Message(110) },
    ] },
    Shape { name: "ObjectsSpilled", size: size_of::<ObjectsSpilled>(), fields: &[
    ] },
    Shape { name: "Unfetched", size: size_of::<Unfetched>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
        Field { number: 3, is_repeated: false, content: Content::Message(103) },
        Field { number: 4, is_repeated: true, content: Content::Numbers },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ObjectChange", size: size_of::<ObjectChange>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(113) },
        Field { number: 2, is_repeated: false, content: Content::Message(108) },
        Field { number: 3, is_repeated: false, content: Content::Message(114) },
        Field { number: 4, is_repeated: false, content: Content::Message(108) },
    ] },
    Shape { name: "ObjectCopies", size: size_of::<ObjectCopies>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(104) },
    ] },
    Shape { name: "ObjectsGone", size: size_of::<ObjectsGone>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(103) },
        Field { number: 2, is_repeated: false, content: Content::Message(115) },
    ] },
    Shape { name: "ObjectEnd", size: size_of::<ObjectEnd>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(2) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ObjectRequest", size: size_of::<ObjectRequest>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(119) },
        Field { number: 2, is_repeated: false, content: Content::Message(103) },
        Field { number: 3, is_repeated: false, content: Content::Message(108) },
        Field { number: 4, is_repeated: false, content: Content::Message(108) },
        Field { number: 5, is_repeated: false, content: Content::Message(108) },
        Field { number: 6, is_repeated: false, content: Content::Message(117) },
    ] },
    Shape { name: "GiveObject", size: size_of::<GiveObject>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "TakeFile", size: size_of::<TakeFile>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(103) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ListObjects", size: size_of::<ListObjects>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
        Field { number: 2, is_repeated: false, content: Content::Message(103) },
        Field { number: 3, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "ObjectPage", size: size_of::<ObjectPage>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(121) },
        Field { number: 2, is_repeated: false, content: Content::Message(103) },
    ] },
    Shape { name: "ObjectView", size: size_of::<ObjectView>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(104) },
        Field { number: 2, is_repeated: false, content: Content::Message(2) },
        Field { number: 3, is_repeated: false, content: Content::Message(2) },
        Field { number: 4, is_repeated: false, content: Content::Message(115) },
        Field { number: 10, is_repeated: false, content: Content::Message(122) },
        Field { number: 5, is_repeated: true, content: Content::Message(107) },
        Field { number: 7, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "ObjectLost", size: size_of::<ObjectLost>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ObjectWords", size: size_of::<ObjectWords>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(103) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ObjectNeeded", size: size_of::<ObjectNeeded>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(103) },
        Field { number: 2, is_repeated: false, content: Content::Message(4) },
    ] },
    Shape { name: "BringObjects", size: size_of::<BringObjects>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(106) },
    ] },
    Shape { name: "GuardObjects", size: size_of::<GuardObjects>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(103) },
        Field { number: 2, is_repeated: true, content: Content::Message(103) },
    ] },
    Shape { name: "ClientRequest", size: size_of::<ClientRequest>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(2) },
        Field { number: 3, is_repeated: false, content: Content::Message(2) },
        Field { number: 4, is_repeated: false, content: Content::Message(147) },
        Field { number: 5, is_repeated: false, content: Content::Message(148) },
        Field { number: 6, is_repeated: false, content: Content::Message(10) },
        Field { number: 7, is_repeated: false, content: Content::Message(149) },
        Field { number: 8, is_repeated: false, content: Content::Message(2) },
        Field { number: 9, is_repeated: false, content: Content::Message(10) },
        Field { number: 10, is_repeated: false, content: Content::Message(150) },
        Field { number: 11, is_repeated: false, content: Content::Message(151) },
        Field { number: 12, is_repeated: false, content: Content::Message(152) },
        Field { number: 13, is_repeated: false, content: Content::Message(154) },
        Field { number: 14, is_repeated: false, content: Content::Message(155) },
        Field { number: 15, is_repeated: false, content: Content::Message(156) },
        Field { number: 16, is_repeated: false, content: Content::Message(157) },
        Field { number: 18, is_repeated: false, content: Content::Message(2) },
        Field { number: 19, is_repeated: false, content: Content::Message(2) },
        Field { number: 20, is_repeated: false, content: Content::Message(135) },
        Field { number: 21, is_repeated: false, content: Content::Message(134) },
        Field { number: 60, is_repeated: false, content: Content::Message(78) },
        Field { number: 90, is_repeated: false, content: Content::Message(133) },
        Field { number: 91, is_repeated: false, content: Content::Message(132) },
        Field { number: 92, is_repeated: false, content: Content::Message(131) },
        Field { number: 110, is_repeated: false, content: Content::Message(10) },
        Field { number: 120, is_repeated: false, content: Content::Message(174) },
        Field { number: 121, is_repeated: false, content: Content::Message(167) },
        Field { number: 122, is_repeated: false, content: Content::Message(57) },
        Field { number: 140, is_repeated: false, content: Content::Message(168) },
        Field { number: 141, is_repeated: false, content: Content::Message(171) },
        Field { number: 172, is_repeated: false, content: Content::Message(95) },
        Field { number: 171, is_repeated: false, content: Content::Message(98) },
        Field { number: 142, is_repeated: false, content: Content::Message(5) },
        Field { number: 150, is_repeated: false, content: Content::Message(136) },
        Field { number: 152, is_repeated: false, content: Content::Message(140) },
        Field { number: 154, is_repeated: false, content: Content::Message(153) },
        Field { number: 151, is_repeated: false, content: Content::Message(137) },
        Field { number: 190, is_repeated: false, content: Content::Message(116) },
        Field { number: 220, is_repeated: false, content: Content::Message(128) },
        Field { number: 111, is_repeated: false, content: Content::Message(129) },
    ] },
    Shape { name: "SetBudget", size: size_of::<SetBudget>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
    ] },
    Shape { name: "JobPage", size: size_of::<JobPage>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(3) },
        Field { number: 2, is_repeated: false, content: Content::Message(130) },
    ] },
    Shape { name: "PageStart", size: size_of::<PageStart>(), fields: &[
    ] },
    Shape { name: "Ready", size: size_of::<Ready>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Defer", size: size_of::<Defer>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
        Field { number: 3, is_repeated: true, content: Content::Message(18) },
    ] },
    Shape { name: "SubmitAll", size: size_of::<SubmitAll>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: true, content: Content::Message(16) },
    ] },
    Shape { name: "ExplainTask", size: size_of::<ExplainTask>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
    ] },
    Shape { name: "FollowEvents", size: size_of::<FollowEvents>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Message(3) },
        Field { number: 4, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "Look", size: size_of::<Look>(), fields: &[
    ] },
    Shape { name: "LatestJobs", size: size_of::<LatestJobs>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Overview", size: size_of::<Overview>(), fields: &[
        Field { number: 5, is_repeated: false, content: Content::Bytes },
        Field { number: 6, is_repeated: false, content: Content::Bytes },
        Field { number: 7, is_repeated: true, content: Content::Message(200) },
        Field { number: 8, is_repeated: false, content: Content::Message(9) },
        Field { number: 19, is_repeated: true, content: Content::Message(146) },
        Field { number: 24, is_repeated: false, content: Content::Message(145) },
        Field { number: 25, is_repeated: false, content: Content::Message(139) },
    ] },
    Shape { name: "Relayed", size: size_of::<Relayed>(), fields: &[
    ] },
    Shape { name: "GetLoad", size: size_of::<GetLoad>(), fields: &[
    ] },
    Shape { name: "LoadHistory", size: size_of::<LoadHistory>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Message(145) },
        Field { number: 5, is_repeated: true, content: Content::Message(53) },
    ] },
    Shape { name: "JobShape", size: size_of::<JobShape>(), fields: &[
        Field { number: 4, is_repeated: true, content: Content::Message(144) },
        Field { number: 7, is_repeated: true, content: Content::Numbers },
        Field { number: 8, is_repeated: true, content: Content::Numbers },
        Field { number: 9, is_repeated: true, content: Content::Numbers },
        Field { number: 12, is_repeated: true, content: Content::Message(143) },
    ] },
    Shape { name: "SlowTask", size: size_of::<SlowTask>(), fields: &[
    ] },
    Shape { name: "Layer", size: size_of::<Layer>(), fields: &[
        Field { number: 4, is_repeated: false, content: Content::Message(9) },
    ] },
    Shape { name: "NodesLoad", size: size_of::<NodesLoad>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(52) },
        Field { number: 6, is_repeated: false, content: Content::Message(51) },
    ] },
    Shape { name: "ResourceUse", size: size_of::<ResourceUse>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "SubmitRequest", size: size_of::<SubmitRequest>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Message(16) },
    ] },
    Shape { name: "OpenJob", size: size_of::<OpenJob>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Message(12) },
    ] },
    Shape { name: "ListJobs", size: size_of::<ListJobs>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "Cancel", size: size_of::<Cancel>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
        Field { number: 2, is_repeated: false, content: Content::Message(3) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ForgetJobs", size: size_of::<ForgetJobs>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "ListTasks", size: size_of::<ListTasks>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
        Field { number: 2, is_repeated: false, content: Content::Message(3) },
        Field { number: 3, is_repeated: true, content: Content::Numbers },
        Field { number: 4, is_repeated: false, content: Content::Message(4) },
    ] },
    Shape { name: "ListWorkerTasks", size: size_of::<ListWorkerTasks>(), fields: &[
    ] },
    Shape { name: "ListTaskIds", size: size_of::<ListTaskIds>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "WatchJobs", size: size_of::<WatchJobs>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
    ] },
    Shape { name: "ListWorkers", size: size_of::<ListWorkers>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
    ] },
    Shape { name: "StopWorkers", size: size_of::<StopWorkers>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
    ] },
    Shape { name: "ClientResponse", size: size_of::<ClientResponse>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(182) },
        Field { number: 3, is_repeated: false, content: Content::Message(2) },
        Field { number: 4, is_repeated: false, content: Content::Message(191) },
        Field { number: 5, is_repeated: false, content: Content::Message(193) },
        Field { number: 6, is_repeated: false, content: Content::Message(195) },
        Field { number: 7, is_repeated: false, content: Content::Message(197) },
        Field { number: 8, is_repeated: false, content: Content::Message(199) },
        Field { number: 9, is_repeated: false, content: Content::Message(201) },
        Field { number: 10, is_repeated: false, content: Content::Message(205) },
        Field { number: 11, is_repeated: false, content: Content::Message(207) },
        Field { number: 12, is_repeated: false, content: Content::Message(211) },
        Field { number: 13, is_repeated: false, content: Content::Message(197) },
        Field { number: 14, is_repeated: false, content: Content::Message(213) },
        Field { number: 15, is_repeated: false, content: Content::Message(2) },
        Field { number: 16, is_repeated: false, content: Content::Message(214) },
        Field { number: 17, is_repeated: false, content: Content::Message(196) },
        Field { number: 18, is_repeated: false, content: Content::Message(181) },
        Field { number: 19, is_repeated: false, content: Content::Message(159) },
        Field { number: 60, is_repeated: false, content: Content::Message(81) },
        Field { number: 110, is_repeated: false, content: Content::Message(178) },
        Field { number: 120, is_repeated: false, content: Content::Message(175) },
        Field { number: 122, is_repeated: false, content: Content::Message(58) },
        Field { number: 140, is_repeated: false, content: Content::Message(169) },
        Field { number: 141, is_repeated: false, content: Content::Message(172) },
        Field { number: 171, is_repeated: false, content: Content::Message(102) },
        Field { number: 172, is_repeated: false, content: Content::Message(194) },
        Field { number: 150, is_repeated: false, content: Content::Message(138) },
        Field { number: 152, is_repeated: false, content: Content::Message(141) },
        Field { number: 153, is_repeated: false, content: Content::Message(142) },
        Field { number: 190, is_repeated: false, content: Content::Message(120) },
        Field { number: 191, is_repeated: false, content: Content::Message(104) },
        Field { number: 130, is_repeated: true, content: Content::Message(182) },
    ] },
    Shape { name: "Explained", size: size_of::<Explained>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
        Field { number: 3, is_repeated: true, content: Content::Message(160) },
        Field { number: 112, is_repeated: true, content: Content::Message(161) },
    ] },
    Shape { name: "Reason", size: size_of::<Reason>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 110, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "WorkerMatch", size: size_of::<WorkerMatch>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Message(162) },
    ] },
    Shape { name: "Lacks", size: size_of::<Lacks>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(163) },
    ] },
    Shape { name: "Lack", size: size_of::<Lack>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(164) },
        Field { number: 2, is_repeated: false, content: Content::Message(165) },
        Field { number: 3, is_repeated: false, content: Content::Message(166) },
    ] },
    Shape { name: "LackedResource", size: size_of::<LackedResource>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(31) },
    ] },
    Shape { name: "LackedTime", size: size_of::<LackedTime>(), fields: &[
    ] },
    Shape { name: "LackedNodes", size: size_of::<LackedNodes>(), fields: &[
    ] },
    Shape { name: "Resubmit", size: size_of::<Resubmit>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Message(10) },
        Field { number: 3, is_repeated: false, content: Content::Message(3) },
        Field { number: 4, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "ListResults", size: size_of::<ListResults>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
        Field { number: 2, is_repeated: false, content: Content::Message(3) },
        Field { number: 3, is_repeated: false, content: Content::Message(4) },
    ] },
    Shape { name: "Results", size: size_of::<Results>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(170) },
        Field { number: 2, is_repeated: false, content: Content::Message(4) },
    ] },
    Shape { name: "JobResults", size: size_of::<JobResults>(), fields: &[
        Field { number: 3, is_repeated: true, content: Content::Numbers },
        Field { number: 4, is_repeated: false, content: Content::Message(7) },
        Field { number: 5, is_repeated: true, content: Content::Numbers },
        Field { number: 6, is_repeated: true, content: Content::Numbers },
        Field { number: 7, is_repeated: true, content: Content::Numbers },
        Field { number: 8, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "AwaitEnds", size: size_of::<AwaitEnds>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "JobEnds", size: size_of::<JobEnds>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
        Field { number: 3, is_repeated: true, content: Content::Numbers },
        Field { number: 4, is_repeated: true, content: Content::Message(173) },
        Field { number: 5, is_repeated: true, content: Content::Message(6) },
        Field { number: 6, is_repeated: true, content: Content::Numbers },
        Field { number: 7, is_repeated: false, content: Content::Message(7) },
    ] },
    Shape { name: "EndedTask", size: size_of::<EndedTask>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(47) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ListFailures", size: size_of::<ListFailures>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(10) },
    ] },
    Shape { name: "Failures", size: size_of::<Failures>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(176) },
    ] },
    Shape { name: "JobFailures", size: size_of::<JobFailures>(), fields: &[
        Field { number: 4, is_repeated: true, content: Content::Message(46) },
        Field { number: 5, is_repeated: true, content: Content::Numbers },
        Field { number: 220, is_repeated: false, content: Content::Message(177) },
        Field { number: 221, is_repeated: false, content: Content::Bytes },
        Field { number: 222, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "WhyAborted", size: size_of::<WhyAborted>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ExplainedJobs", size: size_of::<ExplainedJobs>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(179) },
    ] },
    Shape { name: "JobExplanation", size: size_of::<JobExplanation>(), fields: &[
        Field { number: 3, is_repeated: true, content: Content::Message(180) },
        Field { number: 5, is_repeated: true, content: Content::Message(160) },
    ] },
    Shape { name: "TaskGroup", size: size_of::<TaskGroup>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
        Field { number: 2, is_repeated: true, content: Content::Message(160) },
    ] },
    Shape { name: "Events", size: size_of::<Events>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "RequestError", size: size_of::<RequestError>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(2) },
        Field { number: 4, is_repeated: false, content: Content::Message(4) },
        Field { number: 5, is_repeated: false, content: Content::Message(4) },
        Field { number: 8, is_repeated: false, content: Content::Message(2) },
        Field { number: 10, is_repeated: false, content: Content::Bytes },
        Field { number: 11, is_repeated: false, content: Content::Message(2) },
        Field { number: 12, is_repeated: false, content: Content::Bytes },
        Field { number: 13, is_repeated: false, content: Content::Message(2) },
        Field { number: 14, is_repeated: false, content: Content::Bytes },
        Field { number: 40, is_repeated: false, content: Content::Message(186) },
        Field { number: 41, is_repeated: false, content: Content::Message(190) },
        Field { number: 61, is_repeated: false, content: Content::Bytes },
        Field { number: 62, is_repeated: false, content: Content::Message(2) },
        Field { number: 63, is_repeated: false, content: Content::Bytes },
        Field { number: 90, is_repeated: false, content: Content::Message(187) },
        Field { number: 91, is_repeated: false, content: Content::Message(189) },
        Field { number: 92, is_repeated: false, content: Content::Message(188) },
        Field { number: 93, is_repeated: false, content: Content::Message(4) },
        Field { number: 94, is_repeated: false, content: Content::Message(185) },
        Field { number: 95, is_repeated: false, content: Content::Message(184) },
        Field { number: 96, is_repeated: false, content: Content::Message(183) },
        Field { number: 121, is_repeated: false, content: Content::Bytes },
        Field { number: 190, is_repeated: false, content: Content::Message(123) },
        Field { number: 191, is_repeated: false, content: Content::Message(123) },
        Field { number: 192, is_repeated: false, content: Content::Message(124) },
    ] },
    Shape { name: "WorkerAway", size: size_of::<WorkerAway>(), fields: &[
    ] },
    Shape { name: "TooManyFailed", size: size_of::<TooManyFailed>(), fields: &[
    ] },
    Shape { name: "Full", size: size_of::<Full>(), fields: &[
    ] },
    Shape { name: "Hopeless", size: size_of::<Hopeless>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "KeyTaken", size: size_of::<KeyTaken>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "NotRunning", size: size_of::<NotRunning>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "NoKey", size: size_of::<NoKey>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Cycle", size: size_of::<Cycle>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ServerInfo", size: size_of::<ServerInfo>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
        Field { number: 6, is_repeated: false, content: Content::Bytes },
        Field { number: 8, is_repeated: false, content: Content::Bytes },
        Field { number: 10, is_repeated: false, content: Content::Bytes },
        Field { number: 11, is_repeated: false, content: Content::Bytes },
        Field { number: 12, is_repeated: true, content: Content::Message(192) },
        Field { number: 13, is_repeated: false, content: Content::Bytes },
        Field { number: 19, is_repeated: false, content: Content::Bytes },
        Field { number: 20, is_repeated: false, content: Content::Message(139) },
    ] },
    Shape { name: "Limit", size: size_of::<Limit>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "JobSubmitted", size: size_of::<JobSubmitted>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
        Field { number: 3, is_repeated: true, content: Content::Bytes },
        Field { number: 90, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "JobsSubmitted", size: size_of::<JobsSubmitted>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
        Field { number: 2, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "NumberList", size: size_of::<NumberList>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "WorkersStopped", size: size_of::<WorkersStopped>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
        Field { number: 2, is_repeated: true, content: Content::Numbers },
        Field { number: 3, is_repeated: true, content: Content::Numbers },
        Field { number: 4, is_repeated: true, content: Content::Message(103) },
    ] },
    Shape { name: "JobSummaries", size: size_of::<JobSummaries>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(198) },
    ] },
    Shape { name: "JobSummary", size: size_of::<JobSummary>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 4, is_repeated: false, content: Content::Message(9) },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
        Field { number: 171, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "JobCounts", size: size_of::<JobCounts>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(200) },
    ] },
    Shape { name: "JobCount", size: size_of::<JobCount>(), fields: &[
    ] },
    Shape { name: "JobDetails", size: size_of::<JobDetails>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(202) },
        Field { number: 2, is_repeated: false, content: Content::Message(130) },
    ] },
    Shape { name: "JobDetail", size: size_of::<JobDetail>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(198) },
        Field { number: 5, is_repeated: true, content: Content::Message(204) },
        Field { number: 6, is_repeated: false, content: Content::Message(8) },
        Field { number: 7, is_repeated: true, content: Content::Numbers },
        Field { number: 50, is_repeated: false, content: Content::Message(15) },
        Field { number: 170, is_repeated: false, content: Content::Message(102) },
        Field { number: 210, is_repeated: true, content: Content::Message(203) },
        Field { number: 220, is_repeated: false, content: Content::Message(11) },
    ] },
    Shape { name: "NoticeInfo", size: size_of::<NoticeInfo>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(14) },
        Field { number: 2, is_repeated: false, content: Content::Message(13) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "SubmitInfo", size: size_of::<SubmitInfo>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
        Field { number: 2, is_repeated: false, content: Content::Message(19) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "CanceledJobs", size: size_of::<CanceledJobs>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(206) },
    ] },
    Shape { name: "CanceledJob", size: size_of::<CanceledJob>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "TaskPage", size: size_of::<TaskPage>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(209) },
        Field { number: 2, is_repeated: false, content: Content::Message(4) },
        Field { number: 3, is_repeated: true, content: Content::Message(208) },
    ] },
    Shape { name: "AlikeTasks", size: size_of::<AlikeTasks>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(209) },
        Field { number: 2, is_repeated: true, content: Content::Numbers },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "TaskInfo", size: size_of::<TaskInfo>(), fields: &[
        Field { number: 10, is_repeated: false, content: Content::Message(8) },
        Field { number: 11, is_repeated: false, content: Content::Bytes },
        Field { number: 40, is_repeated: true, content: Content::Message(18) },
        Field { number: 90, is_repeated: false, content: Content::Bytes },
        Field { number: 80, is_repeated: true, content: Content::Numbers },
        Field { number: 91, is_repeated: false, content: Content::Message(47) },
        Field { number: 150, is_repeated: false, content: Content::Bytes },
        Field { number: 152, is_repeated: true, content: Content::Message(210) },
        Field { number: 171, is_repeated: true, content: Content::Message(44) },
    ] },
    Shape { name: "TaskUse", size: size_of::<TaskUse>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Message(49) },
        Field { number: 6, is_repeated: true, content: Content::Numbers },
        Field { number: 7, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "JobTaskIds", size: size_of::<JobTaskIds>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(212) },
    ] },
    Shape { name: "TaskIdsOfJob", size: size_of::<TaskIdsOfJob>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "Notification", size: size_of::<Notification>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Workers", size: size_of::<Workers>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(215) },
    ] },
    Shape { name: "WorkerInfo", size: size_of::<WorkerInfo>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(32) },
        Field { number: 8, is_repeated: false, content: Content::Message(4) },
        Field { number: 80, is_repeated: false, content: Content::Message(4) },
        Field { number: 83, is_repeated: false, content: Content::Bytes },
        Field { number: 150, is_repeated: true, content: Content::Numbers },
        Field { number: 180, is_repeated: false, content: Content::Message(48) },
        Field { number: 182, is_repeated: false, content: Content::Message(51) },
    ] },
    Shape { name: "OnLine", size: size_of::<OnLine>(), fields: &[
    ] },
    Shape { name: "ToWorker", size: size_of::<ToWorker>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(219) },
        Field { number: 2, is_repeated: false, content: Content::Message(220) },
        Field { number: 3, is_repeated: false, content: Content::Message(218) },
        Field { number: 4, is_repeated: false, content: Content::Message(5) },
        Field { number: 6, is_repeated: false, content: Content::Message(224) },
        Field { number: 7, is_repeated: false, content: Content::Message(225) },
        Field { number: 100, is_repeated: false, content: Content::Message(59) },
        Field { number: 190, is_repeated: false, content: Content::Message(108) },
        Field { number: 191, is_repeated: false, content: Content::Message(126) },
        Field { number: 192, is_repeated: false, content: Content::Message(118) },
        Field { number: 193, is_repeated: false, content: Content::Message(125) },
    ] },
    Shape { name: "CancelTasks", size: size_of::<CancelTasks>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "Welcome", size: size_of::<Welcome>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Run", size: size_of::<Run>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(221) },
    ] },
    Shape { name: "RunBatch", size: size_of::<RunBatch>(), fields: &[
        Field { number: 3, is_repeated: true, content: Content::Numbers },
        Field { number: 5, is_repeated: false, content: Content::Message(223) },
        Field { number: 6, is_repeated: false, content: Content::Message(7) },
        Field { number: 90, is_repeated: true, content: Content::Message(25) },
        Field { number: 80, is_repeated: true, content: Content::Message(107) },
        Field { number: 94, is_repeated: true, content: Content::Message(222) },
        Field { number: 190, is_repeated: true, content: Content::Message(105) },
    ] },
    Shape { name: "CallInput", size: size_of::<CallInput>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(4) },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Template", size: size_of::<Template>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(19) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Stop", size: size_of::<Stop>(), fields: &[
    ] },
    Shape { name: "LogAnswer", size: size_of::<LogAnswer>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(2) },
        Field { number: 3, is_repeated: false, content: Content::Message(2) },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "FromWorker", size: size_of::<FromWorker>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(227) },
        Field { number: 2, is_repeated: false, content: Content::Message(229) },
        Field { number: 3, is_repeated: false, content: Content::Message(2) },
        Field { number: 4, is_repeated: false, content: Content::Message(235) },
        Field { number: 6, is_repeated: false, content: Content::Message(233) },
        Field { number: 100, is_repeated: false, content: Content::Message(60) },
        Field { number: 180, is_repeated: false, content: Content::Message(48) },
        Field { number: 181, is_repeated: false, content: Content::Message(54) },
    ] },
    Shape { name: "WorkerHello", size: size_of::<WorkerHello>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(32) },
        Field { number: 4, is_repeated: true, content: Content::Message(228) },
        Field { number: 193, is_repeated: false, content: Content::Bytes },
        Field { number: 191, is_repeated: true, content: Content::Message(104) },
    ] },
    Shape { name: "Held", size: size_of::<Held>(), fields: &[
        Field { number: 4, is_repeated: true, content: Content::Numbers },
        Field { number: 5, is_repeated: true, content: Content::Numbers },
        Field { number: 6, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "Report", size: size_of::<Report>(), fields: &[
        Field { number: 3, is_repeated: true, content: Content::Message(230) },
        Field { number: 4, is_repeated: true, content: Content::Message(42) },
        Field { number: 5, is_repeated: true, content: Content::Message(232) },
        Field { number: 6, is_repeated: true, content: Content::Message(5) },
        Field { number: 7, is_repeated: true, content: Content::Message(5) },
        Field { number: 8, is_repeated: true, content: Content::Message(5) },
        Field { number: 9, is_repeated: true, content: Content::Message(231) },
        Field { number: 10, is_repeated: true, content: Content::Message(5) },
        Field { number: 190, is_repeated: false, content: Content::Message(109) },
        Field { number: 230, is_repeated: true, content: Content::Message(235) },
        Field { number: 41, is_repeated: false, content: Content::Bytes },
        Field { number: 44, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Started", size: size_of::<Started>(), fields: &[
    ] },
    Shape { name: "Lends", size: size_of::<Lends>(), fields: &[
    ] },
    Shape { name: "FailureOfJob", size: size_of::<FailureOfJob>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(43) },
    ] },
    Shape { name: "LogBatch", size: size_of::<LogBatch>(), fields: &[
        Field { number: 3, is_repeated: true, content: Content::Message(234) },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "LogPiece", size: size_of::<LogPiece>(), fields: &[
    ] },
    Shape { name: "TaskNotify", size: size_of::<TaskNotify>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ToNode", size: size_of::<ToNode>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(237) },
        Field { number: 2, is_repeated: false, content: Content::Message(238) },
        Field { number: 3, is_repeated: false, content: Content::Message(240) },
        Field { number: 4, is_repeated: false, content: Content::Message(242) },
        Field { number: 5, is_repeated: false, content: Content::Message(244) },
        Field { number: 6, is_repeated: false, content: Content::Message(245) },
    ] },
    Shape { name: "NodeHello", size: size_of::<NodeHello>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(4) },
    ] },
    Shape { name: "StartProcess", size: size_of::<StartProcess>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(239) },
        Field { number: 3, is_repeated: true, content: Content::Bytes },
        Field { number: 4, is_repeated: true, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Rank", size: size_of::<Rank>(), fields: &[
    ] },
    Shape { name: "SignalProcess", size: size_of::<SignalProcess>(), fields: &[
    ] },
    Shape { name: "FromNode", size: size_of::<FromNode>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(247) },
        Field { number: 3, is_repeated: false, content: Content::Message(248) },
        Field { number: 4, is_repeated: false, content: Content::Message(249) },
        Field { number: 5, is_repeated: false, content: Content::Message(246) },
        Field { number: 6, is_repeated: false, content: Content::Message(243) },
        Field { number: 7, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "FetchObject", size: size_of::<FetchObject>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(103) },
        Field { number: 5, is_repeated: false, content: Content::Message(107) },
    ] },
    Shape { name: "ObjectBusy", size: size_of::<ObjectBusy>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(107) },
    ] },
    Shape { name: "PutFile", size: size_of::<PutFile>(), fields: &[
    ] },
    Shape { name: "FilePiece", size: size_of::<FilePiece>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ObjectPiece", size: size_of::<ObjectPiece>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ProcessRefused", size: size_of::<ProcessRefused>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ProcessOutput", size: size_of::<ProcessOutput>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ProcessEnded", size: size_of::<ProcessEnded>(), fields: &[
    ] },
    Shape { name: "AskRelay", size: size_of::<AskRelay>(), fields: &[
    ] },
    Shape { name: "Record", size: size_of::<Record>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(260) },
        Field { number: 3, is_repeated: false, content: Content::Message(261) },
        Field { number: 4, is_repeated: false, content: Content::Message(262) },
        Field { number: 5, is_repeated: false, content: Content::Message(263) },
        Field { number: 6, is_repeated: false, content: Content::Message(265) },
        Field { number: 7, is_repeated: false, content: Content::Message(268) },
        Field { number: 8, is_repeated: false, content: Content::Message(270) },
        Field { number: 9, is_repeated: false, content: Content::Message(271) },
        Field { number: 12, is_repeated: false, content: Content::Message(273) },
        Field { number: 13, is_repeated: false, content: Content::Message(274) },
        Field { number: 14, is_repeated: false, content: Content::Message(275) },
        Field { number: 15, is_repeated: false, content: Content::Message(277) },
        Field { number: 17, is_repeated: false, content: Content::Message(278) },
        Field { number: 18, is_repeated: false, content: Content::Message(279) },
        Field { number: 19, is_repeated: false, content: Content::Message(261) },
        Field { number: 20, is_repeated: false, content: Content::Message(265) },
        Field { number: 21, is_repeated: false, content: Content::Message(296) },
        Field { number: 22, is_repeated: false, content: Content::Message(252) },
        Field { number: 23, is_repeated: false, content: Content::Message(259) },
        Field { number: 60, is_repeated: false, content: Content::Message(67) },
        Field { number: 70, is_repeated: false, content: Content::Message(289) },
        Field { number: 71, is_repeated: false, content: Content::Message(293) },
        Field { number: 90, is_repeated: false, content: Content::Message(292) },
        Field { number: 91, is_repeated: false, content: Content::Message(291) },
        Field { number: 92, is_repeated: false, content: Content::Message(290) },
        Field { number: 80, is_repeated: false, content: Content::Message(287) },
        Field { number: 170, is_repeated: false, content: Content::Message(90) },
        Field { number: 190, is_repeated: false, content: Content::Message(112) },
        Field { number: 220, is_repeated: false, content: Content::Message(253) },
        Field { number: 1000, is_repeated: false, content: Content::Message(266) },
        Field { number: 1040, is_repeated: false, content: Content::Message(267) },
        Field { number: 1001, is_repeated: false, content: Content::Message(258) },
        Field { number: 1002, is_repeated: false, content: Content::Message(276) },
        Field { number: 1010, is_repeated: false, content: Content::Message(254) },
        Field { number: 1020, is_repeated: false, content: Content::Message(272) },
        Field { number: 1003, is_repeated: false, content: Content::Message(53) },
        Field { number: 1030, is_repeated: false, content: Content::Message(269) },
    ] },
    Shape { name: "Together", size: size_of::<Together>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(251) },
    ] },
    Shape { name: "BudgetRecord", size: size_of::<BudgetRecord>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(11) },
    ] },
    Shape { name: "NoticeRecord", size: size_of::<NoticeRecord>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Message(255) },
        Field { number: 4, is_repeated: false, content: Content::Message(2) },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Notice", size: size_of::<Notice>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Message(9) },
        Field { number: 6, is_repeated: false, content: Content::Bytes },
        Field { number: 7, is_repeated: false, content: Content::Message(2) },
        Field { number: 8, is_repeated: false, content: Content::Message(256) },
        Field { number: 9, is_repeated: false, content: Content::Message(257) },
    ] },
    Shape { name: "FirstFailure", size: size_of::<FirstFailure>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Stall", size: size_of::<Stall>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ResultsKept", size: size_of::<ResultsKept>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
        Field { number: 3, is_repeated: false, content: Content::Message(7) },
    ] },
    Shape { name: "TimeSkipped", size: size_of::<TimeSkipped>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "Leased", size: size_of::<Leased>(), fields: &[
        Field { number: 3, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "Finished", size: size_of::<Finished>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(42) },
        Field { number: 3, is_repeated: false, content: Content::Message(8) },
        Field { number: 4, is_repeated: true, content: Content::Message(286) },
    ] },
    Shape { name: "Returned", size: size_of::<Returned>(), fields: &[
        Field { number: 3, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "Restarted", size: size_of::<Restarted>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
        Field { number: 4, is_repeated: false, content: Content::Message(2) },
        Field { number: 5, is_repeated: false, content: Content::Message(2) },
        Field { number: 7, is_repeated: false, content: Content::Message(264) },
    ] },
    Shape { name: "TimeOver", size: size_of::<TimeOver>(), fields: &[
    ] },
    Shape { name: "Failed", size: size_of::<Failed>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(43) },
    ] },
    Shape { name: "EndedEarly", size: size_of::<EndedEarly>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Message(43) },
    ] },
    Shape { name: "AttemptsEnded", size: size_of::<AttemptsEnded>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Message(44) },
    ] },
    Shape { name: "Submitted", size: size_of::<Submitted>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Message(12) },
        Field { number: 4, is_repeated: true, content: Content::Numbers },
        Field { number: 5, is_repeated: false, content: Content::Message(7) },
        Field { number: 6, is_repeated: false, content: Content::Message(19) },
        Field { number: 7, is_repeated: false, content: Content::Bytes },
        Field { number: 40, is_repeated: false, content: Content::Message(17) },
        Field { number: 90, is_repeated: false, content: Content::Message(7) },
        Field { number: 170, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "EntriesDropped", size: size_of::<EntriesDropped>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "ServerStarted", size: size_of::<ServerStarted>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "JobOpened", size: size_of::<JobOpened>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Message(12) },
    ] },
    Shape { name: "JobLeft", size: size_of::<JobLeft>(), fields: &[
    ] },
    Shape { name: "TasksCanceled", size: size_of::<TasksCanceled>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "TasksAborted", size: size_of::<TasksAborted>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "WorkerJoined", size: size_of::<WorkerJoined>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(32) },
        Field { number: 193, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "WorkerSampled", size: size_of::<WorkerSampled>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(48) },
    ] },
    Shape { name: "WorkerEnded", size: size_of::<WorkerEnded>(), fields: &[
    ] },
    Shape { name: "IdsGiven", size: size_of::<IdsGiven>(), fields: &[
    ] },
    Shape { name: "JobKept", size: size_of::<JobKept>(), fields: &[
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: true, content: Content::Message(294) },
        Field { number: 6, is_repeated: true, content: Content::Numbers },
        Field { number: 7, is_repeated: true, content: Content::Numbers },
        Field { number: 8, is_repeated: true, content: Content::Numbers },
        Field { number: 9, is_repeated: true, content: Content::Message(6) },
        Field { number: 10, is_repeated: true, content: Content::Message(295) },
        Field { number: 11, is_repeated: true, content: Content::Numbers },
        Field { number: 12, is_repeated: true, content: Content::Numbers },
        Field { number: 13, is_repeated: true, content: Content::Numbers },
        Field { number: 14, is_repeated: true, content: Content::Numbers },
        Field { number: 15, is_repeated: false, content: Content::Message(8) },
        Field { number: 16, is_repeated: true, content: Content::Numbers },
        Field { number: 70, is_repeated: true, content: Content::Message(288) },
        Field { number: 90, is_repeated: true, content: Content::Message(285) },
        Field { number: 93, is_repeated: true, content: Content::Message(284) },
        Field { number: 91, is_repeated: true, content: Content::Message(283) },
        Field { number: 92, is_repeated: true, content: Content::Bytes },
        Field { number: 80, is_repeated: true, content: Content::Message(286) },
        Field { number: 120, is_repeated: true, content: Content::Message(46) },
        Field { number: 150, is_repeated: true, content: Content::Message(281) },
        Field { number: 130, is_repeated: true, content: Content::Message(282) },
        Field { number: 170, is_repeated: false, content: Content::Message(89) },
        Field { number: 210, is_repeated: true, content: Content::Message(280) },
    ] },
    Shape { name: "ToldNotice", size: size_of::<ToldNotice>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(13) },
    ] },
    Shape { name: "TasksTooLate", size: size_of::<TasksTooLate>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "OutlastedTask", size: size_of::<OutlastedTask>(), fields: &[
    ] },
    Shape { name: "ReadyService", size: size_of::<ReadyService>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "ValueOf", size: size_of::<ValueOf>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(4) },
    ] },
    Shape { name: "DeferredTask", size: size_of::<DeferredTask>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Message(18) },
    ] },
    Shape { name: "NodesOfTask", size: size_of::<NodesOfTask>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "LeasedNodes", size: size_of::<LeasedNodes>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Message(286) },
    ] },
    Shape { name: "SecondAttempt", size: size_of::<SecondAttempt>(), fields: &[
    ] },
    Shape { name: "Speculated", size: size_of::<Speculated>(), fields: &[
    ] },
    Shape { name: "FilesFound", size: size_of::<FilesFound>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "ServiceReady", size: size_of::<ServiceReady>(), fields: &[
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Deferred", size: size_of::<Deferred>(), fields: &[
        Field { number: 4, is_repeated: true, content: Content::Message(18) },
        Field { number: 6, is_repeated: false, content: Content::Message(4) },
    ] },
    Shape { name: "AttemptDropped", size: size_of::<AttemptDropped>(), fields: &[
    ] },
    Shape { name: "TasksOfWorker", size: size_of::<TasksOfWorker>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "TasksOfInstance", size: size_of::<TasksOfInstance>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Numbers },
    ] },
    Shape { name: "Answered", size: size_of::<Answered>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: true, content: Content::Numbers },
    ] },
];
