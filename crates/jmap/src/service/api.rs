//! `/jmap/api`: the body of a request, and the answer.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;
use http::RequestContext;
use http::problem::{PROBLEM_TYPE, Problem};
use http::request_body::{BodyError, BodyLimits, ReceivedBody, receive};
use store::Ticket;

use super::{Answer, Service, asking_for_login};
use crate::{Reply, RequestProblem};

/// Time in which a part of a body must arrive.
pub(super) const BODY_PAUSE_MAX: Duration = Duration::from_secs(60);

pub(super) async fn answer(
    Extension(service): Extension<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let answered = call(&service, &context, &head.headers, body).await;
    answered.unwrap_or_else(|problem| asking_for_login(problem, &head.headers))
}

async fn call(service: &Arc<Service>, context: &RequestContext, headers: &HeaderMap, body: Body) -> Answer {
    let caller = service.caller(context, headers).await?;
    if !is_json(headers) {
        let detail = "the body of a request must have the media type application/json";
        return Ok(refused(&RequestProblem::NotJson(detail.to_owned())));
    }
    let Some(permit) = service.requests.begin(&caller.login) else {
        return Ok(refused(&RequestProblem::Limit("maxConcurrentRequests")));
    };
    let bytes_max = usize::try_from(service.parts.services.limits.request_bytes_max).unwrap_or(usize::MAX);
    let ReceivedBody { bytes, permit: memory } = match service.body(context, headers, body, bytes_max).await {
        Ok(received) => received,
        Err(BodyError::TooLarge(_)) => {
            return Ok(refused(&RequestProblem::Limit("maxSizeRequest")));
        }
        Err(error) => return Err(refused_body(error)),
    };
    let of_job = caller.clone();
    let executed = service.run(&caller, "api", move |services| {
        let _held = (permit, memory);
        match crate::execute(services, &of_job, &bytes) {
            Ok(Reply { body, ticket }) => (Ok(body), ticket.unwrap_or(Ticket::NONE)),
            Err(problem) => (Err(problem), Ticket::NONE),
        }
    });
    Ok(match executed.await? {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(problem) => refused(&problem),
    })
}

impl Service {
    /// Reads the body of a request, with memory of its peer.
    pub(super) async fn body(
        &self,
        context: &RequestContext,
        headers: &HeaderMap,
        body: Body,
        bytes_max: usize,
    ) -> Result<ReceivedBody, BodyError> {
        let budget = self.parts.memory.share_of(&context.peer.memory_owner());
        receive(headers, body, BodyLimits { bytes_max, pause_max: BODY_PAUSE_MAX }, &budget).await
    }
}

/// Returns the problem of a body that was not received.
pub(super) fn refused_body(error: BodyError) -> Problem {
    let status = match error {
        BodyError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::NoMemory => StatusCode::SERVICE_UNAVAILABLE,
        BodyError::Slow => StatusCode::REQUEST_TIMEOUT,
        BodyError::Incomplete => StatusCode::BAD_REQUEST,
    };
    Problem::new(status, error.to_string())
}

/// Returns the answer to a request that was refused as a whole (RFC 8620 §3.6.1).
fn refused(problem: &RequestProblem) -> Response<Body> {
    let status = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::BAD_REQUEST);
    (status, [(header::CONTENT_TYPE, PROBLEM_TYPE)], problem.to_json().to_string()).into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}
