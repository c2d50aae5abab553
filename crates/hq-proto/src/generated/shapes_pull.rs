// This file is generated: `cargo xtask gen`.
pub(crate) static SHAPES: &[Shape] = &[
    Shape { name: "Request", size: size_of::<Request>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(2) },
        Field { number: 2, is_repeated: false, content: Content::Message(3) },
        Field { number: 3, is_repeated: false, content: Content::Message(4) },
        Field { number: 4, is_repeated: false, content: Content::Message(6) },
        Field { number: 5, is_repeated: false, content: Content::Message(7) },
        Field { number: 6, is_repeated: false, content: Content::Message(10) },
        Field { number: 7, is_repeated: false, content: Content::Message(10) },
        Field { number: 8, is_repeated: false, content: Content::Message(10) },
        Field { number: 9, is_repeated: false, content: Content::Message(10) },
        Field { number: 10, is_repeated: false, content: Content::Message(10) },
        Field { number: 11, is_repeated: false, content: Content::Message(1) },
        Field { number: 12, is_repeated: false, content: Content::Message(11) },
        Field { number: 13, is_repeated: false, content: Content::Message(12) },
        Field { number: 14, is_repeated: false, content: Content::Message(13) },
        Field { number: 15, is_repeated: false, content: Content::Message(14) },
    ] },
    Shape { name: "Nothing", size: size_of::<Nothing>(), fields: &[
    ] },
    Shape { name: "Hello", size: size_of::<Hello>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "Open", size: size_of::<Open>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Create", size: size_of::<Create>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: true, content: Content::Message(5) },
    ] },
    Shape { name: "NewTask", size: size_of::<NewTask>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: true, content: Content::Bytes },
        Field { number: 4, is_repeated: true, content: Content::Bytes },
        Field { number: 5, is_repeated: true, content: Content::Bytes },
        Field { number: 8, is_repeated: false, content: Content::Bytes },
        Field { number: 11, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "Next", size: size_of::<Next>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(8) },
        Field { number: 4, is_repeated: true, content: Content::Bytes },
        Field { number: 5, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "Take", size: size_of::<Take>(), fields: &[
        Field { number: 3, is_repeated: true, content: Content::Bytes },
        Field { number: 4, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "End", size: size_of::<End>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
        Field { number: 7, is_repeated: false, content: Content::Message(9) },
    ] },
    Shape { name: "Deferred", size: size_of::<Deferred>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Bytes },
        Field { number: 2, is_repeated: true, content: Content::Bytes },
        Field { number: 3, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "Ends", size: size_of::<Ends>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(8) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Look", size: size_of::<Look>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "Close", size: size_of::<Close>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Leave", size: size_of::<Leave>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Status", size: size_of::<Status>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "Answer", size: size_of::<Answer>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Message(16) },
        Field { number: 2, is_repeated: false, content: Content::Message(17) },
        Field { number: 3, is_repeated: false, content: Content::Message(19) },
        Field { number: 4, is_repeated: false, content: Content::Message(20) },
        Field { number: 5, is_repeated: false, content: Content::Message(21) },
        Field { number: 6, is_repeated: false, content: Content::Message(24) },
        Field { number: 7, is_repeated: false, content: Content::Message(26) },
        Field { number: 8, is_repeated: false, content: Content::Message(27) },
        Field { number: 9, is_repeated: false, content: Content::Message(28) },
    ] },
    Shape { name: "Error", size: size_of::<Error>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Welcome", size: size_of::<Welcome>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Message(18) },
    ] },
    Shape { name: "Limits", size: size_of::<Limits>(), fields: &[
    ] },
    Shape { name: "Opened", size: size_of::<Opened>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Created", size: size_of::<Created>(), fields: &[
    ] },
    Shape { name: "Given", size: size_of::<Given>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(22) },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: true, content: Content::Message(23) },
    ] },
    Shape { name: "Task", size: size_of::<Task>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Item", size: size_of::<Item>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Looked", size: size_of::<Looked>(), fields: &[
        Field { number: 2, is_repeated: true, content: Content::Message(25) },
    ] },
    Shape { name: "Seen", size: size_of::<Seen>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
        Field { number: 4, is_repeated: false, content: Content::Bytes },
        Field { number: 5, is_repeated: false, content: Content::Bytes },
        Field { number: 6, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Closed", size: size_of::<Closed>(), fields: &[
    ] },
    Shape { name: "Left", size: size_of::<Left>(), fields: &[
    ] },
    Shape { name: "Standing", size: size_of::<Standing>(), fields: &[
        Field { number: 1, is_repeated: true, content: Content::Message(29) },
        Field { number: 2, is_repeated: true, content: Content::Message(30) },
        Field { number: 3, is_repeated: true, content: Content::Bytes },
        Field { number: 4, is_repeated: true, content: Content::Bytes },
    ] },
    Shape { name: "Bag", size: size_of::<Bag>(), fields: &[
        Field { number: 2, is_repeated: false, content: Content::Bytes },
        Field { number: 3, is_repeated: false, content: Content::Bytes },
    ] },
    Shape { name: "Session", size: size_of::<Session>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 6, is_repeated: true, content: Content::Message(31) },
    ] },
    Shape { name: "Held", size: size_of::<Held>(), fields: &[
        Field { number: 1, is_repeated: false, content: Content::Bytes },
        Field { number: 2, is_repeated: false, content: Content::Bytes },
    ] },
];
