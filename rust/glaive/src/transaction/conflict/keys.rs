//! Whether two updates may have inserted the same keys (format chapter 31, 6.2).

use crate::proto::lance::table::transaction::key_existence_filter::Data;
use crate::proto::lance::table::transaction::{BloomFilter, KeyExistenceFilter};

/// A block of the filter has eight words of four bytes.
const BLOCK: usize = 32;

const DEFAULT_ITEMS: u64 = 8192;
const DEFAULT_PROBABILITY: f64 = 0.00057;

/// Whether a key may be in both filters. Filters that cannot be compared count as such.
pub(super) fn may_intersect(a: &KeyExistenceFilter, b: &KeyExistenceFilter) -> bool {
    if a.field_ids != b.field_ids {
        return true;
    }
    match (&a.data, &b.data) {
        (Some(Data::Exact(a)), Some(Data::Exact(b))) => {
            a.key_hashes.iter().any(|hash| b.key_hashes.contains(hash))
        }
        (Some(Data::Bloom(a)), Some(Data::Bloom(b))) => !comparable(a, b) || share_a_bit(a, b),
        _ => true,
    }
}

fn comparable(a: &BloomFilter, b: &BloomFilter) -> bool {
    let items = |filter: &BloomFilter| match filter.number_of_items {
        0 => DEFAULT_ITEMS,
        items => items,
    };
    let probability = |filter: &BloomFilter| match filter.probability {
        0.0 => DEFAULT_PROBABILITY,
        probability => probability,
    };
    let whole = |filter: &BloomFilter| {
        filter.bitmap.len().is_multiple_of(BLOCK) && filter.num_bits as usize == 8 * filter.bitmap.len()
    };
    whole(a)
        && whole(b)
        && a.bitmap.len() == b.bitmap.len()
        && items(a) == items(b)
        && probability(a).to_bits() == probability(b).to_bits()
}

fn share_a_bit(a: &BloomFilter, b: &BloomFilter) -> bool {
    a.bitmap.iter().zip(&b.bitmap).any(|(a, b)| a & b != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(bitmap: Vec<u8>) -> KeyExistenceFilter {
        KeyExistenceFilter {
            field_ids: vec![0],
            data: Some(Data::Bloom(BloomFilter {
                num_bits: 8 * bitmap.len() as u32,
                bitmap: bitmap.into(),
                ..Default::default()
            })),
        }
    }

    #[test]
    fn filters_are_compared_bit_by_bit() {
        let mut first = vec![0u8; 64];
        let mut second = first.clone();
        first[3] = 0b0110;
        second[3] = 0b1001;
        assert!(!may_intersect(&filter(first.clone()), &filter(second.clone())));
        second[3] = 0b1100;
        assert!(may_intersect(&filter(first.clone()), &filter(second.clone())));
        assert!(
            may_intersect(&filter(first.clone()), &filter(vec![0; 32])),
            "another size"
        );
        assert!(
            may_intersect(&filter(vec![0; 31]), &filter(vec![0; 31])),
            "not whole blocks"
        );
        let mut other_field = filter(vec![0; 64]);
        other_field.field_ids = vec![1];
        assert!(may_intersect(&filter(first), &other_field));
    }
}
