//! The checks of the fuzz targets on their committed corpora.

use std::path::PathBuf;

use anabranch_openflow::wire::decode;

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    crate::files_in(&format!("../../fuzz/corpus/{target}"))
}

#[test]
fn decode_never_panics() {
    let inputs = corpus("decode_never_panics");
    assert!(inputs.len() >= 15, "{} inputs are too few to be the corpus", inputs.len());
    let mut refused = 0;
    for (_, bytes) in inputs {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            crate::damage::check(rest);
            let length = match decode(rest) {
                Ok(Some((_, length))) => length,
                Ok(None) => break,
                Err(error) => {
                    refused += 1;
                    let Some(skip) = error.skip else { break };
                    skip
                }
            };
            rest = &rest[length..];
        }
    }
    assert!(refused >= 10, "only {refused} refused");
}

#[test]
fn decode_then_encode() {
    let inputs = corpus("decode_then_encode");
    assert!(inputs.len() >= 20, "{} inputs are too few to be the corpus", inputs.len());
    for (name, bytes) in inputs {
        assert!(matches!(decode(&bytes), Ok(Some(_))), "{name:?}");
        crate::captures::check(&name.to_string_lossy(), &bytes);
    }
}
