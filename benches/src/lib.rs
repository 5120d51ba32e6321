//! Data for the benchmarks: the same on every run.

/// A small generator of pseudo-random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that always gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).wrapping_mul(limit) >> 31
    }
}

const WORDS: [&str; 48] = [
    "the",
    "of",
    "and",
    "a",
    "to",
    "in",
    "is",
    "that",
    "it",
    "was",
    "for",
    "on",
    "with",
    "as",
    "be",
    "at",
    "by",
    "this",
    "from",
    "or",
    "column",
    "value",
    "which",
    "reader",
    "writer",
    "their",
    "would",
    "there",
    "between",
    "because",
    "different",
    "number",
    "people",
    "through",
    "page",
    "before",
    "should",
    "however",
    "another",
    "important",
    "question",
    "government",
    "against",
    "without",
    "something",
    "information",
    "themselves",
    "understand",
];

/// English-like sentences, `n` of 3 to 14 words: the `n + 1` offsets and the bytes.
pub fn sentences(n: usize) -> (Vec<i32>, Vec<u8>) {
    let mut random = Random::new(7);
    strings(n, |out| {
        for i in 0..3 + random.below(12) {
            // Common words come first in the list.
            let word = random.below(random.clone().below(48) + 1) as usize;
            out.extend_from_slice(if i == 0 { b"" } else { b" " });
            out.extend_from_slice(WORDS.get(word).unwrap_or(&"").as_bytes());
        }
        out.push(b'.');
    })
}

/// `n` URLs of a few sites: the `n + 1` offsets and the bytes.
pub fn urls(n: usize) -> (Vec<i32>, Vec<u8>) {
    let mut random = Random::new(11);
    strings(n, |out| {
        let (site, kind, id) = (random.below(20), random.below(5), random.below(1_000_000));
        let path = [
            "products/view",
            "search?q",
            "users/profile",
            "static/images",
            "api/v2/items",
        ];
        let path = path.get(kind as usize).unwrap_or(&"");
        out.extend_from_slice(format!("https://www.example{site}.com/{path}={id}").as_bytes());
    })
}

fn strings(n: usize, mut append: impl FnMut(&mut Vec<u8>)) -> (Vec<i32>, Vec<u8>) {
    let (mut offsets, mut bytes) = (vec![0], Vec::new());
    for _ in 0..n {
        append(&mut bytes);
        offsets.push(bytes.len() as i32);
    }
    (offsets, bytes)
}
