//! The registry of flow-size distributions, and the texts that choose one.

use net::Bytes;

use crate::cdf::parse_cdf;
use crate::sizes::{SizeDistribution, SizeError};
use net::spec_text::{Param, Spec, SpecError};

/// A published flow-size distribution built into the program.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    /// A description in one line.
    pub title: &'static str,
    pub source: &'static str,
    /// Its table, as in `data/workloads`.
    pub table: &'static str,
}

macro_rules! workload {
    ($name:literal, $title:literal, $source:literal) => {
        Workload {
            name: $name,
            title: $title,
            source: $source,
            table: include_str!(concat!("../../../data/workloads/", $name, ".cdf")),
        }
    };
}

/// All built-in distributions. Their statistics are in `data/workloads/README.md`.
#[rustfmt::skip]
pub const WORKLOADS: &[Workload] = &[
    workload!("web-search", "web search cluster; mean 1.71 MB", "DCTCP, SIGCOMM 2010"),
    workload!("web-search-pfabric", "web search in packets of 1460 B", "pFabric and pHost simulator"),
    workload!("web-search-opera", "web search, re-read from the figure", "Opera, NSDI 2020"),
    workload!("data-mining", "data mining cluster; mean 12.7 MB, 2 % of flows above 100 MB", "VL2, SIGCOMM 2009"),
    workload!("data-mining-pfabric", "data mining in packets of 1460 B; mean 7.5 MB", "pFabric and pHost simulator"),
    workload!("data-mining-opera", "data mining, re-read from the figure; mean 5.0 MB", "Opera, NSDI 2020"),
    workload!("imc10", "university and enterprise data centres", "Benson et al., IMC 2010; pHost simulator"),
    workload!("fb-hadoop", "Facebook Hadoop, all destinations (Homa W4)", "Roy et al., SIGCOMM 2015; HomaModule"),
    workload!("fb-hadoop-interrack-opera", "Facebook Hadoop, between racks only", "Roy et al., SIGCOMM 2015; Opera, NSDI 2020"),
    workload!("fb-memcached-w1", "Facebook memcached values (Homa W1), messages", "Atikoglu et al., SIGMETRICS 2012; HomaModule"),
    workload!("google-allrpc", "Google data-centre RPCs (Homa W3), messages", "Homa, SIGCOMM 2018; HomaModule"),
    workload!("alistorage2019", "Alibaba storage, 2019", "HPCC, SIGCOMM 2019"),
    workload!("solar2022", "Alibaba elastic block storage, 2022", "Solar, SIGCOMM 2022"),
    workload!("internet-agh2015", "Internet access of a university, for wide-area traffic", "Jurkiewicz et al., flow-models"),
    workload!("bimodal-f3", "10 KB and 1 MB, 1.5 % large as the counts are printed; mean 24.85 KB", "founding document F3"),
    workload!("bimodal-f3-printed-mean", "10 KB and 1 MB, 1 % large as the mean is printed; mean 19.9 KB", "founding document F3"),
];

/// Known distributions without a licence to ship them (published under the GPL or without a
/// licence). They are read from a file instead.
pub const NOT_SHIPPED: &[&str] = &[
    "enterprise",
    "fb-cachefollower",
    "fb-webserver",
    "fb-hadoop-hpcc",
    "fb-memcached",
    "web-search-abm",
    "web-search-conweave",
    "web-search-homa-w5",
    "data-mining-conga",
    "data-mining-conweave",
    "fb-cachefollower-conweave",
    "fb-webserver-conweave",
    "google-rpc2008-conweave",
];

/// Parameterised distributions, for the reference: name, what it is, parameters.
pub const PARAMETRIC: &[(&str, &str, &[Param])] = &[
    ("fixed", "every flow has the same size", &[Param::new("size", "required", "size of every flow, such as 1MB")]),
    (
        "uniform",
        "every size in a range is equally likely",
        &[
            Param::new("min", "required", "smallest size, such as 1KB"),
            Param::new("max", "required", "largest size, such as 10KB"),
        ],
    ),
    (
        "bimodal",
        "two sizes",
        &[
            Param::new("small", "required", "the smaller size, such as 10KB"),
            Param::new("large", "required", "the larger size, such as 1MB"),
            Param::new("large_share", "required", "share of flows that have the larger size, 0 to 1"),
        ],
    ),
    (
        "file",
        "a table of `size_bytes cumulative_probability` lines",
        &[Param::new("path", "required", "the file; everything after `path=` belongs to it")],
    ),
];

/// Makes the distribution a text asks for: `web-search`, `fixed:size=1MB`,
/// `uniform:min=1KB,max=10KB`, `bimodal:small=10KB,large=1MB,large_share=0.015` or
/// `file:path=TABLE.cdf`.
///
/// `read` is called with the path of a `file:` workload, since this crate touches no files; it
/// returns the text of the file or the reason why it cannot be read.
pub fn parse_workload(
    text: &str,
    read: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<SizeDistribution, SpecError> {
    if let Some(path) = text.strip_prefix("file:path=") {
        let unreadable = |reason| SpecError(format!("cannot read the flow-size table {path}: {reason}"));
        return parse_cdf(path, &read(path).map_err(unreadable)?).map_err(|error| SpecError(error.to_string()));
    }
    let spec = Spec::parse("workload", text)?;
    if let Some(workload) = WORKLOADS.iter().find(|workload| workload.name == spec.name) {
        spec.with(&[])?;
        return Ok(workload.distribution());
    }
    if NOT_SHIPPED.contains(&spec.name) {
        let why = "as its table has no licence to copy it; get the table and give `file:path=TABLE.cdf`";
        return Err(SpecError(format!("workload `{}` is not built in, {why}", spec.name)));
    }
    let Some((_, _, parameters)) = PARAMETRIC.iter().find(|(name, _, _)| *name == spec.name) else {
        let known = WORKLOADS.iter().map(|workload| workload.name).chain(PARAMETRIC.iter().map(|(name, _, _)| *name));
        return Err(spec.unknown_name(known));
    };
    parametric(&spec.with(parameters)?)?.map_err(|cause| SpecError(format!("workload `{text}`: {cause}")))
}

fn parametric(spec: &Spec<'_>) -> Result<Result<SizeDistribution, SizeError>, SpecError> {
    let size = |key| spec.get::<Bytes>(key).map(Bytes::as_u64);
    Ok(match spec.name {
        "fixed" => SizeDistribution::fixed(size("size")?),
        "uniform" => SizeDistribution::uniform(size("min")?, size("max")?),
        "bimodal" => {
            let share = spec.get("large_share")?;
            SizeDistribution::bimodal(size("small")?, size("large")?, share)
        }
        // `file:` with its path was handled before; this one has none.
        _ => {
            spec.get::<String>("path")?;
            return Err(spec.wrong("path", "write it directly after the colon: `file:path=TABLE.cdf`"));
        }
    })
}

impl Workload {
    pub fn named(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    pub fn distribution(&self) -> SizeDistribution {
        parse_cdf(self.name, self.table).expect("built-in tables are read by a test of this crate")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SizeDistribution, SpecError> {
        parse_workload(text, &mut |path| match path {
            "a,b=c.cdf" => Ok("0 0\n10 1\n".to_owned()),
            _ => Err("no such file".to_owned()),
        })
    }

    #[test]
    fn every_kind_of_text_makes_its_distribution() {
        for (text, mean) in [
            ("web-search", 1_711_250.0),
            ("fixed:size=1MB", 1e6),
            ("uniform:min=1KB,max=10KB", 5_500.0),
            ("bimodal:small=10KB,large=1MB,large_share=0.01", 19_900.0),
            ("file:path=a,b=c.cdf", 5.0),
        ] {
            assert!((parse(text).unwrap().mean_bytes() - mean).abs() < 1e-6, "{text}");
        }
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, message) in [
            ("websearch", "there is no workload called `websearch`; did you mean `web-search`?"),
            ("fixed:sise=1MB", "workload `fixed` has no parameter `sise`; did you mean `size`?"),
            ("fixed", "workload `fixed` needs `size`; write `fixed:size=...`"),
            ("fixed:size=0B", "workload `fixed:size=0B`: a flow needs at least 1 byte; give a size of 1 B or more"),
            ("web-search:scale=2", "workload `web-search` has no parameter `scale`; none are known"),
            ("file:path=x", "cannot read the flow-size table x: no such file"),
            ("file", "workload `file` needs `path`; write `file:path=...`"),
            (
                "enterprise",
                "workload `enterprise` is not built in, as its table has no licence to copy it; get the table and give `file:path=TABLE.cdf`",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
        let message = parse("fixed:size=1").unwrap_err().to_string();
        assert!(message.contains("the unit is missing"), "{message}");
    }
}
