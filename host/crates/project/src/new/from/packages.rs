//! What Python packages are to a handler: there, pure, served by the SDK, or native code that the sandbox has
//! not.
//!
//! In:  a module's or a distribution's name. Out: a [`Package`], and for what is not there the advice of the
//! report.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Packages with native code that there are wheels of for components, see guest-sdk/python/wasi; and
/// pydantic, whose native code is such a package.
const WHEELS: &str =
    "charset_normalizer markupsafe msgpack numpy orjson pil pillow pydantic pydantic_core pyyaml regex yaml";

/// A module that a project imports, by where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Package {
    /// Of the standard library, and in the component.
    Standard,
    /// Provided by this module of the SDK.
    Sdk(&'static str),
    /// Native, or in need of what the sandbox has not.
    Native(Advice),
    /// Native, and there is a wheel of it.
    Wheel,
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
    Names,
}

impl Advice {
    /// Why the package is not there.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Advice::Network | Advice::Requests => "needs sockets",
            Advice::Names => "has no counterpart in the SDK",
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
                "arrays are numpy's, or `modelhost_guest.Tensor` (reshape, argmax, softmax, top_k)"
            }
            Advice::Images => {
                "pictures are Pillow's (`from PIL import Image`), and their pixels numpy's; sound and video are decoded in a \
                 handler in Rust, or in the model"
            }
            Advice::Tokens => {
                "tokenize in a handler in Rust with the crate `tokenizers`, or in Python by the vocabulary (docs/text.md)"
            }
            Advice::Network => {
                "handlers open no sockets: keep files in the project's folder, values in `kv`; see `allow_outbound`"
            }
            Advice::Requests => {
                "`modelhost_guest.outbound` sends requests, `outbound.get(url).json()`: with \
                 `with = [\"outbound\"]` under [build] and `allow_outbound` in modelhost.toml"
            }
            Advice::System => "there are no threads, processes or native libraries in the sandbox",
            Advice::Names => {
                "`modelhost_guest.web` has requests, responses, WebSockets and errors of FastAPI and Starlette; \
                 a route is a function of `modelhost_guest.App`"
            }
        }
    }
}

const ADVICE: [(Advice, &str); 7] = [
    (
        Advice::Model,
        "accelerate audiocraft auto_gptq autogptq awq bark bert bitsandbytes catboost chatterbox chronos coremltools ctransformers \
         deepspeed diffusers exllama exllamav2 fairseq faster_whisper flair flash_attn gguf ggml jax jaxlib keras kokoro langchain \
         faiss lightgbm llama_cpp llama_cpp_python mii mlx nemo nltk onnx onnxruntime onnxruntime_gpu openvino optimum paddle paddleocr peft \
         pyannote sentence_transformers sglang skimage sklearn scikit_learn spacy stanza statsmodels tensorflow tensorflow_gpu \
         tensorflow_hub tensorflow_text tensorrt tensorrt_llm tflite_runtime thinc timm torch torchaudio torchvision torchtext \
         transformers triton tritonclient trl tts ultralytics unsloth vllm whisper whisperx openai_whisper xformers xgboost",
    ),
    (Advice::Arrays, "cupy numba pandas polars pyarrow scipy einops safetensors"),
    (
        Advice::Images,
        "cv2 opencv_python opencv_python_headless imageio matplotlib moviepy pydub librosa soundfile av ffmpeg decord",
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
        "_ctypes cffi ctypes curses cryptography cython fcntl grp lxml nvidia_ml_py psutil pty pwd pycuda pynvml pyximport ray truss truss_chains crypto fitz git levenshtein magic mysqldb openssl serial \
         readline resource ssl termios tkinter triton_python_backend_utils ujson zmq bz2 lzma mmap tty syslog",
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

/// Distributions whose module has another name, as their authors write them.
const MODULES: [(&str, &str); 37] = [
    ("PyYAML", "yaml"),
    ("python-dateutil", "dateutil"),
    ("beautifulsoup4", "bs4"),
    ("attrs", "attr"),
    ("scikit-learn", "sklearn"),
    ("scikit-image", "skimage"),
    ("Pillow", "PIL"),
    ("opencv-python", "cv2"),
    ("opencv-python-headless", "cv2"),
    ("opencv-contrib-python", "cv2"),
    ("faiss-cpu", "faiss"),
    ("faiss-gpu", "faiss"),
    ("protobuf", "google"),
    ("python-dotenv", "dotenv"),
    ("python-slugify", "slugify"),
    ("python-docx", "docx"),
    ("python-pptx", "pptx"),
    ("python-jose", "jose"),
    ("python-multipart", "multipart"),
    ("python-magic", "magic"),
    ("python-Levenshtein", "Levenshtein"),
    ("PyJWT", "jwt"),
    ("pycryptodome", "Crypto"),
    ("pyOpenSSL", "OpenSSL"),
    ("PyMuPDF", "fitz"),
    ("pdfminer.six", "pdfminer"),
    ("GitPython", "git"),
    ("pyserial", "serial"),
    ("mysqlclient", "MySQLdb"),
    ("psycopg2-binary", "psycopg2"),
    ("websocket-client", "websocket"),
    ("openai-whisper", "whisper"),
    ("umap-learn", "umap"),
    ("hydra-core", "hydra"),
    ("pyzmq", "zmq"),
    ("msgpack-python", "msgpack"),
    ("ruamel.yaml", "ruamel"),
];

/// Of each name, compared as it is written, the kind; packages and natives by their normal names.
static KINDS: LazyLock<HashMap<&str, Package>> = LazyLock::new(|| {
    let natives = ADVICE.iter().flat_map(|(advice, names)| {
        names.split_whitespace().map(move |name| (name, Package::Native(*advice)))
    });
    let known = SDK.iter().map(|(name, module)| (*name, Package::Sdk(module)));
    let wheels = WHEELS.split_whitespace().map(|name| (name, Package::Wheel));
    natives
        .chain(known)
        .chain(wheels)
        .chain(STANDARD.split_whitespace().map(|name| (name, Package::Standard)))
        .collect()
});

/// The distribution that has a module, if its name is another.
pub(super) fn distribution(module: &str) -> Option<&'static str> {
    MODULES.iter().find(|(_, other)| *other == module).map(|(name, _)| *name)
}

/// The kind of a module, by the first part of its dotted name.
pub(super) fn module(name: &str) -> Package {
    let mut parts = name.split('.');
    let first = parts.next().unwrap_or_default();
    match KINDS.get(first) {
        Some(Package::Sdk("web")) if parts.next() == Some("status") => return Package::Sdk("status"),
        Some(found @ (Package::Sdk(_) | Package::Standard)) => return *found,
        _ => {}
    }
    match KINDS.get(normal(first).as_str()) {
        Some(found @ (Package::Native(_) | Package::Wheel)) => *found,
        _ => Package::Unknown,
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
    let module = MODULES.iter().find(|(other, _)| self::normal(other) == normal);
    Some((name.to_owned(), module.map_or(normal, |(_, module)| self::normal(module))))
}

/// Whether a requirement asks for a release of version 1.
pub(super) fn is_first_version(line: &str) -> bool {
    let line: String = line.split([';', '#']).next().unwrap_or_default().split_whitespace().collect();
    let after = |asked: &str| line.split_once(asked).map(|(_, after)| after);
    let is_of_first = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_digit());
    let is_second = |rest: &str| rest.is_empty() || rest.starts_with(',') || rest.starts_with(".0");
    ["==1", "~=1", "<=1"].into_iter().filter_map(after).any(is_of_first) || after("<2").is_some_and(is_second)
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
            ("PIL.Image", Package::Wheel),
            ("cv2", Package::Native(Advice::Images)),
            ("numpy.linalg", Package::Wheel),
            ("yaml", Package::Wheel),
            ("pydantic.types", Package::Wheel),
            ("pandas", Package::Native(Advice::Arrays)),
            ("boto3", Package::Native(Advice::Network)),
            ("requests.adapters", Package::Native(Advice::Requests)),
            ("potassium", Package::Sdk("potassium")),
            ("starlette.responses", Package::Sdk("web")),
            ("fastapi.status", Package::Sdk("status")),
            ("Crypto.Cipher", Package::Native(Advice::System)),
            ("JSON", Package::Unknown),
            ("emoji", Package::Unknown),
        ] {
            assert_eq!(module(name), expected, "{name}");
        }
    }

    #[test]
    fn a_requirement_may_ask_for_version_1() {
        for (line, expected) in [
            ("pydantic==1.10.2", true),
            ("pydantic ~= 1.10", true),
            ("pydantic>=1.8,<2", true),
            ("pydantic<2.0  # old", true),
            ("pydantic", false),
            ("pydantic>=1.10", false),
            ("pydantic==2.11.1", false),
            ("pydantic==10.1", false),
            ("pydantic<20", false),
            ("pydantic>=1.8,<2.5", false),
        ] {
            assert_eq!(is_first_version(line), expected, "{line}");
        }
    }

    #[test]
    fn requirements_name_a_distribution_and_a_module() {
        for (line, expected) in [
            ("PyYAML>=6  # config", Some(("PyYAML", "yaml"))),
            ("sentence-transformers[onnx]==2.2", Some(("sentence-transformers", "sentence_transformers"))),
            ("opencv-python", Some(("opencv-python", "cv2"))),
            ("python_slugify>=8", Some(("python_slugify", "slugify"))),
            ("Pillow", Some(("Pillow", "pil"))),
            ("git+https://example.com/x.git", Some(("git+https://example.com/x.git", ""))),
            ("# none", None),
            ("-r other.txt", None),
            ("", None),
        ] {
            let expected = expected.map(|(name, module)| (name.to_owned(), module.to_owned()));
            assert_eq!(requirement(line), expected, "{line}");
        }
        for (module, expected) in [
            ("slugify", Some("python-slugify")),
            ("PIL", Some("Pillow")),
            ("jwt", Some("PyJWT")),
            ("emoji", None),
        ] {
            assert_eq!(distribution(module), expected, "{module}");
        }
    }
}
