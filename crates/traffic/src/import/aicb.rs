//! Training traces of AICB, Alibaba's AI communication benchmark, in its two formats.
//!
//! A `.csv` begins with `[rank0 ~ rank127]` and a line of column names, of which `comm_type`,
//! `comm_group`, `comm_group_size`, `msg_size` (bytes), `src` (root of a broadcast, a member of the
//! group) and `count` are read; then one operation a line, in the order of the program. Operations
//! other than collectives (`epoch_end`, `barrier`, `computation`) move no bytes and are passed
//! over, as every operation waits for the one before anyway.
//!
//! A workload `.txt` is SimAI's: a line that names its kind (`MICRO`, or
//! `HYBRID_TRANSFORMER_FWD_IN_BCKWD` with `model_parallel_NPU_group: n`), a line with the number of
//! layers, then a layer a line: name, dependency, and time, collective and bytes of the forward
//! pass, of the input gradient and of the weight gradient, and the time of the update. Times are
//! taken as nanoseconds. A hybrid goes through the layers forward, then backward with the input
//! gradient before the weight gradient; passes and input gradients are tensor-parallel, weight
//! gradients data-parallel. `MICRO` layers follow one another over all ranks.
//!
//! Sizes are the whole buffer: that before a reduce-scatter and after an all-gather.

use net::Time;

use super::{ImportError, check_count, missing, not, time, unknown, whole};
use crate::collectives::CollectiveKind;

/// A trace of collectives in the order of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainingTrace {
    pub(crate) file: String,
    /// Ranks it was taken on, where it says.
    pub(crate) rank_count: Option<u32>,
    pub(crate) operations: Vec<TraceOperation>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TraceOperation {
    pub(crate) kind: CollectiveKind,
    pub(crate) group: TraceGroup,
    pub(crate) size_bytes: u64,
    pub(crate) compute: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TraceGroup {
    /// Groups of this number of consecutive ranks.
    Tensor(u32),
    /// Groups across the tensor-parallel ones, with this number of ranks if the trace gives it.
    Data(Option<u32>),
    All,
}

/// Reads a trace in the format the end of `file` names: `.csv`, or `.txt` for a workload.
pub fn read_training(file: &str, text: &str) -> Result<TrainingTrace, ImportError> {
    let extension = file.rsplit('.').next().unwrap_or_default();
    if extension.eq_ignore_ascii_case("csv") {
        read_trace(file, text)
    } else if extension.eq_ignore_ascii_case("txt") {
        read_workload(file, text)
    } else {
        let problem = "its name must end in .csv (AICB trace) or .txt (SimAI workload)".to_owned();
        Err(ImportError::new(file, 1, problem))
    }
}

fn read_trace(file: &str, text: &str) -> Result<TrainingTrace, ImportError> {
    let fail = |line: u64, problem| ImportError::new(file, line, problem);
    let mut lines = (1..).zip(text.lines()).filter(|(_, content)| !content.trim().is_empty());
    let (line, ranks) = lines.next().ok_or_else(|| fail(1, missing("the line `[rank0 ~ rank127]`")))?;
    let rank_count = ranks_of(ranks.trim()).map_err(|problem| fail(line, problem))?;
    let (line, names) = lines.next().ok_or_else(|| fail(line, missing("the line of column names")))?;
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    if let Some(name) = COLUMNS.iter().find(|name| !names.contains(name)) {
        return Err(fail(line, missing(&format!("column `{name}`"))));
    }
    let mut operations = Vec::new();
    for (line, content) in lines {
        operations.extend(operation(&names, content).map_err(|problem| fail(line, problem))?);
    }
    Ok(TrainingTrace { file: file.to_owned(), rank_count: Some(rank_count), operations })
}

/// `[rank0 ~ rank127]` is 128 ranks.
fn ranks_of(text: &str) -> Result<u32, String> {
    let inside = text.strip_prefix("[rank").and_then(|text| text.strip_suffix(']'));
    let (first, last) = inside.and_then(|text| text.split_once("~ rank")).ok_or_else(|| {
        let found: String = text.chars().take(60).collect();
        unknown(&found, "the ranks of the trace, such as `[rank0 ~ rank127]`")
    })?;
    let (first, last): (u32, u32) = (whole("rank", first.trim())?, whole("rank", last.trim())?);
    let count = last.checked_sub(first).and_then(|span| span.checked_add(1));
    count.ok_or_else(|| format!("rank {last} is below rank {first}"))
}

/// Columns that a trace must have; `src` and `count` may be absent.
const COLUMNS: [&str; 4] = ["comm_type", "comm_group", "comm_group_size", "msg_size"];

/// The collective of a line; `None` for what moves no bytes.
fn operation(names: &[&str], line: &str) -> Result<Option<TraceOperation>, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    check_count("columns", names.len(), fields.len())?;
    let field = |name: &str| names.iter().position(|column| *column == name).map(|ix| fields[ix]);
    let [kind, group, group_size, size] = COLUMNS.map(|name| field(name).unwrap_or_default());
    let root = || field("src").filter(|root| !["None", ""].contains(root)).map_or(Ok(0), |root| whole("src", root));
    let kind = match kind.strip_prefix("CommType.").unwrap_or(kind) {
        "all_reduce" => CollectiveKind::AllReduce,
        "all_gather" => CollectiveKind::AllGather,
        "reduce_scatter" => CollectiveKind::ReduceScatter,
        "all_to_all" => CollectiveKind::AllToAll,
        "broadcast" => CollectiveKind::Broadcast { root: root()? },
        "epoch_end" | "barrier" | "computation" => return Ok(None),
        other => {
            let known =
                "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, barrier, epoch_end or computation";
            return Err(unknown(other, known));
        }
    };
    if let Some(count) = field("count").filter(|count| *count != "1") {
        return Err(not("count", count, "1, the only count supported"));
    }
    let group_size = match whole("comm_group_size", group_size)? {
        0 => return Err("the group has no members".to_owned()),
        size => size,
    };
    let group = match group.strip_prefix("CommGroup.").unwrap_or(group) {
        "tp_group" => TraceGroup::Tensor(group_size),
        "dp_group" => TraceGroup::Data(Some(group_size)),
        "all" => TraceGroup::All,
        other => return Err(unknown(other, "tp_group, dp_group or all")),
    };
    Ok(Some(TraceOperation { kind, group, size_bytes: whole("msg_size", size)?, compute: Time::ZERO }))
}

/// Time, collective and bytes of one pass through a layer.
type Pass = (Time, Option<CollectiveKind>, u64);

struct Layer {
    forward: Pass,
    input_gradient: Pass,
    weight_gradient: Pass,
    update: Time,
}

fn read_workload(file: &str, text: &str) -> Result<TrainingTrace, ImportError> {
    let fail = |line: u64, problem| ImportError::new(file, line, problem);
    let mut lines = (1..).zip(text.lines()).filter(|(_, content)| !content.trim().is_empty());
    let (line, header) = lines.next().ok_or_else(|| fail(1, missing("the kind of the workload")))?;
    let tensor = header_of(header).map_err(|problem| fail(line, problem))?;
    let (mut last_line, count) = lines.next().ok_or_else(|| fail(line, missing("the number of layers")))?;
    let promised: usize = whole("number of layers", count.trim()).map_err(|problem| fail(last_line, problem))?;
    let mut layers = Vec::new();
    for (line, content) in lines {
        layers.push(layer(content).map_err(|problem| fail(line, problem))?);
        last_line = line;
    }
    check_count("layers", promised, layers.len()).map_err(|problem| fail(last_line, problem))?;
    let mut program = Program::default();
    match tensor {
        Some(size) => program.hybrid(&layers, size),
        None => program.micro(&layers),
    }
    Ok(TrainingTrace { file: file.to_owned(), rank_count: None, operations: program.operations })
}

/// Size of the tensor-parallel groups of a hybrid; `None` for `MICRO`.
fn header_of(header: &str) -> Result<Option<u32>, String> {
    const SIZE: &str = "model_parallel_NPU_group:";
    let words: Vec<&str> = header.split_whitespace().collect();
    match words[0] {
        "MICRO" => Ok(None),
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD" => {
            let size = words.iter().position(|word| *word == SIZE).and_then(|ix| words.get(ix + 1));
            let size = size.ok_or_else(|| missing(&format!("`{SIZE} n`")))?;
            match whole("model_parallel_NPU_group", size)? {
                0 => Err("a tensor-parallel group of 0 ranks is impossible".to_owned()),
                size => Ok(Some(size)),
            }
        }
        other => Err(unknown(other, "MICRO or HYBRID_TRANSFORMER_FWD_IN_BCKWD, the kinds of workload supported")),
    }
}

fn layer(content: &str) -> Result<Layer, String> {
    let fields: Vec<&str> = content.split_whitespace().collect();
    check_count("columns", 12, fields.len())?;
    let [_name, _dependency, a, b, c, d, e, f, g, h, i, update] = fields[..] else { unreachable!("12 were counted") };
    Ok(Layer {
        forward: pass(a, b, c)?,
        input_gradient: pass(d, e, f)?,
        weight_gradient: pass(g, h, i)?,
        update: time(update, "ns")?,
    })
}

fn pass(compute: &str, kind: &str, size: &str) -> Result<Pass, String> {
    let kind = match kind {
        "NONE" => None,
        "ALLREDUCE" => Some(CollectiveKind::AllReduce),
        "ALLGATHER" => Some(CollectiveKind::AllGather),
        "REDUCESCATTER" => Some(CollectiveKind::ReduceScatter),
        "ALLTOALL" => Some(CollectiveKind::AllToAll),
        "BROADCAST" => Some(CollectiveKind::Broadcast { root: 0 }),
        other => return Err(unknown(other, "NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL or BROADCAST")),
    };
    Ok((time(compute, "ns")?, kind, whole("size", size)?))
}

/// Operations so far, and the computation since the last one.
#[derive(Default)]
struct Program {
    operations: Vec<TraceOperation>,
    compute: Time,
}

impl Program {
    fn pass(&mut self, (compute, kind, size_bytes): Pass, group: TraceGroup) {
        self.compute = self.compute.saturating_add(compute);
        if let Some(kind) = kind {
            self.operations.push(TraceOperation {
                kind,
                group,
                size_bytes,
                compute: std::mem::take(&mut self.compute),
            });
        }
    }

    fn hybrid(&mut self, layers: &[Layer], tensor: u32) {
        let tensor = TraceGroup::Tensor(tensor);
        for layer in layers {
            self.pass(layer.forward, tensor);
        }
        for layer in layers.iter().rev() {
            self.pass(layer.input_gradient, tensor);
            self.pass(layer.weight_gradient, TraceGroup::Data(None));
            self.compute = self.compute.saturating_add(layer.update);
        }
    }

    fn micro(&mut self, layers: &[Layer]) {
        for layer in layers {
            for pass in [layer.forward, layer.input_gradient, layer.weight_gradient] {
                self.pass(pass, TraceGroup::All);
            }
            self.compute = self.compute.saturating_add(layer.update);
        }
    }
}
