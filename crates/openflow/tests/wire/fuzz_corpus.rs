//! The checks of the fuzz targets on their committed corpora.

use std::path::Path;

use anabranch_openflow::wire::decode;

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut inputs: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    inputs.sort();
    inputs
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
        assert!(matches!(decode(&bytes), Ok(Some(_))), "{name}");
        crate::captures::check(&name, &bytes);
    }
}
