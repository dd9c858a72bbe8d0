//! Protobuf with a bound on what a message may unfold to.
//!
//! Place in the flow: `intake → [codec] → method`; [`bounds`](super::bounds) does the counting.
//! In:   a message of at most so many bytes, hostile. Out: a Rust value.
//! Invariant: every request is counted before it is made. Long messages are read and written off the threads
//! that serve requests.

use std::marker::PhantomData;

use bytes::Buf as _;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::prost::Message;
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use super::bounds::Bounds;
use super::failure;
use crate::blocking;
use crate::error::{RequestError, Stage};

/// A message of clients.
pub(super) trait RequestMessage: Message + Default + Send + 'static {
    /// How much it may unfold to.
    const BOUNDS: Bounds;
}

/// The codec of every method; `build.rs` names it.
pub(super) struct Bounded<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Bounded<T, U> {
    fn default() -> Self {
        Bounded(PhantomData)
    }
}

impl<T: Message + Send + 'static, U: RequestMessage> Codec for Bounded<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = OffWorker<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        OffWorker(ProstCodec::<T, U>::default().encoder())
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstCodec::<T, U>::default().decoder())
    }
}

/// Encodes, a long message not as one of the runtime's workers.
pub(super) struct OffWorker<T>(ProstEncoder<T>);

impl<T: Message> Encoder for OffWorker<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        blocking::if_much_copied(message.encoded_len(), || self.0.encode(message, buffer))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// Counts, then decodes.
pub(super) struct BoundedDecoder<U>(ProstDecoder<U>);

impl<U: RequestMessage> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // A message lies in one piece.
        blocking::if_large(buffer.remaining(), || {
            U::BOUNDS
                .check(buffer.chunk())
                .map_err(|text| failure::refused(&RequestError::invalid(Stage::Admit, text)))?;
            self.0.decode(buffer)
        })
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
