//! Questions over HTTP: to controllers, and to servers of this machine.

use std::io;
use std::time::Duration;

use ureq::config::ConfigBuilder;
use ureq::typestate::AgentScope;
use ureq::{Agent, AsSendBody, http};

/// A client that waits so long for all of an answer, whatever its status.
pub fn client(patience: Duration) -> ConfigBuilder<AgentScope> {
    let client = Agent::config_builder().timeout_global(Some(patience)).user_agent("anabranch");
    // Whom we ask is here, or in the network that is being made: no proxy leads there. Who is killed in between would leave kept
    // connections that are none.
    let client = client.proxy(None).max_idle_connections(0);
    client.http_status_as_error(false).max_redirects(0)
}

/// Asks; status and body of the answer.
///
/// # Errors
/// There is none in time, or it is not HTTP.
pub fn ask(client: &Agent, request: http::Request<impl AsSendBody>) -> io::Result<(u16, String)> {
    let mut answer = client.run(request).map_err(ureq::Error::into_io)?;
    let body = answer.body_mut().read_to_string().map_err(ureq::Error::into_io)?;
    Ok((answer.status().as_u16(), body))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// What was asked, and what came of it, of a server that answers this and closes.
    fn asked(answer: &'static [u8]) -> (String, io::Result<(u16, String)>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("bound");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut asked = [0; 4096];
            let read = stream.read(&mut asked).expect("a request");
            stream.write_all(answer).expect("an answer");
            String::from_utf8_lossy(&asked[..read]).into_owned()
        });
        let request = http::Request::builder().method("DELETE").uri(format!("http://{place}/v1/x"));
        let request = request.body("{}").expect("a request");
        let came = ask(&client(Duration::from_secs(5)).build().new_agent(), request);
        (server.join().expect("it ends"), came)
    }

    #[test]
    fn answers_are_taken_with_whatever_status() {
        let (text, came) = asked(b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno");
        assert!(text.starts_with("DELETE /v1/x HTTP/1.1\r\n") && text.contains("content-length: 2\r\n"), "{text}");
        assert_eq!(came.expect("an answer"), (409, "no".to_owned()));
        // One that ends with the connection, as HTTP/1.0 has it.
        assert_eq!(asked(b"HTTP/1.0 200 OK\r\n\r\nyes").1.expect("an answer"), (200, "yes".to_owned()));
        let moved = asked(b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n").1;
        assert_eq!(moved.expect("nobody follows"), (302, String::new()));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for said in [&b""[..], b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"] {
            assert!(asked(said).1.is_err(), "{}", String::from_utf8_lossy(said));
        }
        let nobody = http::Request::get("http://127.0.0.1:1/").body(()).expect("a request");
        assert!(ask(&client(Duration::from_secs(5)).build().new_agent(), nobody).is_err());
    }
}
