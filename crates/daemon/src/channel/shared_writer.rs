//! The write half of a connection without TLS, shared by the engine and the task of the connection.

use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nix::sys::socket::{Shutdown, shutdown};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;

#[derive(Clone, Debug)]
pub(crate) struct SharedWriter(Arc<OwnedWriteHalf>);

impl SharedWriter {
    pub(crate) fn new(half: OwnedWriteHalf) -> SharedWriter {
        SharedWriter(Arc::new(half))
    }
    fn stream(&self) -> &TcpStream {
        (*self.0).as_ref()
    }
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.stream().try_write(bytes)
    }
}

impl AsyncWrite for SharedWriter {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream().poll_write_ready(context))?;
            match self.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(self.stream().as_raw_fd(), Shutdown::Write).map_err(io::Error::from))
    }
}
