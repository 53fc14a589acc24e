//! Identities of switches with TLS: the names in their certificates, and the datapath ids that
//! these names may use.
//!
//! A certificate of the authority shows that a peer is a switch, not which one. Without a rule any
//! switch could take the place of any other.

use std::collections::BTreeMap;

use openflow::DatapathId;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::config;
use crate::events::dpid;

/// The rule for datapath ids that no `[[switch]]` lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UnlistedDatapaths {
    /// Any certificate of the authority may use them, unless there is a `[[switch]]`.
    #[default]
    Any,
    /// A name in the certificate must begin with the datapath id.
    Certificate,
}

/// The datapath ids that certificates may use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DatapathRules {
    /// Name in the certificate of a switch, in lower case, by datapath id.
    pub listed: BTreeMap<DatapathId, String>,
    pub unlisted: UnlistedDatapaths,
}

impl DatapathRules {
    /// Checks whether a switch with these names may use a datapath id.
    ///
    /// # Errors
    /// Returns the reason and what to do.
    pub(crate) fn check(&self, datapath: DatapathId, names: &[String]) -> Result<(), String> {
        let own = dpid(datapath);
        let presented = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
        if let Some(listed) = self.listed.get(&datapath) {
            return if names.contains(listed) {
                Ok(())
            } else {
                Err(format!(
                    "datapath id {own} belongs to the certificate `{listed}`, but this certificate has {presented}; \
                     if the switch is right, change `certificate` of its [[switch]]"
                ))
            };
        }
        match self.unlisted {
            UnlistedDatapaths::Certificate if names.iter().any(|name| datapath_in(name) == Some(datapath)) => Ok(()),
            UnlistedDatapaths::Certificate => Err(format!(
                "datapath id {own} is not in the certificate, which has {presented}; issue a certificate with the \
                 name {own}, or add a [[switch]] with dpid and certificate"
            )),
            UnlistedDatapaths::Any if self.listed.is_empty() => Ok(()),
            UnlistedDatapaths::Any => {
                Err(format!("datapath id {own} is in no [[switch]]; add one with certificate = one of {presented}"))
            }
        }
    }
}

/// Returns the datapath id that the first label of a name contains, as in `00000000000000a1.example`.
fn datapath_in(name: &str) -> Option<DatapathId> {
    config::datapath(name.split('.').next()?).map(DatapathId)
}

/// Returns the names of a certificate in lower case: its DNS names, or its common names if it has
/// no DNS name (RFC 9525 deprecates common names, but tools of Open vSwitch write nothing else).
pub(crate) fn names_of(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    let dns = alternatives.into_iter().flat_map(|found| &found.value.general_names).filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    let dns: Vec<String> = dns.collect();
    if !dns.is_empty() {
        return dns;
    }
    let common = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    common.map(str::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(rules: &DatapathRules, datapath: u64, names: &[&str]) -> bool {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        rules.check(DatapathId(datapath), &names).is_ok()
    }

    #[test]
    fn names_allow_their_datapath_ids_only() {
        let any = DatapathRules::default();
        assert!(is_allowed(&any, 1, &[]) && is_allowed(&any, 2, &["s1"]));
        let listed = BTreeMap::from([(DatapathId(1), "s1".to_owned()), (DatapathId(2), "s2".to_owned())]);
        let mut rules = DatapathRules { listed, unlisted: UnlistedDatapaths::Any };
        assert!(is_allowed(&rules, 1, &["x", "s1"]) && !is_allowed(&rules, 1, &["s2"]) && !is_allowed(&rules, 1, &[]));
        assert!(!is_allowed(&rules, 3, &["s1"]), "a certificate of another switch");
        rules.unlisted = UnlistedDatapaths::Certificate;
        for (name, is_own) in [("00000000000000a1.example", true), ("a1", true), ("a2", false), ("x.a1", false)] {
            assert_eq!(is_allowed(&rules, 0xa1, &[name]), is_own, "{name}");
        }
        assert!(!is_allowed(&rules, 1, &["0000000000000001"]), "a listed id has its own name");
    }
}
