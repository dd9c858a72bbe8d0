"""What the example examples/vad-wasm has to find, by another implementation: ONNX Runtime and Silero's own rules.

Arguments: the model, the file to write the audio to.
Out: one line, JSON: the segments. The audio is synthetic, vowels with pauses between them; the probabilities are computed as
the package's `OnnxWrapper` does, and `get_speech_timestamps_from_probs` is the package's own, taken out of its source, for
the module around it needs torch.
"""

import ast
import importlib.util
import json
import pathlib
import sys
import typing

import numpy as np
import onnxruntime

RATE, WINDOW, CONTEXT = 16000, 512, 64
# A probability that is closer than this to a threshold could fall to the other side by rounding.
MARGIN = 1e-3
# Formants in Hz.
A, E, I, O, U = (730, 1090, 2440), (530, 1840, 2480), (270, 2290, 3010), (570, 840, 2410), (300, 870, 2240)
PHRASES = [
    (0.6, None), (0.16, A), (0.14, I), (0.04, None), (0.16, U), (0.15, E), (0.18, O), (0.16, A), (0.14, I), (0.8, None),
    (0.18, E), (0.05, None), (0.2, A), (0.15, I), (0.1, U), (0.18, E), (0.2, A), (0.15, I), (0.9, None), (0.1, A),
    (0.7, None), (0.2, O), (0.2, E), (0.2, A), (0.2, I),
]  # fmt: skip


def vowel(seconds, formants):
    """Harmonics of a voice of 120 Hz, as loud as the formants make them."""
    time = np.arange(int(seconds * RATE)) / RATE
    if formants is None:
        return np.zeros(len(time))
    phase = np.cumsum(120 * (1 + 0.1 * np.sin(2 * np.pi * 3 * time))) / RATE
    sound = np.zeros(len(time))
    for harmonic in range(1, 40):
        frequency = 120 * harmonic
        gain = sum(1 / (1 + ((frequency - formant) / 80) ** 2) for formant in formants) / harmonic**0.5
        sound += gain * np.sin(2 * np.pi * harmonic * phase)
    fade = np.minimum(1, np.minimum(np.arange(len(time)), np.arange(len(time))[::-1]) / (0.02 * RATE))
    return 0.5 * fade * sound / np.abs(sound).max()


def spoken():
    """All phrases, as the bytes of a request have them."""
    return (np.concatenate([vowel(*phrase) for phrase in PHRASES]) * 32767).astype("<i2")


def probabilities(model, audio):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    state, context = np.zeros((2, 1, 128), np.float32), np.zeros(CONTEXT, np.float32)
    for start in range(0, len(audio), WINDOW):
        window = audio[start : start + WINDOW]
        seen = np.concatenate([context, window, np.zeros(WINDOW - len(window), np.float32)])
        found, state = session.run(None, {"input": seen[None], "state": state, "sr": np.array(RATE)})
        context = seen[-CONTEXT:]
        yield float(found[0, 0])


def function_of(package, file, name):
    """A function of a package that is not imported."""
    [folder] = importlib.util.find_spec(package).submodule_search_locations
    tree = ast.parse((pathlib.Path(folder) / file).read_bytes())
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    namespace = {"List": typing.List}
    exec(compile(ast.Module(found, []), file, "exec"), namespace)
    return namespace[name]


def main():
    model, file = sys.argv[1:]
    samples = spoken()
    samples.tofile(file)
    found = list(probabilities(model, samples.astype(np.float32) / 32768))
    for threshold in [0.5, 0.35]:
        assert min(abs(each - threshold) for each in found) > MARGIN, found
    rules = function_of("silero_vad", "utils_vad.py", "get_speech_timestamps_from_probs")
    print(json.dumps(rules(found, audio_length_samples=len(samples))))


if __name__ == "__main__":
    main()
