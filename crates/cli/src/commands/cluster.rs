//! `anabranch cluster`: files that run an experiment on a cluster.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::ValueEnum;
use experiment::Experiment;
use serde_json::json;

use crate::error::CliError;

/// Print the file that runs an experiment on a cluster: a script of Slurm, a manifest of Kubernetes, or
/// a configuration of Ray
///
/// The file explains itself: its first lines say how to submit it. Every kind gives the bytes of one
/// machine.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Examples:\n  anabranch cluster slurm sweep.toml > sweep.sh && sbatch sweep.sh\n  \
                        anabranch cluster kubernetes sweep.toml --image registry.example.org/anabranch > sweep.yaml\n  \
                        anabranch cluster ray sweep.toml > ray.yaml && ray up ray.yaml")]
pub struct Args {
    /// Kind of cluster that the file is for
    kind: Kind,
    /// Experiment file, as for `anabranch run`
    #[arg(value_name = "FILE.toml", value_parser = crate::shipped::path)]
    file: PathBuf,
    /// Set a key of the file, such as seeds=100
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Parts that run at the same time, or nodes of Ray [default: the number of runs, at most 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    parts: Option<u32>,
    /// Memory of a part; timings.json in the results says how much a run needed
    #[arg(long, value_name = "SIZE", default_value = "2Gi", value_parser = memory)]
    memory: Memory,
    /// Container image with the command, for Kubernetes; Containerfile makes one
    #[arg(long, value_name = "NAME", default_value = concat!("anabranch:", env!("CARGO_PKG_VERSION")), value_parser = word)]
    image: String,
    /// Persistent volume claim for the results, for Kubernetes
    #[arg(long, value_name = "NAME", default_value = "anabranch-results", value_parser = word)]
    volume: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// A job array of Slurm; its last part merges the results
    Slurm,
    /// An indexed Job of Kubernetes, and a Job that merges its parts
    Kubernetes,
    /// A cluster configuration of Ray, for `ray up`
    Ray,
}

/// Memory of one part, in mebibytes; from 16 MiB to 16 TiB.
#[derive(Clone, Copy, Debug)]
struct Memory(u64);

fn memory(text: &str) -> Result<Memory, String> {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let factor = match unit {
        "Mi" => 1,
        "Gi" => 1024,
        _ => return Err("write a number and Mi or Gi, such as 2Gi".to_owned()),
    };
    let number: u64 = text[..text.len() - unit.len()].parse().map_err(|_| "write digits before the unit".to_owned())?;
    match number.checked_mul(factor).filter(|size| (16..=1 << 24).contains(size)) {
        Some(size) => Ok(Memory(size)),
        None => Err("it must be from 16Mi to 16384Gi".to_owned()),
    }
}

/// Parses a name that is in a file without quotes.
fn word(text: &str) -> Result<String, String> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@".contains(letter);
    match !text.is_empty() && text.chars().all(is_allowed) {
        true => Ok(text.to_owned()),
        false => Err("letters, digits and -_./:@ are allowed".to_owned()),
    }
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    let experiment = Experiment::load(&args.file, &super::run::overrides(&args.set)?)?;
    let runs = experiment.run_count();
    let parts = args.parts.map_or(runs.min(32), |parts| (parts as usize).min(runs)).max(1);
    let text = match args.kind {
        Kind::Slurm => slurm(args, &experiment, parts),
        Kind::Kubernetes => kubernetes(args, &experiment, parts)?,
        Kind::Ray => ray(args, &experiment, parts),
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// Returns a text as one word of a POSIX shell, in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns a name that Slurm, Kubernetes and Ray allow.
fn label(name: &str) -> String {
    let of = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(of).take(40).collect();
    format!("anabranch-{}", name.trim_matches('-')).trim_end_matches('-').to_owned()
}

fn settings(set: &[String]) -> String {
    set.iter().fold(String::new(), |text, one| text + " --set " + &quoted(one))
}

fn slurm(args: &Args, experiment: &Experiment, parts: usize) -> String {
    let (name, runs, memory) = (label(&experiment.name), experiment.run_count(), args.memory.0);
    let file = quoted(&args.file.display().to_string());
    let set = settings(&args.set);
    let folder = quoted(&format!("results/{}-shards", experiment.name));
    let out = quoted(&format!("results/{}", experiment.name));
    format!(
        "#!/bin/bash
# Runs {file} ({runs} runs) as {parts} parts of a job array; the last part that ends merges them:
#   sbatch THIS-FILE
# Nodes need the command and this folder. A part that is lost is submitted again, and keeps its completed
# runs:
#   sbatch --array=NUMBER THIS-FILE
# Results so far: anabranch merge --partial {folder}/*
#SBATCH --job-name={name}
#SBATCH --array=1-{parts}
#SBATCH --cpus-per-task=1
#SBATCH --mem={memory}M
#SBATCH --requeue
#SBATCH --output={name}-%a.log
set -euo pipefail
part={folder}/$SLURM_ARRAY_TASK_ID
anabranch run {file}{set} --quiet --jobs 1 --shard \"$SLURM_ARRAY_TASK_ID/{parts}\" --out \"$part\"
touch \"$part/.ended\"
# One part at a time looks whether it is the last one.
exec 9>{folder}/.merge
flock 9
if [ \"$(ls {folder}/*/.ended | wc -l)\" -eq {parts} ]; then
    anabranch merge --quiet --out {out} {folder}/*/
fi
"
    )
}

/// Bytes of data that a ConfigMap may have: Kubernetes accepts 1 MiB with all else.
const CONFIG_MAP_BYTES: usize = 1_000_000;

fn kubernetes(args: &Args, experiment: &Experiment, parts: usize) -> Result<String, CliError> {
    if !experiment.traces.is_empty() {
        let failure =
            CliError::new(format!("{}: an execution trace does not fit into a ConfigMap", args.file.display()));
        return Err(failure.with_hint("put it on the volume, and run Jobs of your own"));
    }
    let (name, runs) = (label(&experiment.name), experiment.run_count());
    let Args { image, volume, memory, .. } = args;
    let memory = format!("{}Mi", memory.0);
    let mut data = format!("  experiment.toml: {}\n", json!(experiment.file));
    let mut items = "            - {key: experiment.toml, path: experiment.toml}\n".to_owned();
    for (number, input) in (1..).zip(&experiment.inputs) {
        let _ = writeln!(data, "  input-{number}: {}", json!(input.text));
        let _ = writeln!(
            items,
            "            - {{key: input-{number}, path: {}}}",
            json!(format!("inputs/{}", input.stored))
        );
    }
    if data.len() > CONFIG_MAP_BYTES {
        let failure = CliError::new(format!("{} and its inputs do not fit into a ConfigMap", args.file.display()));
        return Err(failure.with_hint("put them on the volume, and run Jobs of your own"));
    }
    let (folder, out) = (format!("/results/{}-shards", experiment.name), format!("/results/{}", experiment.name));
    let pod = |arguments: &str| {
        format!(
            "      restartPolicy: Never
      securityContext: {{runAsNonRoot: true, runAsUser: 10001, fsGroup: 10001}}
      containers:
      - name: anabranch
        image: {image}
        command: {arguments}
        resources:
          requests: {{cpu: \"1\", memory: {memory}}}
          limits: {{memory: {memory}}}
        securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
        volumeMounts:
        - {{name: results, mountPath: /results}}
        - {{name: experiment, mountPath: /experiment, readOnly: true}}
      volumes:
      - name: results
        persistentVolumeClaim: {{claimName: {volume}}}
      - name: experiment
        configMap:
          name: {name}
          items:
{items}"
        )
    };
    let run = json!([
        "sh",
        "-c",
        "exec anabranch run /experiment/experiment.toml --quiet --jobs 1 --shard \"$0\" --out \"$1/$JOB_COMPLETION_INDEX\"",
        parts.to_string(),
        folder,
    ]);
    let merge = json!(["sh", "-c", "exec anabranch merge --quiet --out \"$1\" \"$0\"/*/", folder, out]);
    let (run, merge) = (pod(&run.to_string()), pod(&merge.to_string()));
    Ok(format!(
        "# Runs {} ({runs} runs) as {parts} parts of an indexed Job, and merges them:
#   kubectl apply -f THIS-FILE
#   kubectl wait --for=condition=complete --timeout=-1s job/{name}
#   kubectl patch job {name}-merge --type=merge -p '{{\"spec\":{{\"suspend\":false}}}}'
# The persistent volume claim `{volume}` gets the results; parts on several nodes need one of ReadWriteMany.
# A part that is lost begins again elsewhere, and keeps its completed runs.
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
data:
{data}---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  completions: {parts}
  parallelism: {parts}
  backoffLimitPerIndex: 3
  template:
    spec:
{run}---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}-merge
spec:
  suspend: true
  backoffLimit: 3
  template:
    spec:
{merge}",
        args.file.display()
    ))
}

fn ray(args: &Args, experiment: &Experiment, parts: usize) -> String {
    let name = label(&experiment.name);
    let (runs, version) = (experiment.run_count(), env!("CARGO_PKG_VERSION"));
    let (file, set) = (args.file.display(), settings(&args.set));
    let (results, workers) = (&experiment.name, parts.div_ceil(CORES_OF_INSTANCE));
    format!(
        "# Runs {file} ({runs} runs) on a cluster of Ray in a cloud (AWS here; other providers: the manual of Ray):
#   ray up THIS-FILE
#   ray rsync-up THIS-FILE {file} /home/ubuntu/{name}.toml      and the files that it names
#   ray exec THIS-FILE 'anabranch run /home/ubuntu/{name}.toml{set} --on ray --out /home/ubuntu/{results}'
#   ray rsync-down THIS-FILE /home/ubuntu/{results} results/
#   ray down THIS-FILE
# The command can be repeated: it runs what is missing. Put the wheel of anabranch next to this file.
cluster_name: {name}
max_workers: {workers}
idle_timeout_minutes: 5
provider:
  type: aws
  region: eu-central-1
auth:
  ssh_user: ubuntu
file_mounts:
  /home/ubuntu/wheels: .
available_node_types:
  head:
    resources: {{}}
    node_config: {{InstanceType: m6i.large}}
  worker:
    resources: {{}}
    min_workers: 0
    max_workers: {workers}
    node_config:
      InstanceType: c6i.4xlarge
      InstanceMarketOptions: {{MarketType: spot}}
head_node_type: head
setup_commands:
- python3 -m pip install --find-links /home/ubuntu/wheels anabranch=={version} 'ray[default]'
"
    )
}

/// Cores of an instance that runs workers (c6i.4xlarge of AWS).
const CORES_OF_INSTANCE: usize = 16;
