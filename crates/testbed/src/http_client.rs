//! HTTP requests to controllers and to servers on this machine.

use std::io;
use std::time::Duration;

use ureq::config::ConfigBuilder;
use ureq::typestate::AgentScope;
use ureq::{Agent, AsSendBody, http};

/// Returns a client whose timeout covers the whole response. Every status is a response.
pub fn client(timeout: Duration) -> ConfigBuilder<AgentScope> {
    let client = Agent::config_builder().timeout_global(Some(timeout)).user_agent("anabranch");
    // The server runs on this machine or in an emulated namespace, so a proxy is never used.
    // Connections are not pooled: a server that is killed between two requests would leave a dead
    // connection in the pool.
    let client = client.proxy(None).max_idle_connections(0);
    client.http_status_as_error(false).max_redirects(0)
}

/// Sends a request. Returns the status and the body of the response.
pub fn request(client: &Agent, request: http::Request<impl AsSendBody>) -> io::Result<(u16, String)> {
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

    /// Returns the request to a server that sends `response` and closes, and the result.
    fn exchange(response: &'static [u8]) -> (String, io::Result<(u16, String)>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("bound");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut asked = [0; 4096];
            let read = stream.read(&mut asked).expect("a request");
            stream.write_all(response).expect("an answer");
            String::from_utf8_lossy(&asked[..read]).into_owned()
        });
        let request = http::Request::builder().method("DELETE").uri(format!("http://{place}/v1/x"));
        let request = request.body("{}").expect("a request");
        let came = super::request(&client(Duration::from_secs(5)).build().new_agent(), request);
        (server.join().expect("it ends"), came)
    }

    #[test]
    fn responses_of_every_status_are_returned() {
        let (text, came) = exchange(b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno");
        assert!(text.starts_with("DELETE /v1/x HTTP/1.1\r\n") && text.contains("content-length: 2\r\n"), "{text}");
        assert_eq!(came.expect("an answer"), (409, "no".to_owned()));
        // HTTP/1.0: the end of the connection is the end of the body.
        assert_eq!(exchange(b"HTTP/1.0 200 OK\r\n\r\nyes").1.expect("an answer"), (200, "yes".to_owned()));
        let moved = exchange(b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n").1;
        assert_eq!(moved.expect("redirects are not followed"), (302, String::new()));
    }

    #[test]
    fn invalid_response_is_error() {
        for said in [&b""[..], b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"] {
            assert!(exchange(said).1.is_err(), "{}", String::from_utf8_lossy(said));
        }
        let unserved = http::Request::get("http://127.0.0.1:1/").body(()).expect("a request");
        assert!(request(&client(Duration::from_secs(5)).build().new_agent(), unserved).is_err());
    }
}
