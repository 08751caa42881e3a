//! Uses Creel's sockets through the traits of tokio.

use creel::Pool;
use creel::net::{TcpListener, TcpStream};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// The methods of the traits are usable on the stream itself. Note that this test has to compile:
/// a method of the stream with the name of one of the trait's methods would hide it.
#[test]
fn tokios_methods_read_write_and_shut_down_creels_streams() {
    let pool = Pool::builder().workers(1).build().unwrap();
    pool.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let server = creel::task::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (reader, mut writer) = stream.into_split();
            let mut lines = BufReader::new(reader).lines();
            while let Some(line) = lines.next_line().await.unwrap() {
                let answer = format!("{line}!\n");
                AsyncWriteExt::write_all(&mut writer, answer.as_bytes())
                    .await
                    .unwrap();
            }
        });
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"one\ntwo\n").await.unwrap();
        client.flush().await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "one!\ntwo!\n");
        server.await.unwrap();
    });
}
