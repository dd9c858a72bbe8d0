//! Tests of the two ends.

use super::*;

#[tokio::test]
async fn a_closed_exchange_has_no_response_although_it_is_still_held() {
    let (exchange, client) = Exchange::new(&http::Method::GET, false);
    exchange.close();
    assert!(client.response().await.is_none());
    assert!(!exchange.progress().is_gone());
}
