//! How many sessions a model gets, and how many threads each run may use, unless the configuration says.
//!
//! In:   the model's size, the machine's cores. Out: a [`Plan`].
//!
//! Runs side by side use cores better than threads inside one run, but each needs memory for its intermediate
//! values, and takes longer. So a model gets one session a core with one thread each while it is small, and
//! fewer sessions with more threads the larger it is. docs/decisions has what was measured, and what was
//! not.
//!
//! A GPU is the other way round: one run fills it, and its memory is what is short. So a model gets one
//! session there; more than one lets the copies of one run overlap with the work of another, at the price of
//! another copy of the weights.

use super::config::ModelConfig;

/// Up to this many bytes of weights, a run takes little time, and a copy little memory.
pub const TINY: u64 = 1 << 20;

/// From this many on, one run at a time takes what there is.
const LARGE: u64 = 512 << 20;

/// Sessions of a model in between.
const FEW: usize = 4;

/// How a model is spread over the cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Sessions on the CPU.
    pub sessions: usize,
    /// Sessions on a GPU.
    pub gpu_sessions: usize,
    /// Most memory of a GPU that each of its sessions may take, in bytes: they share what the model may take.
    pub device_memory: Option<u64>,
    /// Threads of one run.
    pub threads: usize,
}

impl Plan {
    /// The plan for `model`, whose weights take about `bytes`, on a machine of `cores`.
    pub fn new(model: &ModelConfig, bytes: u64, cores: usize) -> Plan {
        let most = if bytes <= TINY {
            cores
        } else if bytes < LARGE {
            FEW
        } else {
            1
        };
        let sessions = model.sessions.unwrap_or_else(|| cores.min(most).max(1));
        let threads = model.threads.unwrap_or(cores / sessions.max(1)).max(1);
        let gpu_sessions = model.sessions.unwrap_or(1).max(1);
        let device_memory = model.device_memory.map(|memory| memory / gpu_sessions as u64);
        Plan { sessions, gpu_sessions, device_memory, threads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_and_threads_share_the_cores() {
        for (sessions, threads, bytes, cores, expected) in [
            (None, None, 1000, 2, (2, 1)),
            (None, None, 1000, 16, (16, 1)),
            (None, None, TINY + 1, 16, (4, 4)),
            (None, None, TINY + 1, 2, (2, 1)),
            (None, None, LARGE, 16, (1, 16)),
            (None, None, LARGE, 1, (1, 1)),
            (Some(8), None, LARGE, 2, (8, 1)),
            (Some(1), Some(3), 1000, 16, (1, 3)),
            (None, Some(2), 1000, 4, (4, 2)),
        ] {
            let model = ModelConfig { sessions, threads, ..ModelConfig::default() };
            let plan = Plan::new(&model, bytes, cores);
            assert_eq!((plan.sessions, plan.threads), expected, "{bytes} bytes on {cores} cores");
        }
    }

    #[test]
    fn a_gpu_gets_one_session_unless_told_and_sessions_share_its_memory() {
        for (sessions, device_memory, expected) in [
            (None, None, (1, None)),
            (None, Some(1000), (1, Some(1000))),
            (Some(4), Some(1000), (4, Some(250))),
            (Some(2), None, (2, None)),
        ] {
            let model = ModelConfig { sessions, device_memory, ..ModelConfig::default() };
            let plan = Plan::new(&model, 1000, 16);
            assert_eq!((plan.gpu_sessions, plan.device_memory), expected);
        }
    }
}
