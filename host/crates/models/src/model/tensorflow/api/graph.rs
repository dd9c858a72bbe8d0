//! A loaded SavedModel: TensorFlow's session, the graph it runs, and the tensors that go in and out.
//!
//! Flow: `session → [graph] → TensorFlow`.
//! In:   arrays, one per input. Out: arrays, one per output.
//!
//! # Threads
//! TensorFlow has one set of threads per process, and the first session settles how many. A run that uses
//! them waits for them: 110 µs for the iris model, and three times that for eight callers. So every session
//! is given one thread for the inside of an operation, which is then the caller's own, and none for
//! operations beside each other: 6 µs, for any number of callers. A caller that wants more of the machine's
//! cores makes more runs at the same time.
//!
//! Invariant: a graph is not changed once it is loaded, so any number of threads may run it at the same time.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{self, NonNull};

use prost::Message as _;

use super::{Api, Array, Owned, RawGraph, RawOutput, RawSession, Status};
use crate::model::tensorflow::proto::ConfigProto;
use crate::model::tensorflow::saved_model::Port;

/// A model that any number of threads may run.
#[derive(Debug)]
pub struct Graph {
    api: &'static Api,
    session: NonNull<RawSession>,
    /// Owns the operations of `inputs` and `outputs`. Goes after the session, which refers to it.
    graph: Owned<RawGraph>,
    inputs: Vec<RawOutput>,
    outputs: Vec<RawOutput>,
    scalars: Vec<bool>,
}

// SAFETY: nothing of a session is bound to a thread, and its operations are only names for TensorFlow to look
// up.
unsafe impl Send for Graph {}
// SAFETY: TensorFlow promises that a session may be run by several threads at the same time; nothing else is
// done to a shared graph.
unsafe impl Sync for Graph {}

impl Graph {
    /// Loads the graph with `tag` from the SavedModel in `folder`: its operations, variables and assets.
    ///
    /// # Errors
    /// TensorFlow's words, or the port that is not in the graph.
    pub fn load(
        api: &'static Api,
        folder: &Path,
        tag: &str,
        inputs: &[Port],
        outputs: &[Port],
    ) -> Result<Graph, String> {
        let folder = CString::new(folder.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        let tag = CString::new(tag).map_err(|error| error.to_string())?;
        let config = config().encode_to_vec();
        let status = Status::new(api)?;
        // SAFETY: fresh options and a fresh graph, each deleted by its own function.
        let (options, graph) = unsafe {
            (
                Owned::new((api.new_options)(), api.delete_options).ok_or("out of memory")?,
                Owned::new((api.new_graph)(), api.delete_graph).ok_or("out of memory")?,
            )
        };
        // SAFETY: options and status are alive; the configuration is copied.
        unsafe { (api.set_config)(options.as_ptr(), config.as_ptr().cast(), config.len(), status.as_ptr()) };
        status.result()?;
        let tags = [tag.as_ptr()];
        // SAFETY: everything pointed at is alive during the call; there is one tag; run options and
        // description may be null.
        let session = unsafe {
            (api.load_session)(
                options.as_ptr(),
                ptr::null(),
                folder.as_ptr(),
                tags.as_ptr(),
                1,
                graph.as_ptr(),
                ptr::null_mut(),
                status.as_ptr(),
            )
        };
        status.result()?;
        let session = NonNull::new(session).ok_or("TensorFlow returned no session")?;
        // From here on, dropping it closes the session.
        let mut loaded = Graph {
            api,
            session,
            graph,
            inputs: Vec::new(),
            outputs: Vec::new(),
            scalars: inputs.iter().map(|port| port.scalar).collect(),
        };
        loaded.inputs = inputs.iter().map(|port| loaded.find(port)).collect::<Result<_, _>>()?;
        loaded.outputs = outputs.iter().map(|port| loaded.find(port)).collect::<Result<_, _>>()?;
        Ok(loaded)
    }

    /// The library it is loaded with.
    pub fn api(&self) -> &'static Api {
        self.api
    }

    /// For each input, whether it is a scalar.
    pub fn scalar_inputs(&self) -> impl Iterator<Item = bool> {
        self.scalars.iter().copied()
    }

    /// Runs the model once, on this thread: one array per input, in the order they were loaded with.
    ///
    /// # Errors
    /// TensorFlow's words.
    pub fn run(&self, inputs: &[Array]) -> Result<Vec<Array>, String> {
        if inputs.len() != self.inputs.len() {
            return Err(format!("expected {} inputs, got {}", self.inputs.len(), inputs.len()));
        }
        let values: Vec<_> = inputs.iter().map(Array::as_ptr).collect();
        let mut results = vec![ptr::null_mut(); self.outputs.len()];
        let status = Status::new(self.api)?;
        let (input_count, output_count) = (count(&self.inputs)?, count(&self.outputs)?);
        // SAFETY: session, operations, arrays and status are alive during the call, and all lists as long as
        // it is told; values are only read, results are filled in. Run options, further operations and
        // metadata may be null.
        unsafe {
            (self.api.run_session)(
                self.session.as_ptr(),
                ptr::null(),
                self.inputs.as_ptr(),
                values.as_ptr(),
                input_count,
                self.outputs.as_ptr(),
                results.as_mut_ptr(),
                output_count,
                ptr::null(),
                0,
                ptr::null_mut(),
                status.as_ptr(),
            );
        }
        // Before the status is looked at, so that nothing is lost.
        let results: Vec<Option<Array>> =
            // SAFETY: null or a tensor made for this call.
            results.into_iter().map(|raw| unsafe { Array::own(self.api, raw) }).collect();
        status.result()?;
        let results: Option<Vec<Array>> = results.into_iter().collect();
        results.ok_or_else(|| "an output is missing".to_owned())
    }

    fn find(&self, port: &Port) -> Result<RawOutput, String> {
        // SAFETY: the graph is alive; the name is only read.
        let operation = unsafe { (self.api.operation)(self.graph.as_ptr(), port.operation.as_ptr()) };
        if operation.is_null() {
            return Err(format!(
                "its signature names `{}`, which is not in the graph",
                port.operation.to_string_lossy()
            ));
        }
        Ok(RawOutput { operation, index: c_int::from(port.index) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let Ok(status) = Status::new(self.api) else { return };
        // SAFETY: no run is going on, since each borrows the graph. The session is not used after this, with
        // any status says.
        unsafe {
            (self.api.close_session)(self.session.as_ptr(), status.as_ptr());
            (self.api.delete_session)(self.session.as_ptr(), status.as_ptr());
        }
    }
}

/// See the header. Without a GPU even if there is one: TensorFlow would take all of its memory for itself.
fn config() -> ConfigProto {
    ConfigProto {
        device_count: BTreeMap::from([("GPU".to_owned(), 0)]),
        intra_op_parallelism_threads: 1,
        inter_op_parallelism_threads: -1,
    }
}

fn count<T>(list: &[T]) -> Result<c_int, String> {
    c_int::try_from(list.len()).map_err(|error| error.to_string())
}
