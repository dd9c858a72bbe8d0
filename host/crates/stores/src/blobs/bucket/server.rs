//! The server of a bucket, as `object_store` speaks to it.
//!
//! Place in the flow: [`super::client`] makes one at the start. In: a [`BucketPlace`] and the environment.
//! Out: a store of `object_store`, whose requests [`Wire`] sends. Invariant: of the environment only what a
//! platform sets for its pods and machines is read, and only where the operator has given no key.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

use super::keys::{CurrentCredentials, ForAzure, ForS3};
use super::place::{BucketPlace, Cloud};
use super::wire::Wire;
use crate::outbound::{Outbound, Rules};

/// How often a request is sent again, and how long is waited before; longer each time, up to the second.
const RETRIES: usize = 4;
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Who gives out credentials on each platform, unless its variables say otherwise.
const INSTANCE: &str = "http://169.254.169.254";
const TASK: &str = "http://169.254.170.2";
const GOOGLE: [&str; 3] =
    ["https://accounts.google.com", "https://oauth2.googleapis.com", "http://metadata.google.internal"];
const MICROSOFT: &str = "https://login.microsoftonline.com";

/// All that is asked of a server.
pub(super) trait Server: ObjectStore + MultipartStore + PaginatedListStore {}

impl<T: ObjectStore + MultipartStore + PaginatedListStore> Server for T {}

/// The variables of the environment.
pub(super) type Variables<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

/// The server of this place, and its key if it is the operator's and may be replaced.
pub(super) async fn server(
    place: &BucketPlace,
    variables: Variables<'_>,
) -> io::Result<(Arc<dyn Server>, Option<Arc<CurrentCredentials>>)> {
    let (origin, path) = place.base();
    let given = place.credentials.clone();
    let variables: Variables<'_> = if given.is_some() { &|_| None } else { variables };
    let wire = wire(place, &origin, variables).await?;
    let backoff = BackoffConfig { init_backoff: PAUSES.0, max_backoff: PAUSES.1, base: 2.0 };
    let retry = RetryConfig { backoff, max_retries: RETRIES, retry_timeout: place.timeout };
    let endpoint = format!("{origin}{path}");
    let keys = given.map(|given| Arc::new(CurrentCredentials::new(given, place.credential_files.clone())));
    match place.cloud {
        Cloud::S3 => {
            let builder = AmazonS3Builder::new()
                .with_bucket_name(&place.bucket)
                .with_region(&place.region)
                // It has the bucket in it, wherever that stands.
                .with_virtual_hosted_style_request(true)
                .with_endpoint(endpoint)
                .with_disable_bulk_delete(true)
                .with_retry(retry)
                .with_http_connector(wire);
            let builder = match &keys {
                Some(keys) => builder.with_credentials(Arc::new(ForS3(keys.clone()))),
                None => OF_AMAZON.into_iter().fold(builder, |builder, (name, key)| match variables(name) {
                    Some(value) => builder.with_config(key, value),
                    None => builder,
                }),
            };
            let server = builder.build().map_err(unusable)?;
            Ok((Arc::new(server), keys))
        }
        Cloud::Gcs => {
            let builder = GoogleCloudStorageBuilder::new()
                .with_bucket_name(&place.bucket)
                .with_retry(retry)
                .with_http_connector(wire);
            let builder = if place.server.is_some() { builder.with_base_url(&endpoint) } else { builder };
            let builder = match (&keys, variables("GOOGLE_APPLICATION_CREDENTIALS")) {
                (Some(keys), _) => builder.with_service_account_key(&keys.used().secret_key),
                (None, Some(path)) => builder.with_application_credentials(path),
                (None, None) => builder,
            };
            Ok((Arc::new(builder.build().map_err(unusable)?), None))
        }
        Cloud::Azure => {
            let builder = MicrosoftAzureBuilder::new()
                .with_account(&place.account)
                .with_container_name(&place.bucket)
                .with_endpoint(endpoint)
                .with_retry(retry)
                .with_http_connector(wire);
            let builder = match &keys {
                Some(keys) => {
                    object_store::azure::AzureAccessKey::try_new(&keys.used().secret_key)
                        .map_err(unusable)?;
                    builder.with_credentials(Arc::new(ForAzure(keys.clone())))
                }
                None => {
                    OF_MICROSOFT.into_iter().fold(builder, |builder, (name, key)| match variables(name) {
                        Some(value) => builder.with_config(key, value),
                        None => builder,
                    })
                }
            };
            let server = builder.build().map_err(unusable)?;
            Ok((Arc::new(server), keys))
        }
    }
}

/// The variables that EKS, ECS and EC2 set; without any of them, the machine's metadata service is asked.
const OF_AMAZON: [(&str, AmazonS3ConfigKey); 8] = [
    ("AWS_WEB_IDENTITY_TOKEN_FILE", AmazonS3ConfigKey::WebIdentityTokenFile),
    ("AWS_ROLE_ARN", AmazonS3ConfigKey::RoleArn),
    ("AWS_ROLE_SESSION_NAME", AmazonS3ConfigKey::RoleSessionName),
    ("AWS_ENDPOINT_URL_STS", AmazonS3ConfigKey::StsEndpoint),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", AmazonS3ConfigKey::ContainerCredentialsFullUri),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", AmazonS3ConfigKey::ContainerAuthorizationTokenFile),
    ("AWS_EC2_METADATA_SERVICE_ENDPOINT", AmazonS3ConfigKey::MetadataEndpoint),
];

/// The variables that AKS sets; without a token, the machine's managed identity is asked for.
const OF_MICROSOFT: [(&str, AzureConfigKey); 5] = [
    ("AZURE_CLIENT_ID", AzureConfigKey::ClientId),
    ("AZURE_TENANT_ID", AzureConfigKey::AuthorityId),
    ("AZURE_FEDERATED_TOKEN_FILE", AzureConfigKey::FederatedTokenFile),
    ("AZURE_AUTHORITY_HOST", AzureConfigKey::AuthorityHost),
    ("IDENTITY_ENDPOINT", AzureConfigKey::MsiEndpoint),
];

/// The way to the server, and to those that give out credentials for it.
async fn wire(place: &BucketPlace, origin: &str, variables: Variables<'_>) -> io::Result<Wire> {
    let mut origins = vec![origin.to_owned()];
    let of = |name: &str, otherwise: &str| variables(name).unwrap_or_else(|| otherwise.to_owned());
    match place.cloud {
        _ if place.credentials.is_some() => {}
        Cloud::S3 => origins.extend([
            of("AWS_ENDPOINT_URL_STS", &format!("https://sts.{}.amazonaws.com", place.region)),
            of("AWS_CONTAINER_CREDENTIALS_FULL_URI", TASK),
            of("AWS_EC2_METADATA_SERVICE_ENDPOINT", INSTANCE),
        ]),
        Cloud::Gcs => {
            origins.extend(GOOGLE.map(str::to_owned));
            let hosts = ["GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"].map(variables);
            origins.extend(hosts.into_iter().flatten().map(|host| format!("http://{host}")));
            origins.push(INSTANCE.to_owned());
        }
        Cloud::Azure => {
            origins.extend([of("AZURE_AUTHORITY_HOST", MICROSOFT), of("IDENTITY_ENDPOINT", INSTANCE)]);
        }
    }
    let origins = origins.iter().map(|url| origin_of(url)).collect::<io::Result<Vec<_>>>()?;
    let rules = Rules::of_operator(origins.iter().map(|origin| &**origin))?;
    let outbound = Outbound::new(rules).await?.with_places(super::REQUESTS);
    Ok(Wire::new(outbound, &origin.parse().map_err(unusable)?, place.timeout))
}

/// A value that is given for a server and that it does not take.
fn unusable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// Scheme, host and port of a URL.
fn origin_of(url: &str) -> io::Result<String> {
    let bad = || unusable(format!("`{url}` is no URL of a server"));
    let uri: Uri = url.parse().map_err(|_| bad())?;
    let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(bad)?;
    Ok(format!("{scheme}://{authority}"))
}
