//! From a width that a file states to an integer type.

/// Runs `$body` with `$lane` naming the unsigned integer of `$bits` bits; other widths are a corrupt file.
macro_rules! with_lane {
    ($bits:expr, $lane:ident => $body:expr) => {
        match $bits {
            8 => {
                type $lane = u8;
                $body
            }
            16 => {
                type $lane = u16;
                $body
            }
            32 => {
                type $lane = u32;
                $body
            }
            64 => {
                type $lane = u64;
                $body
            }
            other => Err($crate::Error::corrupt(format!("integers of {other} bits"))),
        }
    };
}

pub(crate) use with_lane;
