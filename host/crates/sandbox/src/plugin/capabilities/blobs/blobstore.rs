//! `wasi:blobstore`: the objects of the endpoint's containers, asked for by the guest.
//!
//! Place in the flow: called while any function of a handler runs. In: names and streams. Out: likewise.
//! Invariants: only a client's request writes to the store; what any other run writes is seen by itself
//! alone. Waiting for the store holds no thread, and counts as no computing. A run that asks for objects is
//! neither recorded nor kept for the gate: its answers may be of any size.
//! Source: <https://github.com/WebAssembly/wasi-blobstore>, as of `0.2.0-draft`.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::{Linker, Resource};
use wasmtime::{Error, Result};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream};

use self::draft::wasi::blobstore::container::{HostContainer, HostStreamObjectNames};
use self::draft::wasi::blobstore::types::{
    ContainerMetadata, HostIncomingValue, HostOutgoingValue, ObjectId, ObjectMetadata,
};
use self::draft::wasi::blobstore::{blobstore, container, types};
use self::streams::{ObjectSink, ObjectSource};
use super::Blobs;
use crate::blobs::{BlobError, Container, EndpointBlobs, MOST_NAMES, MOST_OPEN, Reader, Upload};
use crate::plugin::capability::{HasView, View};
use crate::text::shown;

mod streams;

mod draft {
    #![allow(missing_docs, reason = "generated; wit/deps/blobstore documents every item")]

    wasmtime::component::bindgen!({
        path: "../../../wit",
        world: "blob-imports",
        imports: {
            "wasi:blobstore/types.[static]outgoing-value.new-outgoing-value": trappable,
            "wasi:blobstore/types.[method]outgoing-value.outgoing-value-write-body": trappable,
            "wasi:blobstore/types.[drop]outgoing-value": trappable,
            "wasi:blobstore/types.[static]incoming-value.incoming-value-consume-async": trappable,
            "wasi:blobstore/types.[method]incoming-value.size": trappable,
            "wasi:blobstore/types.[drop]incoming-value": trappable,
            "wasi:blobstore/container.[method]container.name": trappable,
            "wasi:blobstore/container.[method]container.info": trappable,
            "wasi:blobstore/container.[method]container.write-data": trappable,
            "wasi:blobstore/container.[method]container.list-objects": trappable,
            "wasi:blobstore/container.[drop]container": trappable,
            "wasi:blobstore/container.[drop]stream-object-names": trappable,
            "wasi:blobstore/blobstore.create-container": trappable,
            "wasi:blobstore/blobstore.get-container": trappable,
            "wasi:blobstore/blobstore.container-exists": trappable,
            default: async | trappable,
        },
        with: {
            "wasi:io": wasmtime_wasi::p2::bindings::io,
            "wasi:blobstore/types.outgoing-value": super::Outgoing,
            "wasi:blobstore/types.incoming-value": super::Incoming,
            "wasi:blobstore/container.container": crate::blobs::Container,
            "wasi:blobstore/container.stream-object-names": super::Names,
        },
    });
}

/// The kinds of operations, as metrics have them.
const READ: &str = "read";
const WRITE: &str = "write";
const INFO: &str = "info";
const LIST: &str = "list";
const DELETE: &str = "delete";

/// Links them.
pub(super) fn link<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> View<'_, Blobs>,
) -> Result<()> {
    types::add_to_linker::<_, HasView<Blobs>>(linker, view)?;
    container::add_to_linker::<_, HasView<Blobs>>(linker, view)?;
    blobstore::add_to_linker::<_, HasView<Blobs>>(linker, view)
}

/// An object that the guest writes.
#[derive(Default)]
pub struct Outgoing {
    upload: Upload,
    has_body: bool,
    /// It goes nowhere: it was named in a run that must not write.
    is_isolated: bool,
}

/// One that it reads.
pub struct Incoming {
    size: u64,
    reader: Reader,
    place: OwnedSemaphorePermit,
}

/// A listing, as far as the guest has come.
pub struct Names {
    container: Container,
    read: std::vec::IntoIter<String>,
    /// Where the next page begins; `None` behind the last one.
    next: Option<Option<String>>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.upload.abandon();
    }
}

type Answer<T> = Result<Result<T, String>>;

impl View<'_, Blobs> {
    /// The endpoint's containers, for one call.
    fn blobs(&mut self) -> Result<Result<EndpointBlobs, BlobError>> {
        self.kernel.count_host_call();
        self.note_dependency();
        for log in self.kernel.log.into_iter().chain(&self.kernel.run.calls_log) {
            if log.answers().is_some() {
                return Err(Error::msg("the handler asks for objects, which no recording has"));
            }
            log.spoil("objects that the handler keeps");
        }
        let Some(granted) = self.granted else {
            return Ok(Err(BlobError::NoSuchContainer("any".to_owned())));
        };
        Ok(Ok(match self.kernel.run.calls_out {
            true => granted.blobs.clone(),
            false => self.state.scratch.get_or_insert_with(|| granted.blobs.isolated()).clone(),
        }))
    }

    /// Counts an operation.
    fn counted<T>(&self, operation: &str, outcome: Result<T, BlobError>) -> Result<T, String> {
        if let Some(calls) = self.granted.and_then(|granted| granted.calls.as_ref()) {
            calls.count(operation, outcome.is_ok());
        }
        outcome.map_err(|error| error.to_string())
    }

    fn open_container(&mut self, name: &str) -> Answer<Resource<Container>> {
        match self.blobs()?.and_then(|blobs| blobs.open(name)) {
            Ok(container) => Ok(Ok(self.kernel.table.push(container)?)),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// A place among the objects and listings that are open.
    fn place(&mut self) -> Result<OwnedSemaphorePermit, BlobError> {
        let places = self.state.places.get_or_insert_with(|| Arc::new(Semaphore::new(MOST_OPEN)));
        let place = places.clone().try_acquire_owned();
        place.map_err(|_| BlobError::Limit(format!("more than {MOST_OPEN} objects and listings are open")))
    }

    /// Does this with a container.
    async fn with_container<T, F: Future<Output = Result<T, BlobError>>>(
        &mut self,
        container: &Resource<Container>,
        operation: &str,
        work: impl FnOnce(EndpointBlobs, Container) -> F,
    ) -> Answer<T> {
        let container = self.kernel.table.get(container)?.clone();
        let outcome = match self.blobs()? {
            Ok(blobs) => work(blobs, container).await,
            Err(error) => Err(error),
        };
        Ok(self.counted(operation, outcome))
    }

    /// Copies an object, piece by piece; removes the first one if it is moved.
    async fn copy(&mut self, source: &ObjectId, target: &ObjectId, is_moved: bool) -> Answer<()> {
        let outcome = match self.blobs()? {
            Ok(blobs) => copied(&blobs, source, target, is_moved).await,
            Err(error) => Err(error),
        };
        Ok(self.counted(WRITE, outcome))
    }

    /// So many names of a listing, and whether they were the last.
    async fn names(&mut self, names: &Resource<Names>, most: u64) -> Answer<(Vec<String>, bool)> {
        let most = usize::try_from(most).unwrap_or(MOST_NAMES).min(MOST_NAMES);
        let blobs = match self.blobs()? {
            Ok(blobs) => blobs,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let mut found = Vec::new();
        loop {
            let listing = self.kernel.table.get_mut(names)?;
            found.extend(listing.read.by_ref().take(most.saturating_sub(found.len())));
            if found.len() >= most && listing.read.len() > 0 {
                return Ok(Ok((found, false)));
            }
            let Some(from) = listing.next.clone() else { return Ok(Ok((found, true))) };
            // Whether there are more, the next page says.
            let container = listing.container.clone();
            let page = blobs.list(&container, from).await;
            match self.counted(LIST, page) {
                Ok((page, next)) => {
                    let listing = self.kernel.table.get_mut(names)?;
                    (listing.read, listing.next) = (page.into_iter(), next.map(Some));
                }
                Err(error) => return Ok(Err(error)),
            }
        }
    }
}

async fn copied(
    blobs: &EndpointBlobs,
    source: &ObjectId,
    target: &ObjectId,
    is_moved: bool,
) -> Result<(), BlobError> {
    let (from, to) = (blobs.open(&source.container)?, blobs.open(&target.container)?);
    let (_, mut reader) = blobs.read(&from, &source.object, 0, u64::MAX).await?;
    let mut writer = blobs.write(&to, &target.object).await?;
    while let Some(piece) = reader.next().await? {
        writer.write(piece).await?;
    }
    writer.finish().await?;
    let is_same = (&source.container, &source.object) == (&target.container, &target.object);
    if is_moved && !is_same {
        blobs.delete(&from, std::slice::from_ref(&source.object)).await?;
    }
    Ok(())
}

impl types::Host for View<'_, Blobs> {}
impl container::Host for View<'_, Blobs> {}

impl HostOutgoingValue for View<'_, Blobs> {
    fn new_outgoing_value(&mut self) -> Result<Resource<Outgoing>> {
        Ok(self.kernel.table.push(Outgoing::default())?)
    }

    fn outgoing_value_write_body(
        &mut self,
        value: Resource<Outgoing>,
    ) -> Result<Result<Resource<DynOutputStream>, ()>> {
        let place = self.place();
        let outgoing = self.kernel.table.get_mut(&value)?;
        if std::mem::replace(&mut outgoing.has_body, true) {
            return Ok(Err(()));
        }
        if outgoing.upload.hold(place).is_err() {
            return Ok(Err(()));
        }
        let stream: DynOutputStream = Box::new(ObjectSink::new(outgoing.upload.clone()));
        Ok(Ok(self.kernel.table.push(stream)?))
    }

    async fn finish(&mut self, value: Resource<Outgoing>) -> Answer<()> {
        self.kernel.count_host_call();
        let outgoing = self.kernel.table.delete(value)?;
        let outcome = match outgoing.is_isolated && self.kernel.run.calls_out {
            // It would be answered, and be nowhere.
            true => Err(BlobError::Invalid("the object was begun in a run that stores nothing".to_owned())),
            false => outgoing.upload.clone().finish().await,
        };
        Ok(self.counted(WRITE, outcome))
    }

    fn drop(&mut self, value: Resource<Outgoing>) -> Result<()> {
        self.kernel.table.delete(value)?;
        Ok(())
    }
}

impl HostIncomingValue for View<'_, Blobs> {
    async fn incoming_value_consume_sync(&mut self, value: Resource<Incoming>) -> Answer<Vec<u8>> {
        self.kernel.count_host_call();
        let Incoming { size, mut reader, place: _place } = self.kernel.table.delete(value)?;
        let most = self.kernel.limits.output;
        if usize::try_from(size).is_ok_and(|size| size <= most) {
            let memory = self.kernel.request.map(|request| request.memory).unwrap_or_default();
            let Ok(_charge) = memory.take(usize::try_from(size).unwrap_or(usize::MAX)) else {
                return Ok(Err("the server has no memory for the object now".to_owned()));
            };
            let mut all = Vec::new();
            loop {
                match reader.next().await {
                    Ok(Some(piece)) => all.extend_from_slice(&piece),
                    Ok(None) => return Ok(Ok(all)),
                    Err(error) => return Ok(Err(error.to_string())),
                }
            }
        }
        Ok(Err(format!(
            "an object of {size} bytes at once, and {most} are `limits.output`; read it as a stream"
        )))
    }

    fn incoming_value_consume_async(
        &mut self,
        value: Resource<Incoming>,
    ) -> Answer<Resource<DynInputStream>> {
        let Incoming { reader, place, .. } = self.kernel.table.delete(value)?;
        let stream: DynInputStream = Box::new(ObjectSource::new(reader, place));
        Ok(Ok(self.kernel.table.push(stream)?))
    }

    fn size(&mut self, value: Resource<Incoming>) -> Result<u64> {
        Ok(self.kernel.table.get(&value)?.size)
    }

    fn drop(&mut self, value: Resource<Incoming>) -> Result<()> {
        self.kernel.table.delete(value)?;
        Ok(())
    }
}

impl HostContainer for View<'_, Blobs> {
    fn name(&mut self, container: Resource<Container>) -> Answer<String> {
        Ok(Ok(self.kernel.table.get(&container)?.name().to_owned()))
    }

    fn info(&mut self, container: Resource<Container>) -> Answer<ContainerMetadata> {
        let name = self.kernel.table.get(&container)?.name().to_owned();
        Ok(Ok(ContainerMetadata { name, created_at: 0 }))
    }

    async fn get_data(
        &mut self,
        container: Resource<Container>,
        name: String,
        start: u64,
        end: u64,
    ) -> Answer<Resource<Incoming>> {
        let place = self.place();
        let read = async move |blobs: EndpointBlobs, container: Container| {
            let place = place?;
            let (size, reader) = blobs.read(&container, &name, start, end).await?;
            Ok(Incoming { size, reader, place })
        };
        match self.with_container(&container, READ, read).await? {
            Ok(incoming) => Ok(Ok(self.kernel.table.push(incoming)?)),
            Err(error) => Ok(Err(error)),
        }
    }

    fn write_data(
        &mut self,
        container: Resource<Container>,
        name: String,
        value: Resource<Outgoing>,
    ) -> Answer<()> {
        let container = self.kernel.table.get(&container)?.clone();
        let (blobs, place, is_isolated) = (self.blobs()?, self.place(), !self.kernel.run.calls_out);
        let outgoing = self.kernel.table.get_mut(&value)?;
        let begin = || {
            outgoing.upload.hold(place)?;
            outgoing.is_isolated = is_isolated;
            outgoing.upload.begin(blobs?, container, name)
        };
        Ok(begin().map_err(|error| error.to_string()))
    }

    fn list_objects(&mut self, container: Resource<Container>) -> Answer<Resource<Names>> {
        let container = self.kernel.table.get(&container)?.clone();
        let place = match self.place() {
            Ok(place) => place,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let names = Names { container, read: Vec::new().into_iter(), next: Some(None), _place: place };
        Ok(Ok(self.kernel.table.push(names)?))
    }

    async fn delete_object(&mut self, container: Resource<Container>, name: String) -> Answer<()> {
        self.delete_objects(container, vec![name]).await
    }

    async fn delete_objects(&mut self, container: Resource<Container>, names: Vec<String>) -> Answer<()> {
        let delete =
            async move |blobs: EndpointBlobs, container: Container| blobs.delete(&container, &names).await;
        self.with_container(&container, DELETE, delete).await
    }

    async fn has_object(&mut self, container: Resource<Container>, name: String) -> Answer<bool> {
        let info = async move |blobs: EndpointBlobs, container: Container| {
            Ok(blobs.info(&container, &name).await?.is_some())
        };
        self.with_container(&container, INFO, info).await
    }

    async fn object_info(&mut self, container: Resource<Container>, name: String) -> Answer<ObjectMetadata> {
        let info = async move |blobs: EndpointBlobs, container: Container| {
            let none = || BlobError::NoSuchObject(shown(&name));
            let info = blobs.info(&container, &name).await?.ok_or_else(none)?;
            let container = container.name().to_owned();
            Ok(ObjectMetadata { name, container, created_at: info.created, size: info.size })
        };
        self.with_container(&container, INFO, info).await
    }

    async fn clear(&mut self, container: Resource<Container>) -> Answer<()> {
        let clear = async move |blobs: EndpointBlobs, container: Container| blobs.clear(&container).await;
        self.with_container(&container, DELETE, clear).await
    }

    fn drop(&mut self, container: Resource<Container>) -> Result<()> {
        self.kernel.table.delete(container)?;
        Ok(())
    }
}

impl HostStreamObjectNames for View<'_, Blobs> {
    async fn read_stream_object_names(
        &mut self,
        names: Resource<Names>,
        most: u64,
    ) -> Answer<(Vec<String>, bool)> {
        self.names(&names, most).await
    }

    async fn skip_stream_object_names(&mut self, names: Resource<Names>, most: u64) -> Answer<(u64, bool)> {
        let skipped = self.names(&names, most).await?;
        Ok(skipped.map(|(names, is_end)| (names.len() as u64, is_end)))
    }

    fn drop(&mut self, names: Resource<Names>) -> Result<()> {
        self.kernel.table.delete(names)?;
        Ok(())
    }
}

impl blobstore::Host for View<'_, Blobs> {
    fn create_container(&mut self, name: String) -> Answer<Resource<Container>> {
        self.open_container(&name)
    }

    fn get_container(&mut self, name: String) -> Answer<Resource<Container>> {
        self.open_container(&name)
    }

    async fn delete_container(&mut self, name: String) -> Answer<()> {
        let outcome = match self.blobs()?.and_then(|blobs| Ok((blobs.open(&name)?, blobs))) {
            Ok((container, blobs)) => blobs.clear(&container).await,
            Err(error) => Err(error),
        };
        Ok(self.counted(DELETE, outcome))
    }

    fn container_exists(&mut self, name: String) -> Answer<bool> {
        Ok(Ok(self.blobs()?.and_then(|blobs| blobs.open(&name)).is_ok()))
    }

    async fn copy_object(&mut self, source: ObjectId, target: ObjectId) -> Answer<()> {
        self.copy(&source, &target, false).await
    }

    async fn move_object(&mut self, source: ObjectId, target: ObjectId) -> Answer<()> {
        self.copy(&source, &target, true).await
    }
}
