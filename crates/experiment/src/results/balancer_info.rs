//! Descriptions of balancers from the registry, for reports.

use serde::{Deserialize, Serialize};

use crate::results::bounds;

#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct BalancerInfo {
    pub label: String,
    /// Human-readable name; the label if the registry does not know the balancer.
    pub title: String,
    /// One sentence on its method; empty if the registry does not know the balancer.
    pub summary: String,
    pub source: String,
    pub senses: String,
    pub is_bound: bool,
    pub parameters: Vec<Setting>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Setting {
    pub name: String,
    pub value: String,
    /// Unit of a number; empty for none.
    pub unit: String,
    pub meaning: String,
}

impl BalancerInfo {
    /// Describes a balancer by its label, with the values of its parameters from a run. Results of
    /// another version of this program may contain balancers and parameters the registry does not
    /// know; those have only names and values.
    pub fn of(label: &str, parameters: &[(String, String)]) -> BalancerInfo {
        let entry = balance::registry::find(bounds::name_of(label)).ok();
        let setting = |(name, value): &(String, String)| {
            let known = entry.and_then(|entry| entry.params.iter().find(|param| param.name == name));
            Setting {
                name: name.clone(),
                value: value.clone(),
                unit: known.map_or("", |param| param.unit).to_owned(),
                meaning: known.map_or("", |param| param.doc).to_owned(),
            }
        };
        let text = |of: fn(&balance::Entry) -> &'static str| entry.map_or("", of).to_owned();
        BalancerInfo {
            label: label.to_owned(),
            title: entry.map_or(label, |entry| entry.title).to_owned(),
            summary: text(|entry| entry.summary),
            source: text(|entry| entry.source),
            senses: text(|entry| entry.senses),
            is_bound: entry.is_some_and(balance::Entry::is_bound),
            parameters: parameters.iter().map(setting).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_balancers_have_descriptions_and_unknown_ones_labels() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let ecmp = BalancerInfo::of("ecmp:hash=threshold", &[pair("hash", "threshold"), pair("gone", "1")]);
        assert_eq!(ecmp.title, balance::registry::find("ecmp").unwrap().title);
        assert!(!ecmp.summary.is_empty() && !ecmp.parameters[0].meaning.is_empty());
        assert_eq!((ecmp.parameters[1].value.as_str(), ecmp.parameters[1].meaning.as_str()), ("1", ""));
        let gone = BalancerInfo::of("gone:x=1", &[]);
        assert_eq!((gone.title.as_str(), gone.summary.as_str()), ("gone:x=1", ""));
    }
}
