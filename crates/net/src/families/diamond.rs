//! Diamond: one sender, one receiver, two paths: the smallest network with a choice.

use super::Parameter;
use crate::did_you_mean;
use crate::spec_text::Value;
use crate::topology::{TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiamondForm {
    /// h1 - S1 - {S2 | S3} - S4 - h2, published with 100 Mb/s links.
    TwoPaths,
    /// h1 - S1 - {S3 | S4} - S2 - h2, published with 1 Mb/s links, for the migration of flows.
    Migration,
}

impl DiamondForm {
    const ALL: [(&str, DiamondForm); 2] = [("two-paths", DiamondForm::TwoPaths), ("migration", DiamondForm::Migration)];
}

impl Value for DiamondForm {
    fn read(text: &str) -> Result<DiamondForm, String> {
        let found = DiamondForm::ALL.into_iter().find(|(name, _)| *name == text);
        let unknown = || did_you_mean::suggestion(text, DiamondForm::ALL.map(|(name, _)| name));
        found.map(|(_, form)| form).ok_or_else(unknown)
    }
}

impl Parameter for DiamondForm {
    fn named(&self) -> Option<String> {
        DiamondForm::ALL.into_iter().find(|(_, form)| form == self).map(|(name, _)| name.to_owned())
    }
}

family! {
    /// Parameters of a diamond. Delays are not published; 1 us is assumed.
    Diamond: "diamond",
    title: "Diamond: two hosts, two paths",
    source: "founding document 002: the two-path example (figure 2) and the migration testbed",
    form: DiamondForm = ("two-paths", "`two-paths` or `migration`"),
    /// Rate of every link; `None` for the published one.
    rate: Option<Bandwidth> = ("100Mbps, or 1Mbps for migration", "rate of every link"),
    delay: Time = ("1us", "propagation delay of every link"),
}

impl Diamond {
    pub fn rate(&self) -> Bandwidth {
        self.rate.unwrap_or(match self.form {
            DiamondForm::TwoPaths => Bandwidth::from_mbps(100),
            DiamondForm::Migration => Bandwidth::from_mbps(1),
        })
    }
    /// Returns the smallest capacity between the two hosts: one link.
    pub fn bisection(&self) -> Bandwidth {
        self.rate()
    }

    fn check(&self) -> Result<(), TopologyError> {
        Ok(())
    }

    fn add_to(&self, b: &mut TopologyBuilder) {
        let rate = self.rate();
        let (middle, last) = match self.form {
            DiamondForm::TwoPaths => ([1, 2], 3),
            DiamondForm::Migration => ([2, 3], 1),
        };
        let (h1, h2) = (b.host("h1", 0, None), b.host("h2", 1, None));
        let switches: [_; 4] = std::array::from_fn(|i| {
            let tier = if middle.contains(&i) { 2 } else { 1 };
            b.switch(format!("S{}", i + 1), tier, None)
        });
        b.connect(h1, switches[0], rate, self.delay);
        b.connect(h2, switches[last], rate, self.delay);
        for i in middle {
            b.connect(switches[0], switches[i], rate, self.delay);
            b.connect(switches[i], switches[last], rate, self.delay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::paths;
    use super::*;

    #[test]
    fn both_forms_have_two_paths() {
        let mut diamond = Diamond::default();
        let topology = diamond.build().unwrap();
        assert_eq!(paths(&topology, "S1", "S4"), (2, 2));
        assert_eq!(topology.links()[0].rate, Bandwidth::from_mbps(100));
        diamond.form = DiamondForm::Migration;
        let topology = diamond.build().unwrap();
        assert_eq!(paths(&topology, "S1", "S2"), (2, 2));
        assert_eq!(topology.links()[0].rate, Bandwidth::from_mbps(1));
    }
}
