//! The example of `examples/iris-wasm` as an application: the benchmark's, on bare `wasi:http`.

// Natively its exports have names that no linker takes.
#![cfg(target_family = "wasm")]
#![allow(clippy::unwrap_used, reason = "a guest of the benchmark: what fails there fails the run")]

use modelhost_guest::{Tensor, models};
use serde::{Deserialize, Serialize};
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};

#[derive(Deserialize)]
struct Flower {
    sepal_length: f32,
    sepal_width: f32,
    petal_length: f32,
    petal_width: f32,
}

#[derive(Serialize)]
struct Answer<'a> {
    class_label: &'a str,
    class_index: usize,
    probabilities: &'a [f32],
}

const LABELS: [&str; 3] = ["iris-setosa", "iris-versicolor", "iris-virginica"];

struct Iris;

wasip2::http::proxy::export!(Iris);

impl Guest for Iris {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        match serde_json::from_slice(&read(&request)) {
            Ok(flower) => send(out, 200, &answer(&flower)),
            // The trial of its instances sends no body.
            Err(error) => send(out, 400, error.to_string().as_bytes()),
        }
    }
}

fn answer(flower: &Flower) -> Vec<u8> {
    let row = [flower.sepal_length, flower.sepal_width, flower.petal_length, flower.petal_width];
    let prediction = models::infer("", &[Tensor::new("input", [1, 4], &row)]).unwrap();
    let rows = prediction.last().unwrap().rows::<f32>().unwrap();
    let probabilities = rows.first().unwrap_or_default();
    let largest = probabilities.iter().enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a });
    let (class_index, _) = largest.unwrap();
    let class_label = LABELS.get(class_index).unwrap();
    serde_json::to_vec(&Answer { class_label, class_index, probabilities }).unwrap()
}

fn read(request: &IncomingRequest) -> Vec<u8> {
    let body = request.consume().unwrap();
    let stream = body.stream().unwrap();
    let mut all = Vec::new();
    while let Ok(piece) = stream.blocking_read(64 << 10) {
        all.extend(piece);
    }
    all
}

fn send(out: ResponseOutparam, status: u16, bytes: &[u8]) {
    let headers = [
        ("content-type".to_owned(), b"application/json".to_vec()),
        ("content-length".to_owned(), bytes.len().to_string().into_bytes()),
    ];
    let response = OutgoingResponse::new(Fields::from_list(&headers).unwrap());
    response.set_status_code(status).unwrap();
    let body = response.body().unwrap();
    ResponseOutparam::set(out, Ok(response));
    let stream = body.write().unwrap();
    stream.write(bytes).unwrap();
    drop(stream);
    OutgoingBody::finish(body, None).unwrap();
}
