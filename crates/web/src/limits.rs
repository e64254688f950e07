//! The limits of the lite web mail. Sizes of messages and the number of recipients are those of the server.

use std::time::Duration;

/// Number of rows on a page of a list, unless the person has chosen another one.
pub const PAGE_SIZE_DEFAULT: u32 = 50;

/// Maximum number of messages of a folder that is sorted by sender, subject or size. The first page reads all senders
/// or subjects in one job, which takes part of a second for so many.
pub const SORTED_MESSAGES_MAX: u32 = 100_000;

/// Maximum number of conversations that a form can select one by one: the rows of the largest page.
pub const SELECTED_CONVERSATIONS_MAX: usize = 200;

/// Maximum number of lines of a signature.
pub const SIGNATURE_LINES_MAX: usize = 1_000;

/// Maximum number of bytes of a form without files.
pub const FORM_BYTES_MAX: usize = 256 << 10;

/// Number of bytes that a form of the composer may have besides a message of the maximum size.
pub const COMPOSER_EXTRA_BYTES: usize = 64 << 10;

/// Maximum number of fields and files of a form.
pub const FORM_FIELDS_MAX: usize = 1_000;

/// Maximum time between two parts of a form.
pub const FORM_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Maximum number of bytes of a line of the composer: addresses, or the subject.
pub const LINE_BYTES_MAX: usize = 32 << 10;

/// Maximum number of attachments of a message that the composer writes.
pub const ATTACHMENTS_MAX: usize = 100;

/// Maximum number of bytes of the name of an attachment.
pub const FILE_NAME_BYTES_MAX: usize = 240;

/// Maximum number of attachments that the page of a message lists.
pub const LISTED_ATTACHMENTS_MAX: usize = 200;

/// Maximum number of characters of a field of a message's header that its page shows.
pub const FIELD_CHARACTERS_MAX: usize = 2_000;

/// Number of bytes of a message's text that its page shows. A link leads to the rest.
pub const TEXT_SHOWN_BYTES: usize = 24 << 10;

/// Maximum number of bytes of a message's text that are shown at all.
pub const TEXT_BYTES_MAX: usize = 2 << 20;

/// Maximum number of bytes of a message's text that an answer quotes.
pub const QUOTED_BYTES_MAX: usize = 64 << 10;

/// Maximum number of bytes of HTML that are shown.
pub const HTML_BYTES_MAX: usize = 1 << 20;

/// Maximum number of parts with HTML that are shown.
pub const HTML_PARTS_MAX: usize = 50;

/// Maximum number of bytes of the images of a message that are part of its HTML page.
pub const INLINE_IMAGE_BYTES_MAX: usize = 2 << 20;

/// Maximum number of elements of HTML that is shown. HTML with more is shown as its text.
pub const HTML_ELEMENTS_MAX: usize = 20_000;

/// Maximum number of elements that a parser may make of HTML, because it repeats open elements with a look of their
/// own in each paragraph.
pub const HTML_PARSED_ELEMENTS_MAX: usize = 2_000_000;

/// Maximum number of attributes of an element. HTML with more is shown as its text.
pub const HTML_ATTRIBUTES_MAX: usize = 250;

/// Maximum number of times that the bytes of tags are read on average, to count attributes.
pub const TAG_READS_MAX: usize = 8;

/// Maximum number of passes of the sanitizer until its result no longer changes.
pub const SANITIZER_PASSES_MAX: usize = 6;

/// Maximum number of bytes of a `style` attribute.
pub const STYLE_BYTES_MAX: usize = 4 << 10;

/// Number of bytes of a message that one step of a download reads.
pub const DOWNLOAD_STEP_BYTES: u64 = 192 << 10;

/// Number of messages that one transaction marks.
pub const MARKED_PER_TRANSACTION: usize = 1_000;

/// Number of messages that one transaction moves or deletes.
pub const MOVED_PER_TRANSACTION: usize = 250;

/// Maximum number of bytes of the list of messages that a notice can undo.
pub const UNDO_BYTES_MAX: usize = 1_500;

/// Maximum number of bytes of the words of a search.
pub const SEARCH_BYTES_MAX: usize = 500;

/// Maximum number of words of a search. Further ones are ignored.
pub const SEARCH_WORDS_MAX: usize = 10;

/// Number of hits on a page of a search.
pub const SEARCH_HITS: usize = 50;

/// Number of messages that one step of a search looks at.
pub const SEARCH_STEP_ENTRIES: usize = 5_000;

/// Number of messages that one step of a search opens.
pub const SEARCH_STEP_OPENED: usize = 200;

/// Number of steps after which a search offers to go on.
pub const SEARCH_STEPS: usize = 10;

/// Maximum number of addresses that a look-up shows.
pub const ADDRESSES_SHOWN: usize = 50;

/// Maximum number of identifiers in the field `References` of an answer. The first and the last ones are kept.
pub const REFERENCES_MAX: usize = 20;

/// Maximum number of bytes of an identifier of a message that an answer refers to.
pub const MESSAGE_ID_BYTES_MAX: usize = 250;

/// Number of forms that were sent and are remembered, so that a repetition sends nothing.
pub const SENT_FORMS_MAX: usize = 10_000;

/// Number of forms that have moved messages and are remembered, so that a repetition is answered as the first one.
pub const MOVED_FORMS_MAX: usize = 1_000;

/// Number of messages of the folder with sent messages that are searched for a form that was sent before a restart.
pub const SENT_SEARCHED: u32 = 200;

/// Maximum number of requests with files at a time.
pub const UPLOADS_MAX: usize = 100;

/// Maximum number of requests at a time.
pub const REQUESTS_MAX: usize = 2_000;

/// Maximum number of folders that pages list.
pub const LISTED_FOLDERS_MAX: usize = 1_000;

/// Maximum number of bytes of a report that a page violates its Content Security Policy.
pub const REPORT_BYTES_MAX: usize = 16 << 10;

/// Maximum number of messages that are looked through for those of a conversation.
pub const CONVERSATION_SEARCHED: u32 = 20_000;

/// Maximum number of messages of a conversation on its page.
pub const CONVERSATION_MESSAGES_MAX: usize = 200;
