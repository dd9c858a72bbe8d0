//! CUDA devices: what it takes to put a session on one, and to say in one line why it cannot be had.
//!
//! Flow: `session → [cuda] → ONNX Runtime`, while a model is loaded; never on the request path.
//! In:   a session's options, the device's number, the most memory it may take. Out: the session, on that
//!       device.
//!
//! ONNX Runtime has CUDA in a library of its own, beside the main one, which needs NVIDIA's libraries and the
//! driver. pip puts NVIDIA's into folders of their own where the system's loader does not look, so they are
//! opened here first; a library that is open is found by its name.
//!
//! Invariant: a session from here is on the device. Single operators that CUDA has no code for run on the CPU
//! even so; that is the engine's to decide.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use ort::ep::cuda::ConvAlgorithmSearch;
use ort::ep::{ArenaExtendStrategy, CUDA, ExecutionProvider as _};
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use tracing::debug;

use super::pinned::Pinned;
use super::value::text;

/// The libraries that the CUDA library needs or opens later, dependencies first. Each followed by `.so.` and
/// a number.
const NVIDIA_LIBRARIES: [&str; 8] = [
    "libcudart",
    "libnvJitLink",
    "libcublasLt",
    "libcublas",
    "libnvrtc",
    "libcurand",
    "libcufft",
    // Opens its parts, which lie beside it, by itself.
    "libcudnn",
];

const INSTALL: &str = "`pip install 'onnxruntime-gpu[cuda,cudnn]'` and point --onnxruntime-lib or ORT_DYLIB_PATH at \
                       its onnxruntime/capi/libonnxruntime.so.1.x; see docs/gpu.md";
const DRIVER: &str = "install NVIDIA's driver, or give the container the device (`docker run --gpus all`); \
                      `nvidia-smi` has to list it";
const NEWER: &str =
    "`nvidia-smi` shows its version; install a newer one, or an onnxruntime-gpu made for an older CUDA";
const LIST: &str = "`nvidia-smi -L` lists the devices; CUDA_VISIBLE_DEVICES hides and renumbers them";
const MEMORY: &str = "raise the model's `device_memory`, load fewer models or instances on the device, or see with \
                      `nvidia-smi` who else uses it";

/// Loads the model at `path` onto device `index`. `memory`: the most its arena may take there, in bytes.
///
/// # Errors
/// Text for the operator, and possibly a second line with a hint.
pub fn commit(
    builder: SessionBuilder,
    path: &Path,
    index: u32,
    memory: Option<u64>,
) -> Result<Session, String> {
    let library = library();
    if !CUDA::is_available().map_err(text)? {
        let library = library.as_deref().unwrap_or(Path::new("ONNX Runtime"));
        return Err(refusal(index, &format!("`{}` is built for the CPU only", library.display()), INSTALL));
    }
    if let Some(library) = &library {
        open_nvidia_libraries(library);
    }
    let provider = provider(index, memory).ok_or_else(|| refusal(index, "there is no such device", LIST))?;
    let mut builder =
        builder.with_execution_providers([provider.build().error_on_failure()]).map_err(|error| {
            let error = error.message();
            explain(index, error).unwrap_or_else(|| refusal(index, &one_line(error), DRIVER))
        })?;
    // Here it may as well be the model.
    let session = builder.commit_from_file(path).map_err(|error| {
        let error = error.message();
        explain(index, error).unwrap_or_else(|| error.to_owned())
    })?;
    // Only a session that is on the device has memory there.
    place(AllocationDevice::CUDA, index, MemoryType::Default)
        .and_then(|place| Allocator::new(&session, place))
        .map_err(|error| refusal(index, &format!("the session is not on it: {error}"), INSTALL))?;
    Ok(session)
}

/// The way through page-locked memory for a session on device `index`; without one, its values take the usual
/// way.
pub fn pinned(session: &Session, index: u32) -> Option<Pinned> {
    // ONNX Runtime counted this memory to the CPU, with number 0, before 1.23.
    let found = [index, 0].into_iter().map(|index| {
        place(AllocationDevice::CUDA_PINNED, index, MemoryType::CPUOutput)
            .and_then(|place| Pinned::new(session, place))
    });
    match found.reduce(Result::or) {
        Some(Ok(pinned)) => Some(pinned),
        Some(Err(error)) => {
            debug!(%error, "no page-locked memory: values are copied by the driver");
            None
        }
        None => None,
    }
}

fn place(device: AllocationDevice<'_>, index: u32, memory: MemoryType) -> ort::Result<MemoryInfo<'static>> {
    MemoryInfo::new(device, i32::try_from(index).unwrap_or(i32::MAX), AllocatorType::Device, memory)
}

/// `None` for a number that no device has.
fn provider(index: u32, memory: Option<u64>) -> Option<CUDA> {
    let provider = CUDA::default()
        .with_device_id(i32::try_from(index).ok()?)
        // Doubling, the default, would take up to twice of what is needed, from other models too.
        .with_arena_extend_strategy(ArenaExtendStrategy::SameAsRequested)
        // The default tries every algorithm for every new shape of input: seconds, for the request that
        // brings it first.
        .with_conv_algorithm_search(ConvAlgorithmSearch::Heuristic)
        // On by default, and off by about 1e-3: an answer must not depend on the device.
        .with_tf32(false);
    Some(match memory {
        Some(memory) => provider.with_memory_limit(usize::try_from(memory).unwrap_or(usize::MAX)),
        None => provider,
    })
}

/// The file that ONNX Runtime was loaded from.
fn library() -> Option<PathBuf> {
    // Found by ONNX Runtime or by the loader: the operating system knows.
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines()
        .filter_map(|line| line.get(line.find('/')?..).map(Path::new))
        .find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libonnxruntime.so"))
        })
        .map(Path::to_owned)
}

/// Opens NVIDIA's libraries that lie near ONNX Runtime's `library`, once for the process. What is not there
/// the system's loader may still find.
fn open_nvidia_libraries(library: &Path) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for path in nvidia_libraries(library) {
            match ort::util::preload_dylib(&path) {
                Ok(()) => debug!(library.path = %path.display(), "library opened"),
                Err(error) => debug!(library.path = %path.display(), %error, "library not opened"),
            }
        }
    });
}

/// NVIDIA's libraries beside `library` and in the folders that pip makes for them, what others need first.
fn nvidia_libraries(library: &Path) -> Vec<PathBuf> {
    let own = library.parent().map(Path::to_owned);
    // `site-packages` of `site-packages/onnxruntime/capi/libonnxruntime.so`.
    let packages =
        library.ancestors().nth(3).map(|packages| entries(&packages.join("nvidia"))).unwrap_or_default();
    let folders = own.into_iter().chain(packages.into_iter().map(|package| package.join("lib")));
    let files: Vec<PathBuf> = folders.flat_map(|folder| entries(&folder)).collect();
    let is = |file: &Path, stem: &str| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(stem).is_some_and(|rest| rest.starts_with(".so."))
    };
    NVIDIA_LIBRARIES
        .iter()
        .flat_map(|stem| files.iter().filter(|file| is(file, stem)).cloned().collect::<Vec<_>>())
        .collect()
}

/// The entries of `folder`, in order; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    entries
}

/// The engine's words in the operator's, if it is the device they are about.
fn explain(index: u32, error: &str) -> Option<String> {
    if let Some((before, _)) = error.split_once(": cannot open shared object file") {
        let file = before.rsplit([' ', '/']).next().unwrap_or(before);
        return Some(match file.starts_with("libcuda.so") {
            true => refusal(index, &format!("NVIDIA's driver (`{file}`) is not there"), DRIVER),
            false => refusal(index, &format!("ONNX Runtime needs `{file}`, which was not found"), INSTALL),
        });
    }
    let known = [
        ("Invalid device ID", "there is no such device", LIST),
        ("invalid device ordinal", "there is no such device", LIST),
        ("no CUDA-capable device", "there is no NVIDIA device", DRIVER),
        (
            "driver version is insufficient",
            "NVIDIA's driver is too old for this build of ONNX Runtime",
            NEWER,
        ),
        ("out of memory", "its memory does not suffice", MEMORY),
        ("Failed to allocate memory", "its memory does not suffice", MEMORY),
        ("smaller than requested bytes", "its memory does not suffice", MEMORY),
    ];
    if let Some((_, reason, hint)) = known.into_iter().find(|(words, ..)| error.contains(words)) {
        return Some(refusal(index, reason, hint));
    }
    // `CUDA failure 36: its own text ; GPU=-1 ; hostname=… ; file=… ; line=… ; expr=…`
    let (_, failure) = error.split_once("CUDA failure ")?;
    let failure = failure.split(" ;").next().unwrap_or(failure);
    Some(refusal(index, &format!("CUDA failure {}", one_line(failure)), DRIVER))
}

fn refusal(index: u32, reason: &str, hint: &str) -> String {
    format!("device `cuda:{index}`: {reason}\n  hint: {hint}")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_engine_says_of_a_device_becomes_one_line_and_a_hint() {
        for (error, reason, hint) in [
            (
                "provider_bridge_ort.cc:2400 TryGetProviderInfo_CUDA Failed to load library libonnxruntime_providers_cuda.so \
                 with error: libcublasLt.so.13: cannot open shared object file: No such file or directory",
                "ONNX Runtime needs `libcublasLt.so.13`, which was not found",
                INSTALL,
            ),
            (
                "with error: libcuda.so.1: cannot open shared object file: No such file or directory",
                "NVIDIA's driver (`libcuda.so.1`) is not there",
                DRIVER,
            ),
            (
                "Failed to parse provider option \"device_id\": Invalid device ID: 7, must be between 0 (inclusive) and 1 \
                 (exclusive).",
                "there is no such device",
                LIST,
            ),
            (
                "CUDA failure 100: no CUDA-capable device is detected ; GPU=-1 ; hostname=x",
                "there is no NVIDIA device",
                DRIVER,
            ),
            (
                "BFCArena: Available memory of 1024 is smaller than requested bytes of 2048",
                "its memory does not suffice",
                MEMORY,
            ),
            (
                "CUDA failure 36: API call is not supported ; GPU=-1 ; expr=f(); \n",
                "CUDA failure 36: API call is not supported",
                DRIVER,
            ),
        ] {
            assert_eq!(explain(3, error), Some(format!("device `cuda:3`: {reason}\n  hint: {hint}")));
        }
        assert_eq!(explain(0, "Protobuf parsing failed."), None);
    }

    #[test]
    fn nvidia_libraries_are_found_beside_the_package_in_the_order_they_need_each_other() {
        let packages = tempfile::tempdir().unwrap();
        for (folder, names) in [
            ("onnxruntime/capi", &["libonnxruntime.so.1.31.1", "libonnxruntime_providers_cuda.so"][..]),
            (
                "nvidia/cu13/lib",
                &["libcublas.so.13", "libcublasLt.so.13", "libcudart.so.13", "libcudart_static.a"],
            ),
            ("nvidia/cudnn/lib", &["libcudnn.so.9", "libcudnn_ops.so.9"]),
            ("nvidia/cudnn/include", &["cudnn.h"]),
        ] {
            let folder = packages.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            names.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        }
        let found = nvidia_libraries(&packages.path().join("onnxruntime/capi/libonnxruntime.so.1.31.1"));
        let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcudnn.so.9"]);
        assert_eq!(nvidia_libraries(Path::new("libonnxruntime.so")), Vec::<PathBuf>::new());
    }
}
