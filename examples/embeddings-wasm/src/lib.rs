//! Vectors of texts, as OpenAI's clients ask for them.
//!
//! Flow: [`request`] (what is asked for) → [`tokens`] (texts to numbers) → [`batch`] (the model) → the
//! answer.
//! In:   `POST /v1/embeddings` with `{"model": "…", "input": …}`: a text, texts, or tokens in their place;
//!       `encoding_format` (`float` or `base64`) and `dimensions`, if they are given.
//! Out:  `{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": …}, …], "model",
//!       "usage"}`.
//!
//! The model is sentence-transformers/all-MiniLM-L6-v2, and the vectors are those of that package.

mod batch;
mod request;
mod tokens;

use std::sync::LazyLock;

use modelhost_guest::app::{Json, Router};
use modelhost_guest::{Handler, Metadata, Result, export};
use serde::Serialize;

use crate::request::{Asked, Format};
use crate::tokens::Tokenizer;

/// One token a line; its number is that of the line.
const VOCABULARY: &str = "/mnt/project/vocab.txt";

#[derive(Debug, Serialize)]
struct Answer {
    object: &'static str,
    data: Vec<Embedding>,
    model: String,
    usage: Usage,
}

#[derive(Debug, Serialize)]
struct Embedding {
    object: &'static str,
    index: usize,
    embedding: Values,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Values {
    Floats(Vec<f32>),
    Base64(String),
}

#[derive(Debug, Serialize)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}

#[derive(Default)]
struct Embeddings {
    tokenizer: Tokenizer,
}

static ROUTES: LazyLock<Router<Embeddings>> =
    LazyLock::new(|| Router::new().post("/", embed).post("/v1/embeddings", embed));

export!(Embeddings: init, respond);

impl Handler for Embeddings {
    fn new() -> Self {
        Embeddings::default()
    }

    fn init(&mut self, _: &Metadata) -> Result<()> {
        self.tokenizer = Tokenizer::new(&std::fs::read_to_string(VOCABULARY)?)?;
        Ok(())
    }

    fn router() -> Option<&'static Router<Embeddings>> {
        Some(&ROUTES)
    }
}

fn embed(this: &mut Embeddings, Json(body): Json<request::Body>) -> Result<Json<Answer>> {
    let Asked { texts, model, dimensions, format } = body.read(&this.tokenizer)?;
    let used = texts.iter().map(Vec::len).sum();
    let vectors = batch::vectors(&texts)?;
    let data = vectors.into_iter().enumerate().map(|(index, vector)| {
        let vector = shortened(vector, dimensions);
        let embedding = match format {
            Format::Float => Values::Floats(vector),
            Format::Base64 => Values::Base64(base64(&vector)),
        };
        Embedding { object: "embedding", index, embedding }
    });
    let usage = Usage { prompt_tokens: used, total_tokens: used };
    Ok(Json(Answer { object: "list", data: data.collect(), model, usage }))
}

/// The first of a vector's values, of length 1 again.
fn shortened(mut vector: Vec<f32>, dimensions: usize) -> Vec<f32> {
    if dimensions < vector.len() {
        vector.truncate(dimensions);
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|value| *value /= length);
        }
    }
    vector
}

/// Little-endian floats in base64 (RFC 4648, section 4).
fn base64(vector: &[f32]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let missing = 3 - group.len();
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * missing);
        for position in 0..4 {
            let letter = ALPHABET.get(bits >> (18 - 6 * position) & 63).filter(|_| position < 4 - missing);
            text.push(letter.map_or('=', |letter| char::from(*letter)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use modelhost_guest::app::answer;
    use modelhost_guest::{Context, Error, Tensor, models};

    use super::*;

    /// A model whose vector is a text's number of tokens, its first token and zeros.
    fn serve() -> Embeddings {
        models::answer_with(|_, inputs| {
            let (ids, mask) = (inputs[0].values::<i64>().unwrap(), inputs[1].values::<i64>().unwrap());
            let &[texts, tokens] = inputs[0].shape.as_slice() else { panic!("{:?}", inputs[0].shape) };
            let mut vectors = Vec::new();
            for row in 0..texts as usize {
                let of_text = row * tokens as usize..(row + 1) * tokens as usize;
                let mut vector = [0_f32; batch::SIZE];
                vector[0] = mask[of_text.clone()].iter().sum::<i64>() as f32;
                vector[1] = ids[of_text.start] as f32;
                vectors.extend(vector);
            }
            Ok(vec![Tensor::new("sentence_embedding", [texts, batch::SIZE as u64], &vectors)])
        });
        Embeddings { tokenizer: tokens::tests::tokenizer() }
    }

    fn ask(body: &str) -> Result<String> {
        let request = Context::builder().method("POST").path("/v1/embeddings").body("application/json", body);
        answer(&mut serve(), request).map(|answer| answer.text().to_owned())
    }

    #[test]
    fn vectors_come_in_the_order_of_the_texts() {
        let text = ask(r#"{"model": "m", "input": ["hello hello", "hello", ""], "dimensions": 1}"#).unwrap();
        let data = r#"[{"object":"embedding","index":0,"embedding":[1.0]},{"object":"embedding","index":1,"embedding":[1.0]},{"object":"embedding","index":2,"embedding":[1.0]}]"#;
        let expected = format!(
            r#"{{"object":"list","data":{data},"model":"m","usage":{{"prompt_tokens":9,"total_tokens":9}}}}"#
        );
        assert_eq!(text, expected);
        // Tokens as they are, shorter before longer to the model, and still each at its place.
        let text = ask(r#"{"model": "m", "input": [[7, 1, 1], [5]]}"#).unwrap();
        assert!(
            text.contains(r#""embedding":[3.0,7.0,0.0"#) && text.contains(r#""embedding":[1.0,5.0,0.0"#),
            "{text}"
        );
    }

    #[test]
    fn what_cannot_be_embedded_is_the_callers() {
        for (body, says) in [
            (r#"{"model": "m"}"#, "missing field `input`"),
            (r#"{"model": "m", "input": 1}"#, "`input` is none of a text, texts, tokens and lists of tokens"),
            (r#"{"model": "m", "input": []}"#, "`input` is empty"),
            (r#"{"model": "m", "input": [[]]}"#, "`input[0]` is empty"),
            (r#"{"model": "m", "input": [9000]}"#, "`input[0]` has token 9000"),
            (r#"{"model": "m", "input": "x", "dimensions": 0}"#, "`dimensions` is 0, expected 1 to 384"),
            (r#"{"model": "m", "input": "x", "encoding_format": "hex"}"#, "`encoding_format`"),
            (r#"{"model": "m", "input": "x", "user": "u", "truncate": true}"#, "`truncate` is not served"),
        ] {
            let error = ask(body).unwrap_err();
            assert!(matches!(&error, Error::InvalidInput(text) if text.contains(says)), "{body}: {error}");
        }
        let long = format!(r#"{{"model": "m", "input": "{}"}}"#, "hello ".repeat(255));
        let error = ask(&long).unwrap_err().to_string();
        assert_eq!(error, "`input[0]` has 257 tokens, of at most 256");
    }

    #[test]
    fn base64_is_of_little_endian_floats() {
        assert_eq!(base64(&[1.0]), "AACAPw==");
        assert_eq!(base64(&[1.0, -2.0]), "AACAPwAAAMA=");
    }
}
