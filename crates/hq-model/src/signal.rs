//! Names of signals.

/// Signals by number on Linux.
const NAMES: [(u8, &str); 31] = [
    (1, "HUP"),
    (2, "INT"),
    (3, "QUIT"),
    (4, "ILL"),
    (5, "TRAP"),
    (6, "ABRT"),
    (7, "BUS"),
    (8, "FPE"),
    (9, "KILL"),
    (10, "USR1"),
    (11, "SEGV"),
    (12, "USR2"),
    (13, "PIPE"),
    (14, "ALRM"),
    (15, "TERM"),
    (16, "STKFLT"),
    (17, "CHLD"),
    (18, "CONT"),
    (19, "STOP"),
    (20, "TSTP"),
    (21, "TTIN"),
    (22, "TTOU"),
    (23, "URG"),
    (24, "XCPU"),
    (25, "XFSZ"),
    (26, "VTALRM"),
    (27, "PROF"),
    (28, "WINCH"),
    (29, "IO"),
    (30, "PWR"),
    (31, "SYS"),
];

/// The number of a signal given as `USR1`, `SIGUSR1`, `usr1` or `10`.
pub fn parse(text: &str) -> Option<u8> {
    let name = text.trim().to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let by_name = NAMES.iter().find(|known| known.1 == name).map(|known| known.0);
    by_name.or_else(|| name.parse().ok().filter(|number| (1..=64).contains(number)))
}

/// `SIGKILL` for 9; `signal 40` for one without a name.
pub fn name(number: u8) -> String {
    match NAMES.iter().find(|known| known.0 == number) {
        Some((_, name)) => format!("SIG{name}"),
        None => format!("signal {number}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_and_numbers() {
        for (text, number) in [
            ("USR1", Some(10)),
            ("SIGUSR1", Some(10)),
            ("term", Some(15)),
            ("9", Some(9)),
            ("0", None),
            ("FOO", None),
        ] {
            assert_eq!(super::parse(text), number, "{text}");
        }
        assert_eq!(super::name(9), "SIGKILL");
        assert_eq!(super::name(40), "signal 40");
    }
}
