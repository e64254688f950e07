//! Patterns of LIST and LSUB (RFC 9051 §6.3.9): `*` matches any text, `%` matches any text within one level.
//!
//! A pattern is compiled once for a command. Adjacent wildcards become one. A pattern without wildcards, or with one at
//! its end, needs one comparison per name. Any other pattern becomes an automaton with one bit per token (Shift-And),
//! which reads a name once, from left to right, and never goes back. So the cost of a name is at most its length times
//! the number of words that hold the bits, for every pattern.
//!
//! These words are counted as *work*: [`WorkBudget`] is the work that a command may still do. Pure.

use mail::mailbox::canonical_name;

use super::hierarchy::{INBOX, SEPARATOR};
use crate::limits::MAILBOX_NAME_BYTES_MAX;

/// Error: the work of a command is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMuchWork;

/// The work that a command may still do, in words.
#[derive(Debug)]
pub struct WorkBudget {
    left: u64,
}

impl WorkBudget {
    /// Creates a budget.
    #[must_use]
    pub fn new(words: u64) -> Self {
        Self { left: words }
    }

    /// Returns the number of words that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Charges work to the budget. Returns an error if less is left.
    pub fn charge(&mut self, words: usize) -> Result<(), TooMuchWork> {
        self.left = self.left.checked_sub(words as u64).ok_or(TooMuchWork)?;
        Ok(())
    }
}

/// A pattern for mailbox names. Only the name INBOX is compared without regard to case.
#[derive(Debug)]
pub struct MailboxPattern {
    text: PatternText,
    matches_inbox: bool,
    ends_with_percent: bool,
}

impl MailboxPattern {
    /// Joins the reference name and a pattern of LIST, and compiles them.
    #[must_use]
    pub fn new(reference: &str, pattern: &str) -> Self {
        Self::compile(&canonical_name(&format!("{reference}{pattern}")))
    }

    fn compile(pattern: &str) -> Self {
        let text = PatternText::compile(pattern);
        let matches_inbox = text.literal_bytes <= INBOX.len() && matches_folded_inbox(pattern);
        Self { text, matches_inbox, ends_with_percent: pattern.ends_with('%') }
    }

    /// Returns the text before the first wildcard. All names that match begin with it, except INBOX.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.text.prefix
    }

    /// Returns `true` if the pattern has no wildcards.
    #[must_use]
    pub fn is_name(&self) -> bool {
        matches!(self.text.rest, PatternRest::Nothing)
    }

    /// Returns `true` if the last character is `%`.
    #[must_use]
    pub fn ends_with_percent(&self) -> bool {
        self.ends_with_percent
    }

    /// Returns `true` if the pattern matches INBOX.
    #[must_use]
    pub fn matches_inbox(&self) -> bool {
        self.matches_inbox
    }

    /// Returns `true` if the pattern matches a name.
    pub fn matches(&self, name: &str, budget: &mut WorkBudget) -> Result<bool, TooMuchWork> {
        if name == INBOX {
            return Ok(self.matches_inbox);
        }
        let mut matched = [false];
        self.text.match_prefixes(name, &[name.len()], &mut matched, budget)?;
        Ok(matched == [true])
    }

    /// Sets the elements of `matched` whose prefixes of a name match the pattern, and leaves the others. `ends` holds
    /// the lengths of the prefixes in ascending order. At each of them, a level of the name ends.
    ///
    /// INBOX is compared with regard to case. [`MailboxPattern::matches_inbox`] decides about it.
    pub fn match_prefixes(
        &self,
        name: &str,
        ends: &[usize],
        matched: &mut [bool],
        budget: &mut WorkBudget,
    ) -> Result<(), TooMuchWork> {
        self.text.match_prefixes(name, ends, matched, budget)
    }
}

/// Returns `true` if a pattern with few literal bytes matches INBOX, in any case.
fn matches_folded_inbox(pattern: &str) -> bool {
    let folded = PatternText::compile(&pattern.to_ascii_uppercase());
    let mut matched = [false];
    let result = folded.match_prefixes(INBOX, &[INBOX.len()], &mut matched, &mut WorkBudget::new(u64::MAX));
    result.is_ok() && matched == [true]
}

/// A compiled pattern that knows no exception for INBOX.
#[derive(Debug)]
struct PatternText {
    /// The text before the first wildcard.
    prefix: String,
    rest: PatternRest,
    /// Number of bytes outside of wildcards. A shorter name does not match.
    literal_bytes: usize,
}

/// A pattern from its first wildcard on.
#[derive(Debug)]
enum PatternRest {
    /// There is no wildcard.
    Nothing,
    /// A single `%`.
    Level,
    /// A single `*`.
    Text,
    /// A wildcard and further tokens.
    Tokens(Automaton),
}

impl PatternText {
    fn compile(pattern: &str) -> Self {
        let literal_bytes = pattern.bytes().filter(|byte| !matches!(byte, b'*' | b'%')).count();
        let (prefix, rest) = pattern.split_at(pattern.find(['*', '%']).unwrap_or(pattern.len()));
        // No name is as long as the literal bytes of such a pattern, so its tokens do not matter.
        let rest = if literal_bytes > MAILBOX_NAME_BYTES_MAX { "" } else { rest };
        let rest = match tokens(rest).as_slice() {
            [] => PatternRest::Nothing,
            [Token::Percent] => PatternRest::Level,
            [Token::Star] => PatternRest::Text,
            tokens => PatternRest::Tokens(Automaton::new(tokens)),
        };
        Self { prefix: prefix.to_owned(), rest, literal_bytes }
    }

    fn match_prefixes(
        &self,
        name: &str,
        ends: &[usize],
        matched: &mut [bool],
        budget: &mut WorkBudget,
    ) -> Result<(), TooMuchWork> {
        budget.charge(1)?;
        if name.len() < self.literal_bytes || !name.starts_with(&self.prefix) {
            return Ok(());
        }
        let prefix_bytes = self.prefix.len();
        let candidates = ends.iter().zip(matched).filter(|(end, _)| **end >= prefix_bytes);
        match &self.rest {
            PatternRest::Nothing => candidates.for_each(|(end, matched)| *matched |= *end == prefix_bytes),
            PatternRest::Level => {
                let level = name[prefix_bytes..].find(SEPARATOR);
                let level_end = level.map_or(name.len(), |length| prefix_bytes + length);
                candidates.for_each(|(end, matched)| *matched |= *end <= level_end);
            }
            PatternRest::Text => candidates.for_each(|(_, matched)| *matched = true),
            PatternRest::Tokens(automaton) => {
                automaton.match_prefixes((name.as_bytes(), prefix_bytes), candidates, budget)?;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Literal(u8),
    Percent,
    Star,
}

/// Splits a pattern into tokens. Adjacent wildcards match the same texts as one of them: `*` if it is among them.
fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::with_capacity(pattern.len());
    for byte in pattern.bytes() {
        let token = match byte {
            b'*' => Token::Star,
            b'%' => Token::Percent,
            byte => Token::Literal(byte),
        };
        match (tokens.last(), token) {
            (Some(Token::Star), Token::Star | Token::Percent) | (Some(Token::Percent), Token::Percent) => {}
            (Some(Token::Percent), Token::Star) => {
                tokens.pop();
                tokens.push(Token::Star);
            }
            _ => tokens.push(token),
        }
    }
    tokens
}

/// Number of bits in a word.
const WORD_BITS: usize = u64::BITS as usize;

/// A nondeterministic automaton whose states are bits.
///
/// Bit `n` of the state is set if the first `n` tokens match the bytes that were read. A byte moves the bits of equal
/// literals to the next token, and keeps the bits of the wildcards that match it. A wildcard also matches the empty
/// text, so its bit sets the next one. That one is no wildcard, because adjacent wildcards were joined.
#[derive(Debug)]
struct Automaton {
    /// Number of tokens, and of the bit of the final state.
    tokens: usize,
    /// For each byte, the position of its words in `literals`.
    offsets: Box<[usize; 256]>,
    /// The bits of the tokens that are a certain byte. The first words, of bytes that the pattern lacks, are 0.
    literals: Vec<u64>,
    /// The bits of the wildcards, by word.
    wildcards: Vec<WildcardBits>,
}

#[derive(Debug, Clone, Copy, Default)]
struct WildcardBits {
    star: u64,
    percent: u64,
}

impl Automaton {
    fn new(tokens: &[Token]) -> Self {
        let words = tokens.len() / WORD_BITS + 1;
        let mut automaton = Self {
            tokens: tokens.len(),
            offsets: Box::new([0; 256]),
            literals: vec![0; words],
            wildcards: vec![WildcardBits::default(); words],
        };
        for (index, token) in tokens.iter().enumerate() {
            let word = index / WORD_BITS;
            let bit = 1_u64 << (index % WORD_BITS);
            match token {
                Token::Star => automaton.wildcards[word].star |= bit,
                Token::Percent => automaton.wildcards[word].percent |= bit,
                Token::Literal(byte) => {
                    let offset = automaton.offset_of(*byte);
                    automaton.literals[offset + word] |= bit;
                }
            }
        }
        automaton
    }

    /// Returns the position of the words of a byte, which are added if the byte is new.
    fn offset_of(&mut self, byte: u8) -> usize {
        let words = self.wildcards.len();
        let offset = &mut self.offsets[usize::from(byte)];
        if *offset == 0 {
            *offset = self.literals.len();
            self.literals.resize(*offset + words, 0);
        }
        *offset
    }

    /// Sets the flags of those ends up to which the tokens match a name. The first bytes of the name, which the text
    /// before the tokens matches, are skipped.
    fn match_prefixes<'m>(
        &self,
        (name, skipped): (&[u8], usize),
        ends: impl Iterator<Item = (&'m usize, &'m mut bool)>,
        budget: &mut WorkBudget,
    ) -> Result<(), TooMuchWork> {
        let words = self.wildcards.len();
        let mut state = self.first_state();
        let mut from = skipped;
        for (end, matched) in ends {
            let bytes = &name[from..*end];
            let survived = bytes.iter().take_while(|byte| self.step(&mut state, **byte)).count();
            budget.charge(words.saturating_mul(survived + 1))?;
            if survived < bytes.len() {
                break;
            }
            *matched |= self.accepts(&state);
            from = *end;
        }
        Ok(())
    }

    fn first_state(&self) -> Vec<u64> {
        let mut state = vec![0; self.wildcards.len()];
        if let (Some(word), Some(wildcards)) = (state.first_mut(), self.wildcards.first()) {
            *word = 1 | (((wildcards.star | wildcards.percent) & 1) << 1);
        }
        state
    }

    /// Reads a byte. Returns `false` if no text that begins with the bytes read so far can match.
    fn step(&self, state: &mut [u64], byte: u8) -> bool {
        let literals = &self.literals[self.offsets[usize::from(byte)]..];
        let within_level = if char::from(byte) == SEPARATOR { 0 } else { u64::MAX };
        let mut carry = 0_u64;
        let mut alive = 0_u64;
        for ((word, literal), wildcards) in state.iter_mut().zip(literals).zip(&self.wildcards) {
            let equal = *word & literal;
            let extended = *word & (wildcards.star | (wildcards.percent & within_level));
            let reached = (equal << 1) | extended | carry;
            let empty = reached & (wildcards.star | wildcards.percent);
            *word = reached | (empty << 1);
            carry = (equal | empty) >> (WORD_BITS - 1);
            alive |= *word;
        }
        alive != 0
    }

    fn accepts(&self, state: &[u64]) -> bool {
        state.get(self.tokens / WORD_BITS).is_some_and(|word| (word >> (self.tokens % WORD_BITS)) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &MailboxPattern, name: &str) -> bool {
        pattern.matches(name, &mut WorkBudget::new(u64::MAX)).expect("the budget suffices")
    }

    #[test]
    fn reference_is_prepended_to_the_pattern() {
        assert!(matches(&MailboxPattern::new("Work/", "%"), "Work/Plan"));
        assert!(!matches(&MailboxPattern::new("Work/", "%"), "Work/2026/Old"));
        assert!(matches(&MailboxPattern::new("in", "BOX"), "INBOX"));
        assert!(matches(&MailboxPattern::new("", "in%"), "INBOX"));
    }

    #[test]
    fn only_inbox_is_compared_without_regard_to_case() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(matches(&MailboxPattern::new("", pattern), name), expected, "{pattern} {name}");
        };
        check("iNbOx", "INBOX", true);
        check("*b%x", "INBOX", true);
        check("%*i*%n%b*o*x%*", "INBOX", true);
        check("inboxes", "INBOX", false);
        check("inbox/*", "INBOX/Sub", true);
        check("in*/Sub", "INBOX/Sub", false);
        check("sent", "Sent", false);
    }

    #[test]
    fn work_is_the_length_of_the_name_times_the_words_of_the_pattern() {
        let work = |pattern: &str, name: &str| {
            let mut budget = WorkBudget::new(1_000_000);
            MailboxPattern::new("", pattern).matches(name, &mut budget).expect("the budget suffices");
            1_000_000 - budget.left()
        };
        let name = "a".repeat(1_000) + "b";
        // 600 tokens are 10 words.
        assert_eq!(work(&"%*a".repeat(300), &name), 1 + 10 * 1_002);
        // Whatever the name, a pattern costs no more after it has failed.
        assert_eq!(work("%x/*y", &format!("a/{name}")), 1 + 2);
        // Simple patterns cost one comparison, and patterns that are longer than the name nothing else.
        for pattern in ["*", "%", "a*", "a%", &name, &"*a".repeat(1_002), &"*a".repeat(1_100)] {
            assert_eq!(work(pattern, &name), 1, "{pattern}");
        }
    }

    #[test]
    fn matching_ends_when_the_budget_is_used_up() {
        let pattern = MailboxPattern::new("", "*a*b");
        assert_eq!(pattern.matches("aaaaaaaa", &mut WorkBudget::new(9)), Err(TooMuchWork));
        assert_eq!(pattern.matches("aaaaaaaa", &mut WorkBudget::new(10)), Ok(false));
    }

    /// Returns `true` if the name matches the pattern, by the plain definition.
    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) if naive(rest, name) => true,
            (Some((b'*', _)), Some((_, name))) => naive(pattern, name),
            (Some((b'%', rest)), _) if naive(rest, name) => true,
            (Some((b'%', _)), Some((first, name))) if *first != b'/' => naive(pattern, name),
            (Some((wanted, pattern)), Some((found, name))) if wanted == found => naive(pattern, name),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_equals_the_naive_definition(pattern in "[ab/%*ü]{0,8}", name in "[ab/ü%]{0,10}") {
            let compiled = MailboxPattern::compile(&pattern);
            prop_assert_eq!(matches(&compiled, &name), naive(pattern.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn tokens_may_be_in_several_words(
            pattern in "[ab/%*]{0,6}",
            name in "[ab/]{0,8}",
            length in 50_usize..140,
        ) {
            let filling = &"abb".repeat(length)[..length];
            let pattern = format!("%{filling}{pattern}");
            let name = format!("b{filling}{name}");
            let expected = naive(pattern.as_bytes(), name.as_bytes());
            prop_assert_eq!(matches(&MailboxPattern::compile(&pattern), &name), expected);
        }

        #[test]
        fn inbox_matches_like_the_folded_pattern(pattern in "[inboxINBOX%*]{0,7}") {
            let folded = pattern.to_ascii_uppercase();
            let compiled = MailboxPattern::compile(&pattern);
            prop_assert_eq!(matches(&compiled, "INBOX"), naive(folded.as_bytes(), b"INBOX"));
        }

        #[test]
        fn prefixes_match_as_names_of_their_own(pattern in "[ab/%*]{0,6}", name in "[ab]/[ab]{0,2}/[ab]{0,2}") {
            let compiled = MailboxPattern::compile(&pattern);
            let levels = name.match_indices('/').map(|(end, _)| end);
            let ends: Vec<usize> = levels.chain([name.len()]).collect();
            let mut matched = vec![false; ends.len()];
            compiled.match_prefixes(&name, &ends, &mut matched, &mut WorkBudget::new(u64::MAX)).expect("it suffices");
            let expected: Vec<bool> = ends.iter().map(|end| naive(pattern.as_bytes(), &name.as_bytes()[..*end])).collect();
            prop_assert_eq!(matched, expected);
        }
    }
}
