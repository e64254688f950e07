//! Counters of requests by route: their number by class of status, their duration, and the bytes of their answers.
//!
//! A route is the pattern of a path, such as `/jmap/download/{account}/{blob}/{name}`, so that the number of counters
//! does not depend on what clients send.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::Response;
use base::sync::Mutex;

use crate::limits::ROUTES_MAX;

/// The name of requests that no route has answered.
const OTHER: &str = "other";

/// Records in the answers of routes by which of them they were made, for the statistics.
pub fn with_route_names(router: Router) -> Router {
    router.route_layer(middleware::from_fn(name_route))
}

async fn name_route(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    if let Some(route) = route {
        response.extensions_mut().insert(route);
    }
    response
}

/// The counters of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouteCounters {
    /// Number of answers with a status below 400.
    pub answered: u64,
    /// Number of answers with a status from 400 to 499.
    pub refused: u64,
    /// Number of answers with a status of at least 500.
    pub failed: u64,
    /// The time from the header of the requests to the end of their answers.
    pub duration: Duration,
    /// Number of bytes of the bodies of the answers.
    pub bytes: u64,
}

/// The counters of requests.
#[derive(Debug, Default)]
pub struct Statistics {
    routes: Mutex<BTreeMap<String, RouteCounters>>,
}

impl Statistics {
    /// Counts a request.
    pub fn record(&self, route: Option<&str>, status: StatusCode, duration: Duration, bytes: u64) {
        let mut routes = self.routes.lock();
        let route = route.filter(|route| routes.len() < ROUTES_MAX || routes.contains_key(*route)).unwrap_or(OTHER);
        if !routes.contains_key(route) {
            routes.insert(route.to_owned(), RouteCounters::default());
        }
        let Some(counters) = routes.get_mut(route) else { return };
        match status.as_u16() {
            500.. => counters.failed += 1,
            400.. => counters.refused += 1,
            _ => counters.answered += 1,
        }
        counters.duration += duration;
        counters.bytes += bytes;
    }

    /// Returns the counters of all routes, in the order of their names.
    #[must_use]
    pub fn routes(&self) -> Vec<(String, RouteCounters)> {
        self.routes.lock().iter().map(|(name, counters)| (name.clone(), *counters)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_and_status() {
        let statistics = Statistics::default();
        let second = Duration::from_secs(1);
        statistics.record(Some("/a"), StatusCode::OK, second, 10);
        statistics.record(Some("/a"), StatusCode::NOT_FOUND, second, 5);
        statistics.record(None, StatusCode::BAD_GATEWAY, second, 0);
        let of_a = RouteCounters { answered: 1, refused: 1, duration: second * 2, bytes: 15, ..Default::default() };
        let of_others = RouteCounters { failed: 1, duration: second, ..Default::default() };
        assert_eq!(statistics.routes(), [("/a".to_owned(), of_a), (OTHER.to_owned(), of_others)]);
        for number in 0..ROUTES_MAX * 2 {
            statistics.record(Some(&number.to_string()), StatusCode::OK, second, 0);
        }
        assert_eq!(statistics.routes().len(), ROUTES_MAX);
    }
}
