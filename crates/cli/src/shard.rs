//! `--shard`: which part of the runs this process does, given or from the scheduler of a cluster.

use experiment::shard::Shard;

use crate::error::CliError;

/// Value of `--shard` without a value.
pub const FROM_ENVIRONMENT: &str = "";

/// Reads the part. `text` is `NUMBER/COUNT`, from 1; `COUNT`, where the number is that of the task in a Slurm
/// job array or of the pod in an indexed Kubernetes Job; or empty, where Slurm gives both.
pub fn parse(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Shard, CliError> {
    let failed = |cause: String| {
        CliError::new(format!("{}: {cause}", format!("--shard {text}").trim_end()))
            .with_hint("write --shard NUMBER/COUNT, such as 2/8, or --shard COUNT in a Slurm array or a Kubernetes Job")
    };
    if text.contains('/') {
        return text.parse().map_err(failed);
    }
    let number = |name: &str| -> Result<Option<usize>, String> {
        let Some(value) = environment(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| format!("the variable {name} is `{value}`, which is not a number"))
    };
    let count = match text {
        FROM_ENVIRONMENT => number("SLURM_ARRAY_TASK_COUNT").map_err(failed)?,
        _ => Some(text.parse().map_err(|_| failed("this is neither NUMBER/COUNT nor a number of parts".to_owned()))?),
    };
    let count = count.ok_or_else(|| failed("there is no variable SLURM_ARRAY_TASK_COUNT".to_owned()))?;
    // Slurm's arrays may begin at any number; indices of Kubernetes begin at 0.
    let task = number("SLURM_ARRAY_TASK_ID").map_err(failed)?;
    let first = number("SLURM_ARRAY_TASK_MIN").map_err(failed)?.unwrap_or(1);
    let place = match task {
        Some(task) => task.checked_sub(first),
        None => number("JOB_COMPLETION_INDEX").map_err(failed)?,
    };
    let place = place.ok_or_else(|| {
        failed(
            "there is no variable SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX with the number of the part".to_owned(),
        )
    })?;
    Shard::new(place + 1, count).ok_or_else(|| failed(format!("there is no part {} of {count}", place + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        parse(text, &value).map(|shard| shard.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn part_is_given_or_from_the_scheduler() {
        let slurm = [("SLURM_ARRAY_TASK_ID", "6"), ("SLURM_ARRAY_TASK_COUNT", "8"), ("SLURM_ARRAY_TASK_MIN", "4")];
        assert_eq!(part("2/8", &slurm).as_deref(), Ok("2-of-8"));
        assert_eq!(part("", &slurm).as_deref(), Ok("3-of-8"));
        assert_eq!(part("4", &slurm).as_deref(), Ok("3-of-4"));
        assert_eq!(part("", &[("SLURM_ARRAY_TASK_ID", "1"), ("SLURM_ARRAY_TASK_COUNT", "8")]).as_deref(), Ok("1-of-8"));
        assert_eq!(part("8", &[("JOB_COMPLETION_INDEX", "0")]).as_deref(), Ok("1-of-8"));
        assert_eq!(part("8", &[("JOB_COMPLETION_INDEX", "7")]).as_deref(), Ok("8-of-8"));
    }

    #[test]
    fn wrong_parts_say_what_is_missing() {
        let error = |text: &str, variables: &[(&str, &str)]| part(text, variables).expect_err("it is wrong");
        assert!(error("9/8", &[]).contains("there is no part 9 of 8"));
        assert!(error("x", &[]).contains("neither NUMBER/COUNT nor a number of parts"));
        assert!(error("", &[]).contains("--shard: there is no variable SLURM_ARRAY_TASK_COUNT"));
        assert!(error("8", &[]).contains("SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX"));
        assert!(error("8", &[("JOB_COMPLETION_INDEX", "8")]).contains("there is no part 9 of 8"));
        assert!(error("8", &[("JOB_COMPLETION_INDEX", "a")]).contains("JOB_COMPLETION_INDEX is `a`"));
    }
}
