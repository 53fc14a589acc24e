//! The HTTP interface.

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::server::Handle;

/// Answers requests until it is told to stop.
pub(crate) async fn serve(handle: Handle, listener: TcpListener, stop: oneshot::Receiver<()>) {
    let app = axum::Router::new().with_state(handle);
    tokio::select! {
        _ = stop => {}
        served = async { axum::serve(listener, app).await } => {
            if let Err(error) = served {
                tracing::error!("HTTP has ended: {error}");
            }
        }
    }
}
