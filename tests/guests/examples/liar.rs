//! Returns whatever rubbish the body names, from `pre_inference` (`RUBBISH` below) or `post_inference`.
//!
//! Runs without a model, and with the iris model, for which any other body makes a good request.

use modelhost_guest::{Context, Datatype, Handler, Response, Result, Sample, Tensor, export, internal};

struct Liar;

export!(Liar);

impl Handler for Liar {
    fn new() -> Self {
        Liar
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let raw = |datatype, shape: &[u64], data: &[u8]| Tensor {
            name: "input".into(),
            datatype,
            shape: shape.to_vec(),
            data: data.to_vec(),
        };
        let good = || Tensor::new("input", [1, 4], &[5.2f32, 3.6, 1.4, 0.3]);
        Ok(match sample.text()?.into_owned().as_str() {
            // Fewer bytes than the shape says.
            "length" => vec![raw(Datatype::Fp32, &[1, 4], &[0; 15])],
            // As many elements as no memory holds; the product of the extents is 0 modulo 2^64.
            "overflow" => vec![raw(Datatype::Fp32, &[1 << 32, 1 << 32], &[])],
            "bool" => vec![raw(Datatype::Bool, &[2], &[1, 2])],
            // An element that claims to be longer than the data.
            "bytes" => vec![raw(Datatype::Bytes, &[1], &[255, 255, 255, 255, 0])],
            "dtype" => vec![Tensor::new("input", [1, 4], &[5i64, 3, 1, 0])],
            "shape" => vec![Tensor::new("input", [1, 3], &[5.2f32, 3.6, 1.4])],
            "none" => Vec::new(),
            "twice" => vec![good(), good()],
            "stranger" => vec![good(), Tensor::new("stranger", [1], &[0f32])],
            "many" => vec![Tensor::new("", [], &[0u8]); 100_000],
            // Rank without end.
            "rank" => vec![Tensor::new("input", vec![1; 1_000_000], &[0u8])],
            _ => vec![good()],
        })
    }

    fn post_inference(&mut self, _prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        let sample = context.sample();
        let fine = Response::text("fine");
        let text = sample.text()?;
        let (what, count) = text.split_once(' ').unwrap_or((&text, "0"));
        let count: usize = count.parse().map_err(|_| internal("the count is not a number"))?;
        Ok(match what {
            "status" => fine.status(u16::try_from(count).map_err(|_| internal("the status is too large"))?),
            "header-name" => fine.header("bad name", "x"),
            "header-value" => fine.header("x-bad", "a\r\nset-cookie: b"),
            "hop" => fine.header("transfer-encoding", "chunked"),
            "content-length" => fine.header("content-length", "1"),
            "content-type" => Response::new(200, "text/html\r\nset-cookie: b", "x"),
            "json" => Response::new(200, "application/json", "{\"cut\": "),
            "nan" => Response::new(200, "application/json", "{\"p\": NaN}"),
            // `flood 70000000`: so many bytes of body, or header lines.
            "flood" => Response::new(200, "text/plain", vec![b'x'; count]),
            "headers" => Response { headers: vec![("x".into(), "y".into()); count], ..fine },
            _ => fine,
        })
    }
}
