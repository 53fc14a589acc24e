//! The built-in flow-size tables, and any other in the format, have the published statistics.

use anabranch_traffic::{SizeDistribution, WORKLOADS, parse_cdf, parse_workload};
use std::io::Write as _;
use std::path::Path;

/// Name; mean, median, p99 and largest size in bytes; percent of flows below 100 kB; percent of
/// bytes in flows above 1 MB; coefficient of variation.
type Statistics = (&'static str, f64, u64, u64, u64, f64, f64, f64);

/// The statistics of `data/workloads/README.md`, computed by an independent program.
fn built_in() -> Vec<Statistics> {
    let rows = include_str!("../../../../data/workloads/README.md").lines().filter(|line| line.starts_with("| `"));
    let statistics = |row: &'static str| {
        let columns: Vec<&str> = row.split('|').map(|column| column.trim().trim_matches('`')).collect();
        let share = |ix: usize| columns[ix].parse::<f64>().unwrap();
        let bytes = |ix: usize| columns[ix].parse::<u64>().unwrap();
        (columns[1], share(4), bytes(5), bytes(6), bytes(7), share(8), share(9), share(10))
    };
    rows.map(statistics).collect()
}

/// Tables that are not shipped, by their file names in a data folder.
#[rustfmt::skip]
const SHARED: &[Statistics] = &[
    ("alistorage2019", 40_870.0, 6_340, 1_293_927, 2_000_000, 95.35, 51.98, 4.69),
    ("bimodal_ucsc", 24_850.0, 10_000, 1_000_000, 1_000_000, 98.50, 0.00, 4.84),
    ("datamining", 12_658_199.0, 1_100, 550_000_000, 1_000_000_000, 82.31, 99.77, 6.77),
    ("enterprise", 1_559_720.0, 1_060, 1_289_882, 947_194_795, 95.79, 99.04, 21.13),
    ("fb_cachefollower", 692_976.0, 28_270, 3_105_433, 3_837_698, 53.20, 91.63, 1.47),
    ("fb_hadoop", 127_797.0, 662, 3_430_822, 10_000_000, 88.68, 74.74, 5.55),
    ("fb_hadoop_hpcc", 120_421.0, 700, 2_000_000, 10_000_000, 88.50, 68.51, 5.56),
    ("fb_memcached_homa_w1", 188.0, 27, 1_876, 100_000, 100.00, 0.00, 2.49),
    ("fb_webserver", 62_874.0, 3_464, 565_213, 1_000_000, 81.41, 0.00, 2.08),
    ("google_allrpc", 2_927.0, 268, 31_013, 15_158_197, 99.59, 25.94, 22.96),
    ("websearch", 1_711_250.0, 73_077, 23_333_333, 30_000_000, 54.17, 94.96, 2.32),
    ("variants/datamining_conga_digitised", 11_603_660.0, 1_143, 556_323_626, 849_157_283, 82.57, 99.73, 6.75),
    ("variants/datamining_conweave_mining", 7_487_884.0, 6_288, 100_000_000, 1_000_000_000, 82.18, 99.56, 8.20),
    ("variants/fb_cachefollower_conweave", 712_574.0, 30_000, 2_940_000, 3_000_000, 52.00, 93.18, 1.42),
    ("variants/fb_memcached", 342.0, 75, 6_326, 1_000_000, 100.00, 0.00, 7.28),
    ("variants/fb_webserver_conweave", 66_121.0, 3_100, 480_000, 500_000, 80.89, 0.00, 1.95),
    ("variants/google_rpc2008_conweave", 2_968.0, 246, 30_755, 15_158_197, 99.59, 27.42, 23.62),
    ("variants/websearch_abm", 1_711_222.0, 73_077, 23_333_333, 30_000_000, 54.17, 94.96, 2.32),
    ("variants/websearch_conweave_search", 1_710_004.0, 68_571, 23_333_333, 30_000_000, 54.29, 95.03, 2.32),
    ("variants/websearch_homa_w5", 2_547_268.0, 71_540, 27_253_820, 29_200_000, 54.31, 96.57, 2.39),
];

fn check(sizes: &SizeDistribution, expected: &Statistics) {
    let (name, mean, median, p99, largest, below, above, variation) = *expected;
    let near = |what: &str, found: f64, wanted: f64, off: f64| {
        assert!((found - wanted).abs() <= off, "{name}: {what} {found}, not {wanted}");
    };
    near("mean", sizes.mean_bytes(), mean, 0.51);
    near("median", sizes.quantile(0.5) as f64, median as f64, 1.0);
    near("p99", sizes.quantile(0.99) as f64, p99 as f64, 1.0);
    assert_eq!(sizes.largest_bytes(), largest, "{name}");
    near("flows below 100 kB", 100.0 * sizes.flows_below(1e5), below, 0.006);
    near("bytes above 1 MB", 100.0 * sizes.bytes_share_above(1e6), above, 0.006);
    near("variation", sizes.coefficient_of_variation(), variation, 0.006);
}

#[test]
fn built_in_workloads_have_the_published_statistics() {
    let published = built_in();
    assert_eq!(published.len(), WORKLOADS.len());
    for workload in WORKLOADS {
        let expected = published.iter().find(|(name, ..)| *name == workload.name);
        let expected = expected.unwrap_or_else(|| panic!("{} has no expected statistics", workload.name));
        check(&workload.distribution(), expected);
    }
}

#[test]
fn every_built_in_table_says_where_it_comes_from() {
    for workload in WORKLOADS {
        for key in ["# interpolation: ", "# source: ", "# licence: "] {
            assert!(workload.table.contains(key), "{} lacks `{key}`", workload.name);
        }
        assert!(!workload.title.is_empty() && !workload.source.is_empty());
    }
}

#[test]
fn names_are_unique_and_in_kebab_case() {
    let mut names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(names.iter().all(|name| name.chars().all(fine)));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), WORKLOADS.len());
}

/// Tables without a licence to copy them are read from a folder of the developer's.
#[test]
fn tables_from_a_data_folder_have_the_published_statistics() {
    let Some(folder) = std::env::var_os("ANABRANCH_SHARED_DATA") else {
        // Written past the test runner, which hides what passing tests print.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {} tables that may not be copied are not checked; set ANABRANCH_SHARED_DATA to a folder holding workloads/*.cdf",
            SHARED.len()
        );
        return;
    };
    for expected in SHARED {
        let path = Path::new(&folder).join("workloads").join(format!("{}.cdf", expected.0));
        let text = format!("file:path={}", path.display());
        let sizes = parse_workload(&text, &mut |path| std::fs::read_to_string(path).map_err(|cause| cause.to_string()));
        check(&sizes.unwrap_or_else(|cause| panic!("{cause}")), expected);
    }
    let _ = writeln!(std::io::stderr(), "checked {} tables of the data folder", SHARED.len());
}

#[test]
fn draws_from_a_table_approach_its_distribution() {
    let sizes = parse_cdf("w", WORKLOADS[0].table).unwrap();
    let mut stream = net::RandomStream::new(11, "sizes");
    let count = 200_000;
    let drawn: Vec<u64> = (0..count).map(|_| sizes.sample(&mut stream)).collect();
    assert!(drawn.iter().all(|size| *size >= 1));
    let mean = drawn.iter().map(|size| *size as f64).sum::<f64>() / f64::from(count);
    assert!((mean / sizes.mean_bytes() - 1.0).abs() < 0.02, "{mean}");
    for size in [10_000.0, 80_000.0, 1e6, 1e7] {
        let below = drawn.iter().filter(|drawn| (**drawn as f64) < size).count() as f64;
        assert!((below / f64::from(count) - sizes.flows_below(size)).abs() < 0.005);
    }
}
