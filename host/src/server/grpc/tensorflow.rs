//! TensorFlow Serving over gRPC.
//!
//! | method | answered by |
//! |---|---|
//! | `PredictionService/Predict` | [`predict`] |
//! | `PredictionService/Classify`, `/Regress` | [`examples`] |
//! | `PredictionService/GetModelMetadata`, `ModelService/GetModelStatus` | [`describe`] |
//!
//! Place in the flow: services of the gRPC listener beside the Open Inference Protocol's, behind the same
//! intake, codec and failures. A request takes the way of every protocol's ([`crate::server::serve`]).
//! Invariant: a model is named by a [`spec`] everywhere.

mod describe;
mod examples;
pub(in crate::server) mod pb;
mod predict;
mod spec;
mod tensor;

use std::sync::Arc;

use tonic::{Request, Response};

use self::examples::{Classification, Regression};
use self::pb::serving;
use self::pb::serving::model_service_server::ModelService;
use self::pb::serving::prediction_service_server::PredictionService;
use super::call::{Call, Reply};
use super::failure;
use crate::server::served::Served;

/// Both services.
#[derive(Clone)]
pub(super) struct Service {
    served: Arc<Served>,
}

impl Service {
    pub(super) fn of(served: &Arc<Served>) -> Service {
        Service { served: served.clone() }
    }
}

#[tonic::async_trait]
impl PredictionService for Service {
    async fn predict(&self, request: Request<serving::PredictRequest>) -> Reply<serving::PredictResponse> {
        let (call, message) = Call::of(request);
        predict::predict(&self.served, &call, message).await
    }

    async fn classify(
        &self,
        request: Request<serving::ClassificationRequest>,
    ) -> Reply<serving::ClassificationResponse> {
        let (call, message) = Call::of(request);
        examples::serve::<Classification>(&self.served, &call, message).await
    }

    async fn regress(
        &self,
        request: Request<serving::RegressionRequest>,
    ) -> Reply<serving::RegressionResponse> {
        let (call, message) = Call::of(request);
        examples::serve::<Regression>(&self.served, &call, message).await
    }

    async fn get_model_metadata(
        &self,
        request: Request<serving::GetModelMetadataRequest>,
    ) -> Reply<serving::GetModelMetadataResponse> {
        let (call, message) = Call::of(request);
        let answer = describe::metadata(&self.served, &call, &message);
        answer.map(Response::new).map_err(|error| failure::status(error, &call.call(&self.served), None))
    }
}

#[tonic::async_trait]
impl ModelService for Service {
    async fn get_model_status(
        &self,
        request: Request<serving::GetModelStatusRequest>,
    ) -> Reply<serving::GetModelStatusResponse> {
        let (call, message) = Call::of(request);
        let answer = describe::status(&self.served, &call, &message).await;
        answer.map(Response::new).map_err(|error| failure::status(error, &call.call(&self.served), None))
    }
}
