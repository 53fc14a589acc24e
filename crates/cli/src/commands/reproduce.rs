//! `anabranch reproduce`: the published numbers of documents, compared with new results.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table};
use experiment::Experiment;
use experiment::reproduction::{
    self, EntryResult, Grade, Index, Reproduction, ValidationResult, ValidationRow, ValidationVerdict, Verdict,
};
use experiment::runner::{Runner, Simulator};
use experiment::summary::Summary;

use crate::error::CliError;
use crate::results::{self, Machines, RunArgs};

/// Repeat the experiments of published documents, and report which of their numbers are reproduced
///
/// Experiment files represent the experiments of each document. The index in the document's folder
/// (reproduce.toml) assigns a figure and a tolerance band to each printed number. Every verdict
/// refers to a results folder. Existing runs are not repeated, so an interrupted reproduction
/// resumes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  anabranch reproduce e3.1\n  anabranch reproduce f4\n  anabranch reproduce all --out results/reproduce"
)]
pub struct Args {
    /// An experiment (e2.1), a document (f2), or all
    #[arg(value_name = "ID|DOCUMENT|all", default_value = "all")]
    what: String,
    /// Platform; on the testbed, results of real switches are compared with the simulator
    #[arg(long, value_enum, default_value = "sim")]
    platform: Platform,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results/reproduce")]
    out: PathBuf,
    /// List the experiments, their numbers and their runs, and run nothing
    #[arg(long)]
    list: bool,
    /// Folder with the documents' folders
    #[arg(long, value_name = "DIR", default_value = "experiments", value_parser = crate::shipped::path)]
    folder: PathBuf,
    #[command(flatten)]
    on: Machines,
    /// Judge the runs of each of two balancers as those of the other, to test the verdicts: claims
    /// that distinguish them must turn
    #[arg(long, num_args = 2, value_names = ["BALANCER", "BALANCER"])]
    swap: Vec<String>,
    /// Print the table only
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Platform {
    /// The packet simulator.
    Sim,
    /// Mininet and Open vSwitch; needs root.
    Testbed,
}

struct Asked {
    index: Index,
    ids: Vec<String>,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    let asked = asked(args)?;
    match (args.list, args.platform) {
        (true, _) => list(&asked),
        (false, Platform::Sim) => simulate(args, &asked),
        (false, Platform::Testbed) => emulate(args, &asked),
    }
}

/// Reads and checks all indexes before anything runs.
fn asked(args: &Args) -> Result<Vec<Asked>, CliError> {
    let files = index_files(&args.folder)?;
    let indexes: Vec<Index> = files.iter().map(|file| Index::load(file)).collect::<Result<_, _>>()?;
    let known: Vec<String> = indexes
        .iter()
        .flat_map(|index| {
            [index.document.clone()].into_iter().chain(index.entries.iter().map(|entry| entry.id.clone()))
        })
        .chain(["all".to_owned()])
        .map(|name| name.to_lowercase())
        .collect();
    let of = |index: Index| Asked { ids: index.ids_of(&args.what), index };
    let asked: Vec<Asked> = indexes.into_iter().map(of).filter(|asked| !asked.ids.is_empty()).collect();
    if asked.is_empty() {
        let failure = CliError::new(format!("there is no document or experiment `{}`", args.what));
        let hint = net::did_you_mean::suggestion(&args.what.to_lowercase(), known.iter().map(String::as_str));
        return Err(failure.with_hint(hint));
    }
    Ok(asked)
}

const WHERE_FROM: &str = "name the folder `experiments` of the repository with --folder, or leave it out";

/// Returns `reproduce.toml` of every folder, ordered by name.
fn index_files(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let unread = |cause: io::Error| {
        let failure = CliError::new(format!("cannot read the folder {}", folder.display())).caused_by(cause);
        failure.with_hint(WHERE_FROM)
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        let file = entry.map_err(unread)?.path().join("reproduce.toml");
        if file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        let failure = CliError::new(format!("no folder in {} has a reproduce.toml", folder.display()));
        return Err(failure.with_hint(WHERE_FROM));
    }
    Ok(files)
}

fn list(asked: &[Asked]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    for Asked { index, ids } in asked {
        writeln!(out, "{}: {} ({})", index.document, index.title, index.source)?;
        for entry in index.entries.iter().filter(|entry| ids.contains(&entry.id)) {
            let numbers = index.numbers.iter().filter(|number| number.claim.id == entry.id).count();
            let own = [entry.id.clone()];
            let runs = index.runs_of(&own);
            let files: Vec<String> = runs.iter().map(|run| described(&index.runs[*run])).collect();
            let real = index.testbed.iter().filter(|run| run.ids.contains(&entry.id));
            let real: Vec<&str> = real.map(|run| run.file.as_str()).collect();
            writeln!(out, "  {} {} ({})", entry.id, entry.question, entry.section)?;
            writeln!(out, "      {numbers} numbers from {}", files.join(", "))?;
            if !real.is_empty() {
                writeln!(out, "      on the testbed: {}", real.join(", "))?;
            }
        }
    }
    Ok(out.flush()?)
}

/// Such as `e3.1.toml (100 runs, 5 of 10 seeds)`.
fn described(run: &reproduction::Run) -> String {
    let seeds = run.experiment.seeds.len();
    let few =
        if seeds < run.seeds_of_file { format!(", {seeds} of {} seeds", run.seeds_of_file) } else { String::new() };
    format!("{} ({} runs{few})", run.file, run.experiment.run_count())
}

fn run_args(args: &Args) -> RunArgs {
    RunArgs {
        out: None,
        on: args.on.clone(),
        threads: None,
        quiet: args.quiet,
        no_flows: true,
        write_flow_lists: false,
    }
}

fn folder(args: &Args, index: &Index, name: &str) -> PathBuf {
    args.out.join(index.document.to_lowercase()).join(name)
}

fn simulate(args: &Args, asked: &[Asked]) -> Result<(), CliError> {
    let began = Instant::now();
    let total: usize = asked.iter().map(|asked| asked.index.runs_of(&asked.ids).len()).sum();
    let mut done = 0;
    let mut documents = Vec::new();
    for Asked { index, ids } in asked {
        let mut summaries: BTreeMap<usize, Summary> = BTreeMap::new();
        for run in index.runs_of(ids) {
            let plan = &index.runs[run];
            done += 1;
            if !args.quiet {
                eprintln!("[{done} of {total}, {:.0} s] {}", began.elapsed().as_secs_f64(), described(plan));
            }
            let out = folder(args, index, &plan.name);
            let summary =
                results::execute_in(&Simulator, &plan.experiment, &out, &RunArgs { quiet: true, ..run_args(args) })?;
            summaries.insert(run, summary);
        }
        if let [one, other] = args.swap.as_slice() {
            let count = reproduction::swap(index, &mut summaries, one, other);
            eprintln!("{}: {count} runs of `{one}` and `{other}` are judged as those of the other", index.document);
        }
        documents.push(reproduction::judge(index, ids, &summaries));
    }
    let reproduction = Reproduction::new(documents);
    let report = reproduction.write(&args.out)?;
    let mut stdout = io::stdout().lock();
    // The numbers of one document fit on a screen; for all documents they are in the report.
    if asked.len() == 1 {
        for entry in reproduction.entries() {
            writeln!(stdout, "{} {}", entry.id, entry.question)?;
            writeln!(stdout, "{}", numbers(entry))?;
        }
    }
    writeln!(stdout, "{}", entries(&reproduction))?;
    if !args.quiet {
        writeln!(stdout, "{}", reproduction::claims_text(&reproduction))?;
        writeln!(stdout, "report: {}", report.display())?;
    }
    Ok(stdout.flush()?)
}

fn entries(reproduction: &Reproduction) -> Table {
    let mut table =
        table(&["id", "experiment: number that decides strictly", "grade", "strict", "printed", "measured", "why"]);
    for entry in reproduction.entries() {
        // The number that decides the verdict, otherwise the first one.
        let deciding = entry.numbers.iter().find(|number| number.verdict == Some(entry.verdict));
        let Some(number) = deciding.or(entry.numbers.first()) else { continue };
        table.add_row([
            Cell::new(&entry.id).add_attribute(Attribute::Bold),
            Cell::new(format!("{}\n{}", entry.question, number.what)),
            grade(entry.grade),
            verdict(entry.verdict),
            Cell::new(&number.printed),
            Cell::new(&number.measured),
            Cell::new(entry.why()),
        ]);
    }
    table
}

fn numbers(entry: &EntryResult) -> Table {
    let mut table = table(&["number", "kind", "printed", "measured", "expected", "bound", "verdict"]);
    for number in &entry.numbers {
        table.add_row([
            Cell::new(&number.what),
            Cell::new(reproduction::kind_text(number)),
            Cell::new(&number.printed),
            Cell::new(&number.measured),
            Cell::new(&number.band),
            Cell::new(&number.bound),
            number.verdict.map_or_else(|| Cell::new("–"), verdict),
        ]);
    }
    table
}

fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(headings.to_vec());
    // Reasons are sentences: in a file or pipe they are wrapped as on a wide terminal.
    if table.width().is_none() {
        table.set_width(160);
    }
    table
}

fn grade(grade: Grade) -> Cell {
    let cell = Cell::new(grade.as_str());
    match grade {
        grade if grade.holds() => cell.fg(Color::Green),
        Grade::Contradicted => cell.fg(Color::Red).add_attribute(Attribute::Bold),
        _ => cell.fg(Color::Yellow),
    }
}

fn verdict(verdict: Verdict) -> Cell {
    let cell = Cell::new(verdict.as_str());
    match verdict {
        Verdict::Exact | Verdict::Reproduced => cell.fg(Color::Green),
        Verdict::DocumentInconsistent | Verdict::DirectionOnly => cell.fg(Color::Yellow),
        Verdict::NotReproduced => cell.fg(Color::Red).add_attribute(Attribute::Bold),
    }
}

/// Runs each file on both platforms, one after another: real switches need the whole machine.
fn emulate(args: &Args, asked: &[Asked]) -> Result<(), CliError> {
    let is_asked = |ids: &[String], run: &reproduction::TestbedRun| run.ids.iter().any(|id| ids.contains(id));
    let count: usize =
        asked.iter().map(|asked| asked.index.testbed.iter().filter(|run| is_asked(&asked.ids, run)).count()).sum();
    if count == 0 {
        let failure = CliError::new(format!("nothing of `{}` runs on the testbed", args.what));
        return Err(failure.with_hint("`anabranch reproduce all --list` says what does"));
    }
    let testbed = super::testbed::testbed()?;
    let done = both_platforms(args, asked, &testbed, &is_asked);
    // The network is removed before results are reported, so that a failure leaves a clean machine.
    let closed = testbed.close().map_err(|error| CliError::of(&error));
    let rows = done.and_then(|rows| closed.map(|()| rows))?;
    let result = ValidationResult::new(rows);
    let report = result.write(&args.out)?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", validation_table(&result))?;
    if !args.quiet {
        writeln!(stdout, "report: {}", report.display())?;
    }
    Ok(stdout.flush()?)
}

fn both_platforms(
    args: &Args,
    asked: &[Asked],
    testbed: &dyn Runner,
    is_asked: &dyn Fn(&[String], &reproduction::TestbedRun) -> bool,
) -> Result<Vec<ValidationRow>, CliError> {
    let run_args = run_args(args);
    let mut rows = Vec::new();
    for Asked { index, ids } in asked {
        for run in index.testbed.iter().filter(|run| is_asked(ids, run)) {
            let at = |platform: &str| folder(args, index, &run.name).join(platform);
            let both = |platform: &dyn Runner, experiment: &Experiment, name: &str| {
                results::execute_in(platform, experiment, &at(name), &run_args)
            };
            let simulated = both(&Simulator, &run.simulated, "sim")?;
            let emulated = both(testbed, &run.emulated, "testbed")?;
            rows.push(ValidationRow::of(&index.document, run, &simulated, &emulated));
        }
    }
    Ok(rows)
}

fn validation_table(result: &ValidationResult) -> Table {
    let mut table = table(&["ids", "file", "verdict", "why"]);
    for row in &result.rows {
        let verdict = Cell::new(row.verdict.as_str());
        table.add_row([
            Cell::new(row.ids.join(", ")).add_attribute(Attribute::Bold),
            Cell::new(&row.file),
            match row.verdict {
                ValidationVerdict::Reproduced => verdict.fg(Color::Green),
                ValidationVerdict::ClaimsBroken | ValidationVerdict::Explained => verdict.fg(Color::Yellow),
                ValidationVerdict::Differ | ValidationVerdict::Nothing => {
                    verdict.fg(Color::Red).add_attribute(Attribute::Bold)
                }
            },
            Cell::new(&row.reason),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "name = \"two\"\nbalancers = [\"spt\", \"ecmp\"]\n[topology]\n\
        spec = \"leaf-spine:leaves=2,spines=2,hosts_per_leaf=2\"\n[traffic]\nworkload = \"fixed:size=10KB\"\n\
        load = [0.1]\nflows = 20\n[validation]\nmetrics = [\"fct_mean_us\"]\n";
    const INDEX: &str = "document = \"D1\"\ntitle = \"t\"\nsource = \"s\"\n[[experiment]]\nid = \"E1\"\nquestion = \"q\"\n\
        section = \"1\"\n[[run]]\nfile = \"two.toml\"\n[[testbed]]\nfile = \"two.toml\"\nids = [\"E1\"]\nseeds = 1\n\
        [[number]]\nid = \"E1\"\nclaim = \"c\"\nprinted = \"1\"\nkind = \"check\"\nmetric = \"slowdown_min\"\nbalancer = \"spt\"\nabove = 1\n";

    /// The simulator replaces the testbed: both platforms run, are stored separately and compared.
    #[test]
    fn both_platforms_are_run_into_separate_folders_and_compared() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("two.toml"), FILE).expect("the folder is writable");
        std::fs::write(folder.path().join("reproduce.toml"), INDEX).expect("the folder is writable");
        let index = Index::load(&folder.path().join("reproduce.toml")).unwrap_or_else(|error| panic!("{error}"));
        let args = Args {
            what: "all".to_owned(),
            platform: Platform::Testbed,
            out: folder.path().join("out"),
            list: false,
            folder: folder.path().to_owned(),
            on: Machines { jobs: Some(1), on: None },
            swap: Vec::new(),
            quiet: true,
        };
        let asked = [Asked { ids: index.ids_of("all"), index }];
        let is_asked = |ids: &[String], run: &reproduction::TestbedRun| run.ids.iter().any(|id| ids.contains(id));
        let rows = both_platforms(&args, &asked, &Simulator, &is_asked).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(rows[0].verdict, ValidationVerdict::Reproduced);
        assert_eq!(rows[0].validation.rows.len(), 2, "one figure of each balancer, from the seed both have");
        assert!(rows[0].validation.rows.iter().all(|row| row.seeds == 1 && row.difference == 0.0));
        for platform in ["sim", "testbed"] {
            assert!(args.out.join("d1/two").join(platform).join("summary.json").is_file(), "{platform}");
        }

        // Shown on a separate page, and on the simulator's page if it exists, in either order of
        // the runs.
        let page = || std::fs::read_to_string(args.out.join("report.html")).expect("a page");
        let (title, figure) = ("Printed results of the documents", "href=\"d1/two/testbed/report.html\"");
        ValidationResult::new(rows.clone()).write(&args.out).expect("the folder is writable");
        assert!(!page().contains(title) && page().contains(figure));
        let sim = Args { platform: Platform::Sim, ..args };
        simulate(&sim, &asked).unwrap_or_else(|failure| panic!("{failure}"));
        let page = || std::fs::read_to_string(sim.out.join("report.html")).expect("a page");
        let both = page();
        assert!(both.contains(title) && both.contains(figure));
        ValidationResult::new(rows).write(&sim.out).expect("the folder is writable");
        assert!(page() == both, "the same page in either order");
    }
}
