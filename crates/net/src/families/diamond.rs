//! Diamond: one sender, one receiver, two paths: the smallest network with a choice.

use super::above_zero;
use crate::spec::{Family, Param, SpecError, Values};
use crate::topology::{Topology, TopologyBuilder, TopologyError};
use crate::units::{Bandwidth, Time};

const NAME: &str = "diamond";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiamondForm {
    /// h1 - S1 - {S2 | S3} - S4 - h2, published with 100 Mb/s links.
    TwoPaths,
    /// h1 - S1 - {S3 | S4} - S2 - h2, published with 1 Mb/s links, for the migration of flows.
    Migration,
}

/// Parameters of a diamond. Delays are not published; 1 us is assumed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diamond {
    pub form: DiamondForm,
    /// Rate of every link; `None` for the published one.
    pub rate: Option<Bandwidth>,
    pub delay: Time,
}

impl Default for Diamond {
    fn default() -> Diamond {
        FAMILY.defaults(from_values)
    }
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

    pub fn build(&self) -> Result<Topology, TopologyError> {
        let rate = self.rate();
        above_zero(NAME, "rate", rate)?;
        let (name, middle, last) = match self.form {
            DiamondForm::TwoPaths => ("two-paths", [1, 2], 3),
            DiamondForm::Migration => ("migration", [2, 3], 1),
        };
        let mut b = TopologyBuilder::new(format!("{NAME}:form={name}"));
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
        b.build()
    }
}

pub const FAMILY: Family = Family {
    name: NAME,
    title: "Diamond: two hosts, two paths",
    source: "founding document 002: the two-path example (figure 2) and the migration testbed",
    params: &[
        Param::new("form", "two-paths", "name", "`two-paths` or `migration`"),
        Param::new("rate", "100Mbps, or 1Mbps for migration", "bandwidth", "rate of every link"),
        Param::DELAY,
    ],
    build: |values| Ok(from_values(values)?.build()?),
};

fn from_values(values: &Values) -> Result<Diamond, SpecError> {
    let forms = [DiamondForm::TwoPaths, DiamondForm::Migration];
    Ok(Diamond {
        form: forms[values.choice("form", &["two-paths", "migration"])?],
        rate: values.optional_rate("rate")?,
        delay: values.time("delay")?,
    })
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
