//! What Python packages are to a handler: there, pure, served by the SDK, or native code that the sandbox has
//! not.
//!
//! In:  a module's or a distribution's name. Out: a [`Package`], and for what is not there the advice of the
//! report.

/// A module that a project imports, by where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Package {
    /// Of the standard library, and in the component.
    Standard,
    /// Provided by this module of the SDK.
    Sdk(&'static str),
    /// Native, or in need of what the sandbox has not.
    Native(Advice),
    /// Not known: pure Python, it is hoped; the build says so if it is not.
    Unknown,
}

/// The way to do without a native package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advice {
    Model,
    Arrays,
    Images,
    Tokens,
    Network,
    Requests,
    System,
}

impl Advice {
    /// Why the package is not there.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Advice::Network | Advice::Requests => "needs sockets",
            _ => "is native code",
        }
    }

    /// For the report.
    pub(super) fn text(self) -> &'static str {
        match self {
            Advice::Model => {
                "the model runs in the host: export it to ONNX, name it in modelhost.toml, and call `models.infer`"
            }
            Advice::Arrays => {
                "arrays are `modelhost_guest.Tensor` (reshape, argmax, softmax, top_k), or lists"
            }
            Advice::Images => {
                "decode pictures in a handler in Rust (`modelhost new NAME --lang rust --template image`), or in the model"
            }
            Advice::Tokens => {
                "tokenize in a handler in Rust with the crate `tokenizers`, or in Python by the vocabulary (docs/text.md)"
            }
            Advice::Network => {
                "handlers open no sockets: keep files in the project's folder, values in `kv`; see `allow_outbound`"
            }
            Advice::Requests => {
                "`modelhost_guest.outbound` sends requests, `outbound.get(url).json()`: with \
                 `with = [\"outbound\"]` under [build] and `allow_outbound` in modelhost.toml, and \
                 `include modelhost:outbound/imports@0.1.0;` in wit/world.wit"
            }
            Advice::System => "there are no threads, processes or native libraries in the sandbox",
        }
    }
}

const ADVICE: [(Advice, &str); 7] = [
    (
        Advice::Model,
        "accelerate audiocraft auto_gptq autogptq awq bark bert bitsandbytes catboost chatterbox chronos coremltools ctransformers \
         deepspeed diffusers exllama exllamav2 fairseq faster_whisper flair flash_attn gguf ggml jax jaxlib keras kokoro langchain \
         lightgbm llama_cpp llama_cpp_python mii mlx nemo nltk onnx onnxruntime onnxruntime_gpu openvino optimum paddle paddleocr peft \
         pyannote sentence_transformers sglang skimage sklearn scikit_learn spacy stanza statsmodels tensorflow tensorflow_gpu \
         tensorflow_hub tensorflow_text tensorrt tensorrt_llm tflite_runtime thinc timm torch torchaudio torchvision torchtext \
         transformers triton tritonclient trl tts ultralytics unsloth vllm whisper whisperx openai_whisper xformers xgboost",
    ),
    (Advice::Arrays, "cupy numba numpy pandas polars pyarrow scipy einops safetensors"),
    (
        Advice::Images,
        "cv2 opencv_python opencv_python_headless pil pillow imageio matplotlib moviepy pydub librosa soundfile av ffmpeg decord",
    ),
    (Advice::Tokens, "tokenizers sentencepiece tiktoken"),
    (
        Advice::Network,
        "anyio azure b2sdk banana_dev boto3 botocore datasets flask gdown google gevent grpc grpcio hf_transfer huggingface_hub \
         kafka openai psycopg2 pymongo redis smart_open socketio sqlalchemy tornado uvicorn uvloop websocket websockets",
    ),
    (Advice::Requests, "aiohttp httplib2 httpx requests requests_toolbelt treq urllib3"),
    (
        Advice::System,
        "_ctypes cffi ctypes curses cryptography cython fcntl grp lxml nvidia_ml_py psutil pty pwd pycuda pynvml pyximport ray truss truss_chains \
         readline resource ssl termios tkinter triton_python_backend_utils ujson orjson zmq bz2 lzma mmap tty syslog",
    ),
];

/// Modules of other systems, and of the SDK in their place.
const SDK: [(&str, &str); 6] = [
    ("potassium", "potassium"),
    ("fastapi", "web"),
    ("starlette", "web"),
    ("inferless", "inferless"),
    ("cortex_internal", "cortex"),
    ("modelhost_guest", ""),
];

const STANDARD: &str = "__future__ abc argparse array ast asyncio atexit base64 binascii bisect builtins calendar cmath codecs \
    collections colorsys concurrent configparser contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib dis doctest email \
    encodings enum errno faulthandler filecmp fileinput fnmatch fractions functools gc getopt getpass gettext glob graphlib gzip hashlib \
    heapq hmac html http imaplib importlib inspect io ipaddress itertools json keyword linecache locale logging mailbox marshal \
    math mimetypes multiprocessing numbers operator optparse os pathlib pdb pickle pickletools pkgutil platform plistlib posixpath \
    pprint profile pstats queue quopri random re reprlib runpy sched secrets select selectors shelve shlex shutil signal site socket \
    socketserver sqlite3 stat statistics string stringprep struct subprocess symtable sys sysconfig tarfile tempfile textwrap threading time \
    timeit token tokenize trace traceback tracemalloc types typing unicodedata unittest urllib uuid venv warnings wave weakref webbrowser \
    wsgiref xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

/// Distributions whose module has another name.
const MODULES: [(&str, &str); 10] = [
    ("pyyaml", "yaml"),
    ("python_dateutil", "dateutil"),
    ("beautifulsoup4", "bs4"),
    ("attrs", "attr"),
    ("scikit_learn", "sklearn"),
    ("pillow", "pil"),
    ("opencv_python", "cv2"),
    ("opencv_python_headless", "cv2"),
    ("protobuf", "google"),
    ("python_dotenv", "dotenv"),
];

/// The kind of a module, by the first part of its dotted name.
pub(super) fn module(name: &str) -> Package {
    let first = name.split('.').next().unwrap_or_default();
    if STANDARD.split_whitespace().any(|standard| standard == first) {
        return Package::Standard;
    }
    if let Some((_, module)) = SDK.iter().find(|(other, _)| *other == first) {
        return Package::Sdk(module);
    }
    let first = normal(first);
    match ADVICE.iter().find(|(_, names)| names.split_whitespace().any(|name| name == first)) {
        Some((advice, _)) => Package::Native(*advice),
        None => Package::Unknown,
    }
}

/// A line of a requirements.txt: the distribution's name, and the module that it is likely to be.
pub(super) fn requirement(line: &str) -> Option<(String, String)> {
    let line = line.split(" #").next().unwrap_or_default().trim();
    if line.is_empty() || line.starts_with(['#', '-']) {
        return None;
    }
    if line.contains("://") && !line.contains(" @ ") {
        return Some((line.to_owned(), String::new()));
    }
    let end =
        line.find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))).unwrap_or(line.len());
    let name = line.get(..end)?;
    let normal = normal(name);
    let module =
        MODULES.iter().find(|(other, _)| *other == normal).map_or(normal.as_str(), |(_, module)| module);
    Some((name.to_owned(), module.to_owned()))
}

/// A name as it is compared: lower case, with `_`.
pub(super) fn normal(name: &str) -> String {
    name.to_lowercase().replace(['-', '.'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_known_by_their_first_part() {
        for (name, expected) in [
            ("json", Package::Standard),
            ("concurrent.futures", Package::Standard),
            ("torch.nn.functional", Package::Native(Advice::Model)),
            ("PIL", Package::Native(Advice::Images)),
            ("numpy", Package::Native(Advice::Arrays)),
            ("boto3", Package::Native(Advice::Network)),
            ("requests.adapters", Package::Native(Advice::Requests)),
            ("potassium", Package::Sdk("potassium")),
            ("starlette.responses", Package::Sdk("web")),
            ("emoji", Package::Unknown),
        ] {
            assert_eq!(module(name), expected, "{name}");
        }
    }

    #[test]
    fn requirements_name_a_distribution_and_a_module() {
        for (line, expected) in [
            ("PyYAML>=6  # config", Some(("PyYAML", "yaml"))),
            ("sentence-transformers[onnx]==2.2", Some(("sentence-transformers", "sentence_transformers"))),
            ("opencv-python", Some(("opencv-python", "cv2"))),
            ("git+https://example.com/x.git", Some(("git+https://example.com/x.git", ""))),
            ("# none", None),
            ("-r other.txt", None),
            ("", None),
        ] {
            let expected = expected.map(|(name, module)| (name.to_owned(), module.to_owned()));
            assert_eq!(requirement(line), expected, "{line}");
        }
    }
}
