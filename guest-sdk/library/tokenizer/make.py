#!/usr/bin/env python3
"""Makes the tokenizers that the tests use, and the tokens that the package `tokenizers` finds in texts
(`pip install tokenizers`), in `cases/`.

In:  the project's LICENSE, and the sentences below, to train on. Out: for each kind of tokenizer a file, and
     `cases.json`: what is asked of them and what comes of it.
"""

import json
import pathlib

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).parent / "cases"
LICENSE = pathlib.Path(__file__).parents[3] / "LICENSE"
SENTENCES = [
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "Le cœur a ses raisons que la raison ne connaît point; où sont les neiges d’antan?",
    "El niño comió piñas en la montaña.", "Съешь же ещё этих мягких французских булок.",
    "敏捷的棕色狐狸跳过懒狗。", "いろはにほへと ちりぬるを", "다람쥐 헌 쳇바퀴에 타고파", "نص حكيم له سر قاطع",
    "def f(x):\n\treturn x ** 2  # squares", "It's 3:45 p.m.; we've got $1,234.56 (about 10% more).",
    "😀 👍🏽 👩‍👩‍👧 🇩🇪", "e\u0301 é ﬁ Å Ⅷ ½",
]  # fmt: skip
TEXTS = [
    "", " ", "word", "The licensor grants you a perpetual, worldwide licence.", "  leading and trailing  ", "two\nlines\r\nand\ttabs",
    "Naïve café, déjà vu: ÀÉÎÕÜ", "e\u0301 is é", "😀 and 👩‍👩‍👧 and 🇩🇪 and 👍🏽!", "中文 and 日本語 and 한국어", "نص عربي", "ÅngstrÖm ﬁne ½ Ⅷ",
    "don't won't we've I'm 'quoted'", "1234567890 3.14 1,000,000", "a" * 150, "antidisestablishmentarianism" * 3,
    "[MASK] is <mask> and [SEP] and </s>", "zero\u200bwidth\u00adsoft\u00a0space\ufeff", "\u0000null \ufffd \u202eright", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈",
]  # fmt: skip


def wordpiece(texts):
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=1500, special_tokens=special, show_progress=False))
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_truncation(32)
    made.enable_padding(length=32, pad_id=0, pad_token="[PAD]")
    return made


def bytelevel(texts):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=1500, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    )
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    made.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return made


def unigram(texts):
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace("  ", " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    made.train_from_iterator(
        texts, trainers.UnigramTrainer(vocab_size=900, special_tokens=special, unk_token="<unk>", show_progress=False)
    )
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    made.enable_padding(direction="left", pad_id=0, pad_token="<pad>", pad_to_multiple_of=8)
    return made


def fallback(texts):
    """In the manner of Llama: bytes for what is not in the vocabulary, and a text is one piece."""
    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=1200, special_tokens=special, show_progress=False))
    read = json.loads(made.to_str())
    read["added_tokens"] = read["added_tokens"][:3]
    made = Tokenizer.from_str(json.dumps(read))
    made.pre_tokenizer = None
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return made


def asked():
    """What is asked of each tokenizer: texts, and options as the SDK for Python has them."""
    yield from ({"texts": [text], "offsets": True, "padding": "off", "truncation": "off"} for text in TEXTS)
    yield {"texts": TEXTS, "truncation": "off"}
    yield {"texts": TEXTS, "truncation": 9, "padding": 24}
    yield {"texts": TEXTS[3:9], "padding": "file", "truncation": "file", "offsets": True}
    yield {"texts": TEXTS[:9], "special_tokens": False, "truncation": "off", "offsets": True}
    yield {"texts": TEXTS, "seconds": TEXTS[::-1], "truncation": "off", "offsets": True}
    for most in range(4, 12):
        yield {"texts": TEXTS[2:], "seconds": TEXTS[:1:-1], "truncation": most, "offsets": True}
    yield {"texts": [], "truncation": "off"}


def answer(file, case):
    """What the package makes of it, as it is with its defaults: truncation and padding of the file are options."""
    made = Tokenizer.from_str(file)
    of_file = made.padding
    if case["truncation"] == "off":
        made.no_truncation()
    elif case["truncation"] != "file":
        made.enable_truncation(case["truncation"])
    padding, filling = case.get("padding", "longest"), dict(of_file or {})
    if padding != "file":
        filling.pop("length", None)
    if isinstance(padding, int):
        filling["length"] = padding
        filling.pop("pad_to_multiple_of", None)
    if not of_file:
        filling["pad_id"] = made.token_to_id("[PAD]") or made.token_to_id("<pad>") or 0
    if padding == "off":
        made.no_padding()
    else:
        made.enable_padding(**filling)
    texts = list(zip(case["texts"], case["seconds"])) if "seconds" in case else case["texts"]
    rows = made.encode_batch(texts, add_special_tokens=case.get("special_tokens", True))
    expected = {"ids": [row.ids for row in rows], "mask": [row.attention_mask for row in rows], "types": [row.type_ids for row in rows]}
    if case.get("offsets"):
        expected["offsets"] = [[list(place) for place in row.offsets] for row in rows]
    expected["text"] = made.decode(rows[0].ids) if rows else ""
    return expected


def main():
    texts = LICENSE.read_text().split("\n") + SENTENCES * 4
    OUT.mkdir(exist_ok=True)
    cases = []
    for make in (wordpiece, bytelevel, unigram, fallback):
        file = make(texts).to_str()
        (OUT / f"{make.__name__}.json").write_text(file)
        cases += [{"tokenizer": make.__name__, "asked": case, "expected": answer(file, case)} for case in asked()]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (OUT / "cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
