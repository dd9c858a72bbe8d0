//! The time that a handler has whose response is not wanted any more.
//!
//! Place in the flow: waited for beside the run of an application, or of a WebSocket, which ends with it.

use std::time::Duration;

use super::Progress;

/// How long a handler may work on whose client is gone.
pub const GRACE: Duration = Duration::from_secs(1);
/// The same of one whose place another request waits for.
const SHORT_GRACE: Duration = Duration::from_millis(200);

impl Progress {
    /// Waits until the response is to make way for another request.
    pub async fn made_way(&self) {
        self.until(|| self.has_made_way()).await;
    }

    /// Waits until the client is gone, and the handler has had time to see it.
    pub async fn abandoned(&self) {
        self.gone().await;
        let grace = if self.has_made_way() { SHORT_GRACE } else { GRACE };
        let _ = tokio::time::timeout(grace, self.ended()).await;
    }
}
