//! Implements the trait `Stream` of the crate `futures-core` for listeners. The items of the stream
//! are connections.

use super::listener::{Accepted, Listen, Listener};
use futures_core::Stream;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The stream returns connections, and never ends. The listener remains usable after an error. In
/// this case, wait a little before you poll it again, because the cause of the error may persist.
///
/// ```
/// use creel::net::{TcpListener, TcpStream};
/// use futures_util::StreamExt;
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// pool.block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
///     let address = listener.local_addr()?;
///     let mut first_two = listener.take(2);
///     for _ in 0..2 {
///         let client = TcpStream::connect(address).await?;
///         let (server, peer) = first_two.next().await.unwrap()?;
///         assert_eq!(client.local_addr()?, peer);
///         drop(server);
///     }
///     assert!(first_two.next().await.is_none());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<L: Listen> Stream for Listener<L> {
    type Item = io::Result<Accepted<L>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_accept(cx).map(Some)
    }
}
