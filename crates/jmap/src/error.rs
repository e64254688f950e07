//! The errors that clients see: problems of a request (RFC 8620 §3.6.1), errors of a method (§3.6.2), and errors of one
//! object of a `/set` (§5.3).
//!
//! Failures of the server are logged here, once, and told as `serverFail` without their text. What a caller may not see
//! does not exist for it.

use serde_json::{Map, Value, json};

/// The reason why a whole request is refused. The body of the answer is a problem document (RFC 7807).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestProblem {
    /// The body is not I-JSON.
    #[error("the request is not I-JSON: {0}")]
    NotJson(String),
    /// The JSON is not a request.
    #[error("the JSON is not a JMAP request: {0}")]
    NotRequest(String),
    /// The request uses a capability that the server does not have.
    #[error("the server does not have the capability {0}")]
    UnknownCapability(String),
    /// The request exceeds the limit of this name.
    #[error("the request exceeds the limit {0}")]
    Limit(&'static str),
    /// The account of the caller cannot be opened now.
    #[error("the server cannot answer now")]
    Unavailable,
}

impl RequestProblem {
    /// Returns the HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Unavailable => 503,
            Self::Limit("maxSizeRequest") => 413,
            Self::Limit("maxConcurrentRequests" | "maxConcurrentUpload") => 429,
            _ => 400,
        }
    }

    /// Returns the problem document.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let kind = match self {
            Self::NotJson(_) => "urn:ietf:params:jmap:error:notJSON",
            Self::NotRequest(_) => "urn:ietf:params:jmap:error:notRequest",
            Self::UnknownCapability(_) => "urn:ietf:params:jmap:error:unknownCapability",
            Self::Limit(_) => "urn:ietf:params:jmap:error:limit",
            Self::Unavailable => "about:blank",
        };
        let mut problem = json!({ "type": kind, "status": self.status(), "detail": self.to_string() });
        if let Self::Limit(name) = self {
            problem["limit"] = json!(name);
        }
        problem
    }
}

/// The result of a method.
pub type MethodResult<T> = Result<T, MethodError>;

/// The reason why a method call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodError {
    /// The type, such as `invalidArguments`.
    pub kind: &'static str,
    /// An explanation for developers.
    pub description: Option<String>,
}

impl MethodError {
    /// Creates an error without an explanation.
    #[must_use]
    pub fn new(kind: &'static str) -> Self {
        Self { kind, description: None }
    }

    /// Creates an error with an explanation.
    pub fn described(kind: &'static str, description: impl Into<String>) -> Self {
        Self { kind, description: Some(description.into()) }
    }

    /// Creates the error `invalidArguments`.
    pub fn invalid_arguments(description: impl Into<String>) -> Self {
        Self::described("invalidArguments", description)
    }

    /// Returns the arguments of the response `error`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = json!({ "type": self.kind });
        if let Some(description) = &self.description {
            object["description"] = json!(description);
        }
        object
    }
}

impl From<mail::Error> for MethodError {
    fn from(error: mail::Error) -> Self {
        match &error {
            mail::Error::Notes(notes::Error::AccessDenied { .. } | notes::Error::NotAuthor { .. }) => {
                Self::described("forbidden", "the access control list of the mail file does not permit this")
            }
            mail::Error::Notes(notes::Error::Store(_)) => {
                tracing::error!(%error, "a method call of JMAP failed");
                Self::new("serverUnavailable")
            }
            _ => {
                tracing::error!(%error, "a method call of JMAP failed");
                Self::new("serverFail")
            }
        }
    }
}

impl From<notes::Error> for MethodError {
    fn from(error: notes::Error) -> Self {
        mail::Error::from(error).into()
    }
}

/// The reason why one object was not created, changed or destroyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetError {
    /// The type, such as `invalidProperties`.
    pub kind: &'static str,
    /// An explanation for developers.
    pub description: Option<String>,
    /// Further properties, such as `properties` and `existingId`.
    pub more: Vec<(&'static str, Value)>,
}

impl SetError {
    /// Creates an error without an explanation.
    #[must_use]
    pub fn new(kind: &'static str) -> Self {
        Self { kind, description: None, more: Vec::new() }
    }

    /// Creates an error with an explanation.
    pub fn described(kind: &'static str, description: impl Into<String>) -> Self {
        Self { description: Some(description.into()), ..Self::new(kind) }
    }

    /// Creates the error `invalidProperties` for some properties.
    pub fn invalid_properties(properties: &[&str], description: impl Into<String>) -> Self {
        Self { more: vec![("properties", json!(properties))], ..Self::described("invalidProperties", description) }
    }

    /// Returns the same error with one more property.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Value) -> Self {
        self.more.push((name, value));
        self
    }

    /// Returns the object in `notCreated`, `notUpdated` or `notDestroyed`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("type".to_owned(), json!(self.kind));
        if let Some(description) = &self.description {
            object.insert("description".to_owned(), json!(description));
        }
        for (name, value) in &self.more {
            object.insert((*name).to_owned(), value.clone());
        }
        Value::Object(object)
    }
}

impl From<MethodError> for SetError {
    fn from(error: MethodError) -> Self {
        Self { kind: error.kind, description: error.description, more: Vec::new() }
    }
}

impl From<mail::Error> for SetError {
    fn from(error: mail::Error) -> Self {
        match &error {
            mail::Error::OverQuota { .. } => Self::described("overQuota", error.to_string()),
            mail::Error::TooLarge { .. } => Self::described("tooLarge", error.to_string()),
            mail::Error::MailboxRefused { reason, .. } => Self::described("forbidden", *reason),
            mail::Error::Notes(error) => error.clone().into(),
            _ => {
                tracing::error!(%error, "an object of a JMAP call failed");
                Self::new("serverFail")
            }
        }
    }
}

impl From<notes::Error> for SetError {
    fn from(error: notes::Error) -> Self {
        match &error {
            notes::Error::AccessDenied { .. } | notes::Error::NotAuthor { .. } | notes::Error::ServerOnly { .. } => {
                Self::described("forbidden", "the access control list of the mail file does not permit this")
            }
            notes::Error::NotFound { .. } => Self::new("notFound"),
            notes::Error::NotEmpty { .. } => Self::new("mailboxHasEmail"),
            notes::Error::Exists { .. } => Self::invalid_properties(&["name"], "the name exists already"),
            notes::Error::Invalid { reason, .. } => Self::described("invalidProperties", reason.clone()),
            notes::Error::Limit { .. } => Self::described("tooLarge", error.to_string()),
            _ => {
                tracing::error!(%error, "an object of a JMAP call failed");
                Self::new("serverFail")
            }
        }
    }
}
