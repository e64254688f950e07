//! Every limit of this crate.
//!
//! The limits that clients must know are in [`Limits`], which the Session object shows as they are. The others bound
//! memory and time, and are constants.

use std::time::Duration;

use notes::limits::FOLDERS_PER_NOTE_MAX;

/// The limits that the Session object states (RFC 8620 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `maxSizeUpload`: number of bytes of an upload.
    pub upload_bytes_max: u64,
    /// `maxConcurrentUpload`: number of uploads of an account at the same time.
    pub concurrent_uploads_max: u64,
    /// `maxSizeRequest`: number of bytes of a request.
    pub request_bytes_max: u64,
    /// `maxConcurrentRequests`: number of requests of an account at the same time.
    pub concurrent_requests_max: u64,
    /// `maxCallsInRequest`: number of method calls of a request.
    pub calls_max: u64,
    /// `maxObjectsInGet`: number of objects that a call of a `/get` names.
    pub get_objects_max: u64,
    /// `maxObjectsInSet`: number of objects that a call of a `/set` creates, changes and destroys.
    pub set_objects_max: u64,
    /// `maxMailboxesPerEmail` (RFC 8621 §1.3.1): number of mailboxes that a message is in at the same time.
    pub mailboxes_per_email_max: u64,
    /// The size of a message that the server stores. `maxSizeAttachmentsPerEmail` follows from it.
    pub message_bytes_max: u64,
}

impl Limits {
    /// Returns `maxSizeAttachmentsPerEmail` (RFC 8621 §1.3.1): number of bytes of attachments that fit into a message
    /// in base64, whose lines of 78 bytes carry 57 bytes each.
    #[must_use]
    pub fn attachments_bytes_max(&self) -> u64 {
        let lines = self.message_bytes_max.saturating_sub(MESSAGE_OVERHEAD_BYTES) / 78;
        lines * 57
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            upload_bytes_max: 50 << 20,
            concurrent_uploads_max: 4,
            request_bytes_max: 10 << 20,
            concurrent_requests_max: 8,
            calls_max: 32,
            get_objects_max: 1_000,
            set_objects_max: 1_000,
            mailboxes_per_email_max: FOLDERS_PER_NOTE_MAX as u64,
            message_bytes_max: 50 << 20,
        }
    }
}

/// Number of bytes of a message that the header, the text and the headers of parts may have besides the attachments, if
/// these have the size that [`Limits::attachments_bytes_max`] permits.
const MESSAGE_OVERHEAD_BYTES: u64 = 64 << 10;

/// Depth of the JSON of a request: arrays and objects within each other.
pub const JSON_DEPTH_MAX: usize = 64;

/// Number of values, arrays and objects in the JSON of a request.
pub const JSON_VALUES_MAX: usize = 500_000;

/// Number of values that all back-references of a request may copy.
pub const REFERENCED_VALUES_MAX: usize = 500_000;

/// Number of bytes that all back-references of a request may copy.
pub const REFERENCED_BYTES_MAX: usize = 64 << 20;

/// Number of bytes of the reply to a request. Calls that read and would exceed it fail, and those after one that has
/// reached it.
pub const REPLY_BYTES_MAX: usize = 64 << 20;

/// Number of bytes of a call's identifier.
pub const CALL_ID_BYTES_MAX: usize = 256;

/// Number of entries of `createdIds` of a request.
pub const CREATED_IDS_MAX: usize = 10_000;

/// Number of conditions and operators of a filter.
pub const FILTER_CONDITIONS_MAX: usize = 256;

/// Depth of the operators of a filter.
pub const FILTER_DEPTH_MAX: usize = 16;

/// Number of comparators of a sort.
pub const COMPARATORS_MAX: usize = 16;

/// Number of words of a text condition.
pub const FILTER_WORDS_MAX: usize = 32;

/// Number of ids that a query returns.
pub const QUERY_IDS_MAX: u64 = 50_000;

/// Number of objects in the answer of a `/changes` without `maxChanges`.
pub const CHANGES_MAX: usize = 10_000;

/// Number of bytes of a keyword (RFC 8621 §4.1.1).
pub const KEYWORD_BYTES_MAX: usize = 255;

/// Number of bytes of the name of a mailbox, without those of its parents.
pub const MAILBOX_NAME_BYTES_MAX: usize = 255;

/// Number of levels of mailboxes.
pub const MAILBOX_DEPTH_MAX: usize = 16;

/// Number of bytes of all messages that one call of a `/set` or an `/import` stores.
pub const STORED_BYTES_MAX: u64 = 128 << 20;

/// Number of messages that are deleted in one transaction when their mailbox is destroyed.
pub const DESTROY_BATCH_MAX: usize = 1_000;

/// Number of times that changes of mailboxes are tried again after others of the same call.
pub const PLAN_ROUNDS_MAX: usize = 8;

/// Number of entries of a patch.
pub const PATCH_ENTRIES_MAX: usize = 10_000;

/// Number of bytes of all uploads of a login, in all accounts together.
pub const UPLOADS_LOGIN_BYTES_MAX: u64 = 250 << 20;

/// Number of bytes of all uploads.
pub const UPLOADS_BYTES_MAX: u64 = 1 << 30;

/// Number of uploads of a login, in all accounts together.
pub const UPLOADS_PER_LOGIN_MAX: usize = 1_000;

/// Number of uploads of all logins. The description of each takes some hundred bytes of memory.
pub const UPLOADS_STORED_MAX: usize = 100_000;

/// Number of contents of ended uploads that are removed when the disk has space again. Others are removed after the
/// grace period of the store.
pub const UPLOADS_LEFT_MAX: usize = 1_000;

/// Number of uploads that one transaction removes.
pub const UPLOADS_PER_TRANSACTION: usize = 500;

/// Number of bytes of an upload that are kept in memory. A larger one is stored while it arrives.
pub const UPLOAD_IN_MEMORY_BYTES_MAX: usize = 256 << 10;

/// Number of bytes of an upload or a download that one job of a worker stores or reads.
pub const TRANSFER_PIECE_BYTES: usize = 256 << 10;

/// Time after which an upload no longer exists.
pub const UPLOAD_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Number of characters of a media type that an upload keeps.
pub const MEDIA_TYPE_BYTES_MAX: usize = 127;

/// Number of octets of the excerpt of a message (RFC 8621 §5).
pub const SNIPPET_OCTETS_MAX: usize = 255;

/// Number of bytes of the text of an out of office reply.
pub const VACATION_TEXT_BYTES_MAX: usize = 64 << 10;

/// Number of bytes of the subject of an out of office reply.
pub const VACATION_SUBJECT_BYTES_MAX: usize = 998;

/// Number of identities that a person has created in an account.
pub const IDENTITIES_CREATED_MAX: usize = 50;

/// Number of bytes of the name of an identity.
pub const IDENTITY_NAME_BYTES_MAX: usize = 255;

/// Number of addresses in `replyTo` and `bcc` of an identity.
pub const IDENTITY_ADDRESSES_MAX: usize = 50;

/// Number of parts from which `Blob/upload` puts a blob together.
pub const BLOB_SOURCES_MAX: usize = 64;

/// Time for which a message can be held before it is sent (`maxDelayedSend`).
pub const DELAYED_SEND_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Time in which the repetition of a request to send gets the result of the first one.
pub const REPEATED_REQUEST_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// Time for which the document about a sent message is kept.
pub const SUBMISSION_TIME_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Number of documents about sent messages that one call removes.
pub const EXPIRED_SUBMISSIONS_MAX: usize = 20;

/// Number of requests of all accounts at the same time.
pub const REQUESTS_MAX: usize = 1_000;

/// Number of uploads of all accounts at the same time.
pub const UPLOADS_MAX: usize = 200;

/// Number of event sources of one account.
pub const EVENT_SOURCES_PER_ACCOUNT_MAX: usize = 10;

/// Number of event sources of all accounts.
pub const EVENT_SOURCES_MAX: usize = 10_000;

/// Number of connections over WebSocket of one account.
pub const WEBSOCKETS_PER_ACCOUNT_MAX: usize = 10;

/// Number of connections over WebSocket of all accounts.
pub const WEBSOCKETS_MAX: usize = 10_000;

/// Time between two pings over WebSocket. A client from which nothing has come since the last one has gone.
pub const WEBSOCKET_PING_INTERVAL: Duration = Duration::from_secs(120);

/// Time without a request after which a connection over WebSocket without push ends.
pub const WEBSOCKET_IDLE_TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// Time in which a client must answer the end of a connection over WebSocket.
pub const WEBSOCKET_CLOSE_TIME_MAX: Duration = Duration::from_secs(10);

/// Number of bytes that are read from a WebSocket at once.
pub const WEBSOCKET_READ_BYTES: usize = 8 << 10;

/// Number of bytes of answers that wait for the client of a WebSocket from which no further message is read.
pub const WEBSOCKET_WAITING_BYTES_MAX: usize = 1 << 20;

/// Number of names of types that a client selects for push.
pub const TYPES_MAX: usize = 100;

/// Number of bytes of the name of a type that a client selects for push.
pub const TYPE_NAME_BYTES_MAX: usize = 100;

/// Number of push subscriptions of one person.
pub const PUSH_SUBSCRIPTIONS_PER_PERSON_MAX: usize = 20;

/// Number of push subscriptions of all people.
pub const PUSH_SUBSCRIPTIONS_MAX: usize = 10_000;

/// Number of push subscriptions that a person may create in [`PUSH_CREATION_PERIOD`], because each sends a message.
pub const PUSH_CREATIONS_MAX: usize = 30;

/// Time in which a person may create [`PUSH_CREATIONS_MAX`] push subscriptions.
pub const PUSH_CREATION_PERIOD: Duration = Duration::from_secs(60 * 60);

/// Time after which a push subscription ends that its client does not renew.
pub const PUSH_SUBSCRIPTION_TIME_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Time in which a client must verify a push subscription.
pub const PUSH_VERIFICATION_TIME_MAX: Duration = Duration::from_secs(60 * 60);

/// Number of bytes of the address of a push subscription.
pub const PUSH_URL_BYTES_MAX: usize = 2_048;

/// Number of bytes of the identifier that a client has for itself.
pub const DEVICE_CLIENT_ID_BYTES_MAX: usize = 255;

/// Time for which a push waits for further changes.
pub const PUSH_PAUSE: Duration = Duration::from_millis(500);

/// Time after which the states of accounts are read again if some of them could not be read.
pub const OBSERVATION_RETRY: Duration = Duration::from_secs(30);

/// Time after which a waiting subscription is checked: its end, and that of its credential.
pub const PUSH_CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// Number of pushes that are prepared and sent at the same time.
pub const PUSHES_MAX: usize = 50;

/// Number of pushes that are prepared and sent to one push service at the same time. It is a part of [`PUSHES_MAX`], so
/// that a service that does not answer leaves slots to the others.
pub const PUSHES_PER_HOST_MAX: usize = 10;

/// Time for sending one push: look-up, connection, handshake, request and the header of the answer.
pub const PUSH_TIME_MAX: Duration = Duration::from_secs(30);

/// Number of addresses of a host that are tried.
pub const PUSH_ADDRESSES_MAX: usize = 4;

/// Time after which the next address of a host is tried, too, if the attempts before have not connected.
pub const PUSH_CONNECT_PAUSE: Duration = Duration::from_secs(2);

/// Time in which an address of a host must accept a connection.
pub const PUSH_CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Number of bytes of the header of a push service's answer. Its body is not read.
pub const PUSH_ANSWER_BYTES_MAX: usize = 16 << 10;

/// Time for which a push service keeps a push for a client that it cannot reach (`TTL`).
pub const PUSH_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Time until the second attempt to send a push. It doubles with each further one.
pub const PUSH_RETRY_FIRST: Duration = Duration::from_secs(30);

/// Longest time between two attempts that the server chooses itself.
pub const PUSH_RETRY_MAX: Duration = Duration::from_secs(60 * 60);

/// Longest time that a push service may make the server wait (`Retry-After`).
pub const PUSH_RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Number of failed attempts in a row after which a push subscription is removed.
pub const PUSH_FAILURES_MAX: u32 = 40;

/// Time for which a push service may use the token by which this server identifies itself.
pub const VAPID_TOKEN_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Number of bytes of the identifier of an event.
pub const EVENT_ID_BYTES_MAX: usize = 8 << 10;

/// Pause after each look for changed states, in which changes wait for the next event.
pub const EVENT_PAUSE: Duration = Duration::from_millis(50);

/// Shortest time between two pings.
pub const EVENT_PING_MIN: Duration = Duration::from_secs(5);

/// Longest time between two pings, and that of the comments without pings.
pub const EVENT_PING_MAX: Duration = Duration::from_secs(300);
