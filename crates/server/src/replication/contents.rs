//! Receives the contents of attachments from another server.
//!
//! A small content is kept in memory and stored with the note that uses it. Others are stored while they arrive
//! ([`ArrivingContent`]). So neither an attachment of gigabytes nor many of them take more memory, and a content that
//! was cut off continues where it was.

use std::collections::HashMap;
use std::sync::Arc;

use admin::AdminError;
use base::Unpaced;
use base::memory::{MemoryBudget, MemoryPermit};
use client::v1;
use notes::Databases;
use store::blob::arriving::{AnnouncedContent, ArrivingContent};
use store::blob::{ArrivedContent, PreparedBlob};

/// Size of a content in bytes above which it is stored while it arrives.
const CONTENT_IN_MEMORY_MAX: usize = 4 << 20;

/// Maximum size of the contents of one answer that are kept in memory, in bytes. Further ones are stored while they
/// arrive.
const CONTENTS_IN_MEMORY_MAX: usize = 32 << 20;

/// The contents that have arrived.
pub(super) struct ReceivedContents {
    pub(super) in_memory: Vec<Arc<PreparedBlob<'static>>>,
    pub(super) stored: Vec<Arc<ArrivedContent>>,
    /// The memory of the former, and of the content that is arriving.
    pub(super) memory: MemoryPermit,
}

impl ReceivedContents {
    /// Begins without contents. What arrives takes its memory from a budget.
    pub(super) fn new(memory: &MemoryBudget) -> Self {
        Self { in_memory: Vec::new(), stored: Vec::new(), memory: memory.empty_permit() }
    }
}

/// Puts the pieces of contents together that arrive in the order of a request.
pub(super) struct ContentReceiver<'t> {
    databases: &'t Databases,
    sender: &'t [u8],
    hashes: Vec<[u8; 32]>,
    /// The contents of which an earlier replication has received a part.
    continued: HashMap<usize, ArrivingContent<'t>>,
    /// The content that is arriving, and its index.
    current: Option<(usize, Receiving<'t>)>,
    /// The index of the next content. Those before have arrived, or were left out.
    next: usize,
    received: &'t mut ReceivedContents,
}

enum Receiving<'t> {
    InMemory(Vec<u8>),
    Stored(ArrivingContent<'t>),
}

impl Receiving<'_> {
    fn length(&self) -> u64 {
        match self {
            Self::InMemory(content) => content.len() as u64,
            Self::Stored(arriving) => arriving.offset(),
        }
    }
}

impl<'t> ContentReceiver<'t> {
    /// Prepares for the contents with `hashes` from a sender.
    pub(super) fn new(
        (databases, sender): (&'t Databases, &'t [u8]),
        hashes: Vec<[u8; 32]>,
        received: &'t mut ReceivedContents,
    ) -> Result<Self, AdminError> {
        let mut receiver =
            Self { databases, sender, hashes, continued: HashMap::new(), current: None, next: 0, received };
        for index in 0..receiver.hashes.len() {
            let arriving = receiver.begin(index)?;
            if arriving.offset() > 0 {
                receiver.continued.insert(index, arriving);
            }
        }
        Ok(receiver)
    }

    /// Returns the number of bytes of a content that have arrived already.
    pub(super) fn offset(&self, index: usize) -> u64 {
        self.continued.get(&index).map_or(0, ArrivingContent::offset)
    }

    /// Takes the next piece.
    pub(super) fn take(&mut self, piece: &v1::ContentPiece) -> Result<(), AdminError> {
        let invalid = || AdminError::refused("a piece of a content is not one that was requested");
        let index = usize::try_from(piece.index).map_err(|_| invalid())?;
        if !piece.last && piece.content.is_empty() {
            return Err(invalid());
        }
        let mut receiving = match self.current.take() {
            Some((current, receiving)) if current == index => receiving,
            None if index >= self.next && index < self.hashes.len() => self.first_piece(index, piece)?,
            _ => return Err(invalid()),
        };
        if piece.offset_bytes != 0 && piece.offset_bytes != receiving.length() {
            return Err(invalid());
        }
        receiving = self.add(index, receiving, &piece.content)?;
        if !piece.last {
            self.current = Some((index, receiving));
            return Ok(());
        }
        self.next = index + 1;
        match receiving {
            Receiving::InMemory(content) => {
                // The name of the content is computed here, so a wrong content is not taken for another one.
                let prepared = self.databases.blob_prepare(content, &Unpaced)?.into_owned();
                self.received.in_memory.push(Arc::new(prepared));
            }
            Receiving::Stored(arriving) => match arriving.finish().map_err(notes::Error::from)? {
                Some(arrived) => self.received.stored.push(Arc::new(arrived)),
                None => tracing::warn!(target: "replica", "another server has sent another attachment than announced"),
            },
        }
        Ok(())
    }

    fn begin(&self, index: usize) -> Result<ArrivingContent<'t>, AdminError> {
        let announced = AnnouncedContent { hash: self.hashes[index], sender: self.sender };
        let now = self.databases.clock().now();
        Ok(ArrivingContent::begin(self.databases.store(), announced, now).map_err(notes::Error::from)?)
    }

    /// Returns the content to which a first piece belongs. A server may begin anew instead of continuing.
    fn first_piece(&mut self, index: usize, piece: &v1::ContentPiece) -> Result<Receiving<'t>, AdminError> {
        let Some(mut arriving) = self.continued.remove(&index) else {
            return Ok(Receiving::InMemory(Vec::new()));
        };
        if piece.offset_bytes != arriving.offset() {
            arriving.restart().map_err(notes::Error::from)?;
        }
        Ok(Receiving::Stored(arriving))
    }

    fn add(&mut self, index: usize, receiving: Receiving<'t>, piece: &[u8]) -> Result<Receiving<'t>, AdminError> {
        let mut arriving = match receiving {
            Receiving::InMemory(mut content) => {
                let memory = &mut self.received.memory;
                let is_small = content.len() + piece.len() <= CONTENT_IN_MEMORY_MAX
                    && memory.bytes() + piece.len() <= CONTENTS_IN_MEMORY_MAX;
                if is_small && memory.grow(piece.len()).is_ok() {
                    content.extend_from_slice(piece);
                    return Ok(Receiving::InMemory(content));
                }
                let mut arriving = self.begin(index)?;
                if arriving.offset() > 0 {
                    arriving.restart().map_err(notes::Error::from)?;
                }
                arriving.add(&content).map_err(notes::Error::from)?;
                self.received.memory.shrink(content.len());
                arriving
            }
            Receiving::Stored(arriving) => arriving,
        };
        arriving.add(piece).map_err(notes::Error::from)?;
        Ok(Receiving::Stored(arriving))
    }
}

#[cfg(test)]
mod tests {
    use base::memory::MemoryBudget;
    use base::sim::{SeededRandom, SimClock};
    use base::{DbNumber, NoteId};
    use notes::ServerSettings;
    use store::blob::BlobOwner;
    use store::memory::MemoryEngine;
    use store::{Batch, Store, StoreOptions};

    use super::*;

    const PIECE_BYTES: usize = 256 << 10;

    fn databases() -> Arc<Databases> {
        let engine: Arc<dyn store::Engine> = Arc::new(MemoryEngine::new(11));
        let store = Store::with_engine(engine, &StoreOptions::default()).expect("a store in memory opens");
        let (clock, random) = (Arc::new(SimClock::new()), Arc::new(SeededRandom::new(1)));
        Databases::open_with(Arc::new(store), clock, random, ServerSettings::default())
    }

    fn content(seed: u8, length: usize) -> Vec<u8> {
        (0..length).map(|place| (place % 251) as u8 ^ seed).collect()
    }

    fn hash(content: &[u8]) -> [u8; 32] {
        *blake3::hash(content).as_bytes()
    }

    /// Returns the pieces of a content as a server sends them that continues at `offset`.
    fn pieces(index: u32, content: &[u8], offset: usize) -> Vec<v1::ContentPiece> {
        let mut start = offset;
        let mut pieces = Vec::new();
        loop {
            let end = content.len().min(start + PIECE_BYTES);
            let last = end == content.len();
            let bytes = content[start..end].to_vec();
            pieces.push(v1::ContentPiece { index, content: bytes, last, offset_bytes: start as u64 });
            if last {
                return pieces;
            }
            start = end;
        }
    }

    /// Receives pieces. Returns the offsets at which the contents were to continue, and whether all pieces were taken.
    fn receive(
        databases: &Databases,
        contents: &[Vec<u8>],
        sent: impl FnOnce(&[usize]) -> Vec<v1::ContentPiece>,
        received: &mut ReceivedContents,
    ) -> (Vec<usize>, bool) {
        let hashes = contents.iter().map(|content| hash(content)).collect();
        let receiver = ContentReceiver::new((databases, b"hub"), hashes, received);
        let mut receiver = receiver.expect("a sound store");
        let offset = |index| usize::try_from(receiver.offset(index)).expect("it is small");
        let offsets: Vec<usize> = (0..contents.len()).map(offset).collect();
        let is_taken = sent(&offsets).iter().all(|piece| receiver.take(piece).is_ok());
        (offsets, is_taken)
    }

    /// Checks that the store has a content after a note uses it.
    fn check(databases: &Databases, received: &ReceivedContents, content: &[u8]) {
        let store = databases.store();
        let id = store.blobs().id_of_hash(&hash(content));
        let mut batch = Batch::new();
        let writer = store.blobs().writer();
        received.in_memory.iter().for_each(|content| writer.offer(Arc::clone(content)));
        let owner = BlobOwner { database: DbNumber(1), note: NoteId(1) };
        writer.add_user(&mut batch, owner, &id).expect("the content has arrived");
        store.commit(&batch).expect("written");
        drop(writer);
        assert!(store.blobs().read(store.as_ref(), &id).expect("it exists") == content);
    }

    #[test]
    fn small_contents_stay_in_memory_and_large_ones_are_stored() {
        let databases = databases();
        let lengths = [0, 17, CONTENT_IN_MEMORY_MAX, CONTENT_IN_MEMORY_MAX + 1, 9 << 20];
        let contents: Vec<Vec<u8>> = (0..).zip(lengths).map(|(seed, length)| content(seed, length)).collect();
        let mut received = ReceivedContents::new(&MemoryBudget::unlimited());
        let send = |_: &[usize]| (0..).zip(&contents).flat_map(|(index, content)| pieces(index, content, 0)).collect();
        assert_eq!(receive(&databases, &contents, send, &mut received), (vec![0; 5], true));
        assert_eq!((received.in_memory.len(), received.stored.len()), (3, 2));
        contents.iter().for_each(|content| check(&databases, &received, content));
    }

    #[test]
    fn contents_are_stored_when_many_have_arrived_or_no_memory_is_left() {
        let databases = databases();
        let contents: Vec<Vec<u8>> = (0..12).map(|seed| content(seed, 3 << 20)).collect();
        let mut received = ReceivedContents::new(&MemoryBudget::unlimited());
        let send = |_: &[usize]| (0..).zip(&contents).flat_map(|(index, content)| pieces(index, content, 0)).collect();
        assert!(receive(&databases, &contents, send, &mut received).1);
        assert_eq!((received.in_memory.len(), received.stored.len()), (10, 2), "32 MiB stay in memory");
        let mut received = ReceivedContents::new(&MemoryBudget::new(PIECE_BYTES));
        let other = content(99, 1 << 20);
        let mut receiver = ContentReceiver::new((&databases, b"hub"), vec![hash(&other)], &mut received);
        let receiver = receiver.as_mut().expect("a sound store");
        pieces(0, &other, 0).iter().for_each(|piece| receiver.take(piece).expect("it is stored"));
        assert_eq!(receiver.received.stored.len(), 1);
    }

    #[test]
    fn a_content_that_was_cut_off_continues() {
        let databases = databases();
        let contents = [content(1, 100), content(2, 9 << 20)];
        let mut cut = ReceivedContents::new(&MemoryBudget::unlimited());
        let send = |_: &[usize]| {
            let mut sent = pieces(0, &contents[0], 0);
            sent.extend(pieces(1, &contents[1], 0).into_iter().take(30));
            sent
        };
        assert_eq!(receive(&databases, &contents, send, &mut cut), (vec![0, 0], true));
        assert_eq!((cut.in_memory.len(), cut.stored.len()), (1, 0));
        let mut received = ReceivedContents::new(&MemoryBudget::unlimited());
        let send = |offsets: &[usize]| pieces(1, &contents[1], offsets[1]);
        let (offsets, is_taken) = receive(&databases, &contents, send, &mut received);
        assert!(is_taken && offsets == [0, 30 * PIECE_BYTES], "the first one is left out");
        check(&databases, &received, &contents[1]);
    }

    #[test]
    fn servers_that_cannot_continue_begin_anew() {
        let databases = databases();
        let contents = [content(2, 9 << 20)];
        let send = |_: &[usize]| pieces(0, &contents[0], 0).into_iter().take(30).collect();
        receive(&databases, &contents, send, &mut ReceivedContents::new(&MemoryBudget::unlimited()));
        let mut received = ReceivedContents::new(&MemoryBudget::unlimited());
        let without_places = |_: &[usize]| {
            let pieces = pieces(0, &contents[0], 0).into_iter();
            pieces.map(|piece| v1::ContentPiece { offset_bytes: 0, ..piece }).collect()
        };
        let (offsets, is_taken) = receive(&databases, &contents, without_places, &mut received);
        assert!(is_taken && offsets == [30 * PIECE_BYTES]);
        check(&databases, &received, &contents[0]);
    }

    #[test]
    fn pieces_that_were_not_requested_are_refused() {
        let databases = databases();
        let contents = [content(1, 1_000_000), content(2, 1_000_000)];
        let first = pieces(0, &contents[0], 0);
        let second = pieces(1, &contents[1], 0);
        let refused = [
            vec![second[3].clone(), first[0].clone()],
            vec![first[0].clone(), second[0].clone()],
            vec![first[0].clone(), first[2].clone()],
            vec![v1::ContentPiece { index: 2, ..first[0].clone() }],
            vec![v1::ContentPiece { content: Vec::new(), ..first[0].clone() }],
            vec![v1::ContentPiece { last: true, ..first[0].clone() }, first[1].clone()],
        ];
        for pieces in refused {
            let mut received = ReceivedContents::new(&MemoryBudget::unlimited());
            assert!(!receive(&databases, &contents, |_| pieces, &mut received).1);
        }
        let mut received = ReceivedContents::new(&MemoryBudget::unlimited());
        let wrong = |_: &[usize]| {
            let mut pieces = pieces(0, &content(7, 9 << 20), 0);
            pieces.extend(second.clone());
            pieces
        };
        let contents = [content(1, 9 << 20), contents[1].clone()];
        assert!(receive(&databases, &contents, wrong, &mut received).1);
        assert_eq!((received.in_memory.len(), received.stored.len()), (1, 0), "another content than announced");
    }
}
