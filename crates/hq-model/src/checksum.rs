//! The checksum of the content of an object: XXH64 with seed 0. It finds damage, not intent.

const P1: u64 = 0x9E37_79B1_85EB_CA87;
const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P3: u64 = 0x1656_67B1_9E37_79F9;
const P4: u64 = 0x85EB_CA77_C2B2_AE63;
const P5: u64 = 0x27D4_EB2F_1656_67C5;
const STRIPE: usize = 32;

/// The checksum of bytes that come one after the other.
#[derive(Clone, Debug)]
pub struct Checksum {
    lanes: [u64; 4],
    // The beginning of the next stripe.
    rest: [u8; STRIPE],
    rest_len: usize,
    total: u64,
}

impl Default for Checksum {
    fn default() -> Checksum {
        let lanes = [P1.wrapping_add(P2), P2, 0, 0u64.wrapping_sub(P1)];
        Checksum { lanes, rest: [0; STRIPE], rest_len: 0, total: 0 }
    }
}

impl Checksum {
    /// That of bytes which are all there.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut checksum = Checksum::default();
        checksum.add(bytes);
        checksum.value()
    }

    /// More bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.rest_len > 0 {
            let taken = bytes.len().min(STRIPE - self.rest_len);
            self.rest[self.rest_len..self.rest_len + taken].copy_from_slice(&bytes[..taken]);
            self.rest_len += taken;
            bytes = &bytes[taken..];
            if self.rest_len < STRIPE {
                return;
            }
            let stripe = self.rest;
            self.stripe(&stripe);
        }
        let stripes = bytes.chunks_exact(STRIPE);
        let rest = stripes.remainder();
        for stripe in stripes {
            self.stripe(stripe);
        }
        self.rest[..rest.len()].copy_from_slice(rest);
        self.rest_len = rest.len();
    }

    fn stripe(&mut self, stripe: &[u8]) {
        for (lane, word) in self.lanes.iter_mut().zip(stripe.chunks_exact(8)) {
            *lane = round(*lane, word_of(word));
        }
    }

    /// That of all bytes so far.
    pub fn value(&self) -> u64 {
        let mut hash = if self.total < STRIPE as u64 {
            P5
        } else {
            let turns = [1, 7, 12, 18];
            let sum = self.lanes.iter().zip(turns).map(|(lane, turn)| lane.rotate_left(turn));
            let sum = sum.fold(0u64, u64::wrapping_add);
            self.lanes
                .iter()
                .fold(sum, |hash, lane| (hash ^ round(0, *lane)).wrapping_mul(P1).wrapping_add(P4))
        };
        hash = hash.wrapping_add(self.total);
        let words = self.rest[..self.rest_len].chunks_exact(8);
        let mut rest = words.remainder();
        for word in words {
            hash = (hash ^ round(0, word_of(word))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        }
        if let Some((half, last)) = rest.split_first_chunk::<4>() {
            let half = u64::from(u32::from_le_bytes(*half));
            hash = (hash ^ half.wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
            rest = last;
        }
        for byte in rest {
            hash = (hash ^ u64::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
        hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
        hash ^ (hash >> 32)
    }
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_xxh64() {
        let known = [
            ("", 0xEF46_DB37_51D8_E999),
            ("a", 0xD24E_C4F1_A98C_6E5B),
            ("abc", 0x44BC_2CF5_AD77_0999),
            ("Nobody inspects the spammish repetition", 0xFBCE_A83C_8A37_8BF1),
        ];
        for (text, checksum) in known {
            assert_eq!(Checksum::of(text.as_bytes()), checksum, "{text}");
        }
    }

    #[test]
    fn it_does_not_matter_how_the_bytes_are_cut() {
        let bytes: Vec<u8> = (0..200u32).map(|i| (i * 7) as u8).collect();
        for step in [1, 3, 31, 32, 33, 64, 199] {
            let mut checksum = Checksum::default();
            bytes.chunks(step).for_each(|part| checksum.add(part));
            assert_eq!(checksum.value(), Checksum::of(&bytes), "in steps of {step}");
        }
    }
}
