//! The gRPC listener's table of contents.
//!
//! | service | answered by |
//! |---|---|
//! | `inference.GRPCInferenceService`: Open Inference Protocol version 2, `host/proto/open_inference.proto` | here; requests by [`infer`] and [`stream`], questions about models by [`describe`] |
//! | `tensorflow.serving.PredictionService`, `tensorflow.serving.ModelService`: TensorFlow Serving, `host/proto/tensorflow_serving.proto` | [`tensorflow`] |
//! | `grpc.health.v1.Health` | [`health`] |
//! | `grpc.reflection.v1.ServerReflection`, the same as `v1alpha` | tonic |
//!
//! Place in the flow: between a connection and an endpoint, as [`super::http`] for the other listener.
//! Messages come in by way of [`intake`] and [`codec`], which keep them within bounds; every failure leaves
//! through [`failure`].
//! Invariants: a message's bytes are copied once on their way in, tensors are parts of
//! it; nothing answers a method that is not listed but with UNIMPLEMENTED.

mod bounds;
mod call;
mod codec;
mod contents;
mod describe;
pub(super) mod elements;
mod failure;
mod health;
mod infer;
mod intake;
mod pb;
mod shared_memory;
mod stream;
pub(super) mod tensorflow;

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::middleware;
use axum::response::Response as HttpResponse;
use tonic::codec::CompressionEncoding::{Deflate, Gzip};
use tonic::server::NamedService as _;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_server::HealthServer;

use self::call::{Call, GRPC, Reply};
use self::health::Health;
use self::intake::Intake;
use self::pb::grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer};
use self::stream::Answers;
use self::tensorflow::pb::serving::model_service_server::ModelServiceServer;
use self::tensorflow::pb::serving::prediction_service_server::PredictionServiceServer;
use super::head::{X_REQUEST_ID, insert, request_id};
use super::http::HttpService;
use super::models::Metadata;
use super::served::Served;
use super::shared_memory::no_cuda;
use super::triton_settings;
use crate::error::{Code, RequestError, Stage};
use crate::text;

/// The descriptors of the protocols' messages, for reflection.
const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

type Inference = GrpcInferenceServiceServer<Service>;
type Prediction = PredictionServiceServer<tensorflow::Service>;
type Models = ModelServiceServer<tensorflow::Service>;

/// Whether a request is a call of gRPC's.
pub(super) fn is_call(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Refuses a call of which no more than the head was read.
pub(super) fn refuse(error: &RequestError, headers: &HeaderMap) -> HttpResponse {
    let mut response = failure::refused(error).into_http();
    insert(response.headers_mut(), X_REQUEST_ID, &request_id(headers));
    response
}

/// Everything the gRPC listener answers.
///
/// # Errors
/// Reflection cannot read the descriptors: a defect of the build.
pub fn service(served: &Arc<Served>) -> anyhow::Result<HttpService> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let intake = Arc::new(Intake::of(served));
    /// A service, with the bounds of all.
    macro_rules! bounded {
        ($server:ident, $service:expr) => {
            $server::new($service)
                .max_decoding_message_size(intake.longest())
                .accept_compressed(Gzip)
                .accept_compressed(Deflate)
                .send_compressed(Gzip)
                .send_compressed(Deflate)
        };
    }
    let services = [Inference::NAME, Prediction::NAME, Models::NAME];
    let routes = Routes::new(bounded!(Inference, Service { served: served.clone() }))
        .add_service(bounded!(Prediction, tensorflow::Service::of(served)))
        .add_service(bounded!(Models, tensorflow::Service::of(served)))
        .add_service(HealthServer::new(Health::of(&services, served)))
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    let router = routes.into_axum_router();
    Ok(HttpService::of(router.layer(middleware::from_fn_with_state(intake, intake::admit))))
}

struct Service {
    served: Arc<Served>,
}

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    async fn server_live(&self, _: Request<pb::ServerLiveRequest>) -> Reply<pb::ServerLiveResponse> {
        Ok(Response::new(pb::ServerLiveResponse { live: true }))
    }

    async fn server_ready(&self, _: Request<pb::ServerReadyRequest>) -> Reply<pb::ServerReadyResponse> {
        Ok(Response::new(pb::ServerReadyResponse {
            ready: !self.served.drain.has_begun() && self.served.all_are_ready().await,
        }))
    }

    /// A model that does not exist is not ready, which is no failure: as Triton answers.
    async fn model_ready(&self, request: Request<pb::ModelReadyRequest>) -> Reply<pb::ModelReadyResponse> {
        let (call, pb::ModelReadyRequest { name, version }) = Call::of(request);
        let ready = match self.served.model(&name, Some(&version), call.credentials(), GRPC) {
            Err(error) if error.code == Code::Unauthorized => return Err(self.refusal(error, &call)),
            Err(_) => false,
            Ok(entry) => {
                let serves = entry.is_ready() && !self.served.drain.has_begun();
                serves && self.served.says_ready(entry.endpoint).await
            }
        };
        Ok(Response::new(pb::ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<pb::ServerMetadataRequest>,
    ) -> Reply<pb::ServerMetadataResponse> {
        Ok(Response::new(describe::server(&self.served)))
    }

    async fn model_metadata(
        &self,
        request: Request<pb::ModelMetadataRequest>,
    ) -> Reply<pb::ModelMetadataResponse> {
        let (call, pb::ModelMetadataRequest { name, version }) = Call::of(request);
        let metadata = self.metadata(&name, &version, &call).map_err(|error| self.refusal(error, &call))?;
        Ok(Response::new(describe::metadata(metadata)))
    }

    async fn model_config(&self, request: Request<pb::ModelConfigRequest>) -> Reply<pb::ModelConfigResponse> {
        let (call, pb::ModelConfigRequest { name, version }) = Call::of(request);
        let metadata = self.metadata(&name, &version, &call).map_err(|error| self.refusal(error, &call))?;
        Ok(Response::new(pb::ModelConfigResponse { config: Some(describe::config(metadata)) }))
    }

    async fn model_statistics(
        &self,
        request: Request<pb::ModelStatisticsRequest>,
    ) -> Reply<pb::ModelStatisticsResponse> {
        let (call, pb::ModelStatisticsRequest { name, version }) = Call::of(request);
        let entries = match name.is_empty() {
            true => Ok(self.served.models(GRPC).collect()),
            false => {
                self.served.model(&name, Some(&version), call.credentials(), GRPC).map(|entry| vec![entry])
            }
        };
        let entries = entries.map_err(|error| self.refusal(error, &call))?;
        let model_stats = entries.iter().map(describe::statistics).collect();
        Ok(Response::new(pb::ModelStatisticsResponse { model_stats }))
    }

    async fn model_infer(&self, request: Request<pb::ModelInferRequest>) -> Reply<pb::ModelInferResponse> {
        let (call, message) = Call::of(request);
        infer::infer(&self.served, &call, message, Ok(())).await
    }

    type ModelStreamInferStream = Answers;

    async fn model_stream_infer(
        &self,
        request: Request<tonic::Streaming<pb::ModelInferRequest>>,
    ) -> Reply<Answers> {
        let (call, requests) = Call::of(request);
        Ok(Response::new(Answers::to(requests, self.served.clone(), call)))
    }

    async fn repository_index(
        &self,
        request: Request<pb::RepositoryIndexRequest>,
    ) -> Reply<pb::RepositoryIndexResponse> {
        let (call, pb::RepositoryIndexRequest { repository_name, ready }) = Call::of(request);
        only_repository(&repository_name).map_err(|error| self.refusal(error, &call))?;
        Ok(Response::new(describe::index(self.served.index(GRPC), ready)))
    }

    async fn repository_model_load(
        &self,
        request: Request<pb::RepositoryModelLoadRequest>,
    ) -> Reply<pb::RepositoryModelLoadResponse> {
        let (call, message) = Call::of(request);
        let pb::RepositoryModelLoadRequest { repository_name, model_name, parameters } = message;
        let ordered = async {
            self.may_order(&repository_name)?;
            let entry = self.served.model(&model_name, None, call.credentials(), GRPC)?;
            if parameters.keys().any(|name| name == "config" || name.starts_with("file:")) {
                let message =
                    "models and their configuration are files of the server; they are not taken from clients";
                return Err(RequestError::invalid(Stage::Admit, message));
            }
            entry.load(&self.served).await
        };
        ordered.await.map_err(|error| self.refusal(error, &call))?;
        Ok(Response::new(pb::RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        request: Request<pb::RepositoryModelUnloadRequest>,
    ) -> Reply<pb::RepositoryModelUnloadResponse> {
        let (call, message) = Call::of(request);
        let ordered = async {
            self.may_order(&message.repository_name)?;
            self.served.model(&message.model_name, None, call.credentials(), GRPC)?.unload(&self.served).await
        };
        ordered.await.map_err(|error| self.refusal(error, &call))?;
        Ok(Response::new(pb::RepositoryModelUnloadResponse {}))
    }

    async fn system_shared_memory_status(
        &self,
        request: Request<pb::SystemSharedMemoryStatusRequest>,
    ) -> Reply<pb::SystemSharedMemoryStatusResponse> {
        let (call, message) = Call::of(request);
        let status = shared_memory::status(&self.served, &call, &message.name);
        status.map(Response::new).map_err(|error| self.refusal(error, &call))
    }

    async fn system_shared_memory_register(
        &self,
        request: Request<pb::SystemSharedMemoryRegisterRequest>,
    ) -> Reply<pb::SystemSharedMemoryRegisterResponse> {
        let (call, message) = Call::of(request);
        let registered = shared_memory::register(&self.served, &call, &message);
        registered.map_err(|error| self.refusal(error, &call))?;
        Ok(Response::new(pb::SystemSharedMemoryRegisterResponse {}))
    }

    async fn system_shared_memory_unregister(
        &self,
        request: Request<pb::SystemSharedMemoryUnregisterRequest>,
    ) -> Reply<pb::SystemSharedMemoryUnregisterResponse> {
        let (call, message) = Call::of(request);
        let unregistered = shared_memory::unregister(&self.served, &call, &message.name);
        unregistered.map_err(|error| self.refusal(error, &call))?;
        Ok(Response::new(pb::SystemSharedMemoryUnregisterResponse {}))
    }

    async fn cuda_shared_memory_status(
        &self,
        _: Request<pb::CudaSharedMemoryStatusRequest>,
    ) -> Reply<pb::CudaSharedMemoryStatusResponse> {
        Ok(Response::new(pb::CudaSharedMemoryStatusResponse::default()))
    }

    async fn cuda_shared_memory_register(
        &self,
        request: Request<pb::CudaSharedMemoryRegisterRequest>,
    ) -> Reply<pb::CudaSharedMemoryRegisterResponse> {
        let (call, _) = Call::of(request);
        Err(self.refusal(no_cuda(), &call))
    }

    async fn cuda_shared_memory_unregister(
        &self,
        _: Request<pb::CudaSharedMemoryUnregisterRequest>,
    ) -> Reply<pb::CudaSharedMemoryUnregisterResponse> {
        Ok(Response::new(pb::CudaSharedMemoryUnregisterResponse {}))
    }

    async fn trace_setting(
        &self,
        request: Request<pb::TraceSettingRequest>,
    ) -> Reply<pb::TraceSettingResponse> {
        let (call, message) = Call::of(request);
        let model = Some(message.model_name).filter(|name| !name.is_empty());
        let found =
            model.map_or(Ok(()), |name| self.served.model(&name, None, call.credentials(), GRPC).map(|_| ()));
        found.map_err(|error| self.refusal(error, &call))?;
        if message.settings.is_empty() {
            return Ok(Response::new(describe::trace()));
        }
        Err(self.refusal(triton_settings::refused("tracing"), &call))
    }

    async fn log_settings(&self, request: Request<pb::LogSettingsRequest>) -> Reply<pb::LogSettingsResponse> {
        let (call, message) = Call::of(request);
        if message.settings.is_empty() {
            return Ok(Response::new(describe::log()));
        }
        Err(self.refusal(triton_settings::refused("logging"), &call))
    }
}

impl Service {
    fn refusal(&self, error: RequestError, call: &Call) -> Status {
        failure::status(error, &call.call(&self.served), None)
    }

    /// Of a model that is loaded.
    fn metadata(&self, name: &str, version: &str, call: &Call) -> Result<Metadata, RequestError> {
        let entry = self.served.model(name, Some(version), call.credentials(), GRPC)?;
        entry.check_loaded()?;
        Ok(entry.metadata())
    }

    /// Whether clients of this listener load and unload models.
    fn may_order(&self, repository: &str) -> Result<(), RequestError> {
        only_repository(repository)?;
        if self.served.config.model_control {
            return Ok(());
        }
        let message = "models are not loaded and unloaded by clients of this address; use the admin address, or start the \
                       server with `--model-control`";
        Err(RequestError::invalid(Stage::Admit, message))
    }
}

/// There is one repository, and it has no name.
fn only_repository(name: &str) -> Result<(), RequestError> {
    if name.is_empty() {
        return Ok(());
    }
    Err(RequestError::new(
        Code::NotFound,
        Stage::Admit,
        format!("there is no repository `{}`", text::shown(name)),
    ))
}

/// Reads an encoded inference request as the service does; for tests/fuzz.
#[cfg(fuzzing)]
pub fn fuzz(message: &[u8], limit: usize) -> Option<crate::request::Input> {
    use self::codec::RequestMessage as _;
    use tonic_prost::prost::Message as _;
    pb::ModelInferRequest::BOUNDS.check(message).ok()?;
    let message = pb::ModelInferRequest::decode(bytes::Bytes::copy_from_slice(message)).ok()?;
    contents::input(message, &super::SharedMemory::default(), limit).ok()
}
