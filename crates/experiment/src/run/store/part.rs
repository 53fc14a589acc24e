//! The flows of one run in the encoding of postcard, kept with the records until all runs have ended.

use std::io;

use crate::results::flow_row::FlowRow;

pub(super) fn encode(rows: &[FlowRow]) -> Vec<u8> {
    postcard::to_stdvec(rows).expect("rows are plain numbers")
}

/// `like` has the values shared by all rows, which the file leaves out.
pub(super) fn decode(bytes: &[u8], like: &FlowRow) -> io::Result<Vec<FlowRow>> {
    let damaged = |_| io::Error::new(io::ErrorKind::InvalidData, "the file is truncated or damaged; remove it");
    let mut rows: Vec<FlowRow> = postcard::from_bytes(bytes).map_err(damaged)?;
    for row in &mut rows {
        let FlowRow { run, load, seed, .. } = *like;
        (row.run, row.load, row.seed) = (run, load, seed);
        (row.balancer, row.variant) = (like.balancer.clone(), like.variant.clone());
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::flow_row::FlowStatus;

    #[test]
    fn rows_read_back_equal_and_damage_is_an_error() {
        let row = FlowRow {
            run: 3,
            balancer: "ecmp".into(),
            load: Some(0.5),
            seed: 9,
            flow: 1,
            src: 2,
            dst: 3,
            size_bytes: 10_000,
            start_us: Some(0.0),
            status: FlowStatus::Running,
            sender_fct_us: Some(4.5),
            ideal_us: 10.25,
            delivered_bytes: 7,
            packets_sent: 8,
            retransmitted: 1,
            reordered: 2,
            path_changes: 5,
            ..FlowRow::default()
        };
        let bytes = encode(&[row.clone(), row.clone()]);
        assert_eq!(decode(&bytes, &row).unwrap(), [row.clone(), row.clone()]);
        assert!(decode(&bytes[..bytes.len() - 3], &row).is_err());
        assert!(decode(&[0xff; 136], &row).is_err());
    }
}
