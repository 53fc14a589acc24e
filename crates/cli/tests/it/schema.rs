//! The JSON Schemas that `list --schema` prints: every file of the repository is valid, and what the
//! parser rejects is not.

use std::path::Path;

use jsonschema::Validator;

use crate::common::{EXPERIMENTS, files_below, printed_json};

fn validator(what: &str) -> Validator {
    let schema = printed_json(Path::new("."), &format!("list {what} --schema"));
    jsonschema::validator_for(&schema).unwrap()
}

/// Returns the errors of a TOML text.
fn errors(validator: &Validator, text: &str) -> Vec<String> {
    let value: toml::Value = toml::from_str(text).unwrap();
    let value = serde_json::to_value(value).unwrap();
    validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn experiments_and_indexes_match_schema() {
    let (keys, indexes) = (validator("keys"), validator("indexes"));
    let found = files_below(Path::new(EXPERIMENTS), "toml");
    assert!(found.len() > 100, "only {} files", found.len());
    for path in found {
        let validator = if path.ends_with("reproduce.toml") { &indexes } else { &keys };
        let errors = errors(validator, &std::fs::read_to_string(&path).unwrap());
        assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
    }
}

#[test]
fn schema_of_experiments_rejects_what_parser_rejects() {
    let keys = validator("keys");
    for (text, path) in [
        ("balancers = [\"ecmp\"]\nseedz = 3", ""),
        ("seeds = 3", ""),
        ("balancers = [\"ecmp\"]\n[transport]\nkind = \"dtcp\"", "/transport/kind"),
        ("balancers = [\"ecmp\"]\n[transport]\nmin_rto = 5", "/transport/min_rto"),
        ("balancers = [\"ecmp\"]\n[transport]\nmin_rto = \"5 parsec\"", "/transport/min_rto"),
        ("balancers = [\"ecmp\"]\n[transport]\nack_every = 1001", "/transport/ack_every"),
        ("balancers = [\"ecmp\"]\n[switch]\necn = { min = \"1KB\" }", "/switch/ecn"),
        ("balancers = [\"ecmp\"]\n[failure]\nkind = \"link-down\"", "/failure"),
        ("balancers = [\"ecmp\"]\n[[failure]]\nat = \"1ms\"", "/failure"),
    ] {
        let errors = errors(&keys, text);
        assert!(errors.iter().any(|error| error.starts_with(&format!("{path}:"))), "{text}: {errors:#?}");
    }
}

#[test]
fn schema_of_configuration_has_fields_of_services() {
    let settings = validator("settings");
    let valid = "seed = 7\n[limits]\nsend_buffer_bytes = \"16MiB\"\n[[link]]\ndpid = \"a1\"\nport = 1\ncapacity = \"1Gbps\"\n\
                 [services.web]\naddress = \"10.0.0.100\"\nport = 80\npool = \"servers\"\n[pools.servers]\nbalancer = \"server-rr\"\n\
                 members = [{ name = \"a\", address = \"10.0.0.1\" }]\n";
    assert_eq!(errors(&settings, valid), Vec::<String>::new());
    for wrong in ["[services.web]\nport = \"80\"\n", "[pools.servers]\nbalancer = 1\n", "[limits]\nconnection = 3\n"] {
        assert!(!errors(&settings, wrong).is_empty(), "{wrong}");
    }
}

#[test]
fn schema_needs_list_of_keys() {
    let hint = "use it with `keys`, `settings` or `indexes`";
    crate::common::assert_rejected(Path::new("."), "list balancers --schema", &[hint]);
}
