//! HTTP on this machine. Who does not know the token in the address gets nothing, and neither does a page of another
//! place that has talked the browser into asking here (the `Host` must be ours).

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;

use crate::api;
use crate::decode;
use crate::fault::Fault;
use crate::page;
use crate::source::{Kind, Source};

/// A server that is bound to its port, and does not answer yet.
#[derive(Debug)]
pub struct BoundServer {
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
}

/// What all requests see.
#[derive(Debug)]
struct Shared {
    source: Source,
    token: String,
    host: String,
}

/// Listens at a port of this machine; 0 takes a free one.
///
/// # Errors
/// The port is taken, or the system has no random numbers.
pub fn serve(source: Source, port: u16) -> io::Result<BoundServer> {
    let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    let host = listener.local_addr()?.to_string();
    let mut random = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let token = decode::hex(&random);
    Ok(BoundServer { listener, shared: Arc::new(Shared { source, token, host }) })
}

impl BoundServer {
    /// The address to open.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.shared.host, self.shared.token)
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// A thread cannot be created.
    pub fn run(self, stop: &AtomicBool) -> io::Result<()> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let Self { listener, shared } = self;
        let done = runtime.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            let serving = axum::serve(listener, routes(shared));
            let stopped = async {
                while !stop.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            tokio::select! {
                served = async { serving.await } => served,
                () = stopped => Ok(()),
            }
        });
        runtime.shutdown_timeout(Duration::from_millis(200));
        done
    }
}

fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/{token}/", get(exported_page))
        .route(
            "/{token}/viewer.js",
            get(|| async { typed("text/javascript; charset=utf-8", page::SCRIPT) }),
        )
        .route(
            "/{token}/viewer.css",
            get(|| async { typed("text/css; charset=utf-8", page::STYLE) }),
        )
        .route("/{token}/api/{question}", get(question))
        .route("/{token}/live", get(live))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

/// Accepts requests with the token that are addressed to this host (against DNS rebinding).
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let port = shared.host.rsplit(':').next().unwrap_or("");
    let is_ours =
        host.is_some_and(|host| host == shared.host || host == format!("localhost:{port}"));
    let token = request.uri().path().split('/').nth(1).unwrap_or("");
    let mut response = if is_ours && same(token, &shared.token) {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, "open the address that `ackwright view` has printed\n")
            .into_response()
    };
    let headers = response.headers_mut();
    let always: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_SECURITY_POLICY, page::POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether both are equal, in a time that does not depend on where they differ.
fn same(one: &str, other: &str) -> bool {
    let differ = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differ == 0
}

fn typed(kind: &'static str, text: impl axum::response::IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn exported_page(State(shared): State<Arc<Shared>>) -> Response {
    let title = match &shared.source.kind {
        Kind::Results(summary) => summary["title"].as_str().unwrap_or("Ackwright").to_owned(),
        _ => shared.source.path.display().to_string(),
    };
    typed("text/html; charset=utf-8", page::for_server(&title))
}

async fn question(
    State(shared): State<Arc<Shared>>,
    Path((_, question)): Path<(String, String)>,
    Query(query): Query<api::Query>,
) -> Response {
    // Files are read and counted: other requests go on meanwhile.
    let work = move || api::answer(&shared.source, &question, &query);
    let (status, answer) = match tokio::task::spawn_blocking(work).await {
        Ok(Ok(answer)) => (StatusCode::OK, answer),
        Ok(Err(fault @ Fault::Missing(_))) => {
            (StatusCode::NOT_FOUND, json!({"error": fault.to_string()}))
        }
        Ok(Err(fault @ Fault::Broken(_))) => {
            (StatusCode::INTERNAL_SERVER_ERROR, json!({"error": fault.to_string()}))
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, json!({"error": error.to_string()})),
    };
    (status, typed("application/json", answer.to_string())).into_response()
}

/// Events of a running program, as they come: what it has taken in, and its queues.
async fn live(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    drop(headers);
    if !matches!(shared.source.kind, Kind::Live) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let (tell, heard) = tokio::sync::mpsc::channel::<Result<String, Infallible>>(4);
    tokio::spawn(async move {
        loop {
            let shared = Arc::clone(&shared);
            let looked =
                tokio::task::spawn_blocking(move || crate::live::read_status(&shared.source.path));
            let event = match looked.await {
                Ok(Ok(state)) => format!("data: {state}\n\n"),
                Ok(Err(error)) => format!("event: gone\ndata: {}\n\n", json!(error.to_string())),
                Err(_) => break,
            };
            if tell.send(Ok(event)).await.is_err() {
                break;
            }
            tokio::time::sleep(crate::live::EVERY).await;
        }
    });
    let body = axum::body::Body::from_stream(Events(heard));
    typed("text/event-stream", body)
}

/// What is sent as a stream.
struct Events(tokio::sync::mpsc::Receiver<Result<String, Infallible>>);

impl futures_core::Stream for Events {
    type Item = Result<String, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}
