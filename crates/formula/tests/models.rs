//! Functions against naive models: each function is computed a second time, in the simplest way, over random arguments.

use formula::pattern::TextPattern;
use jiff::civil::{Date, date};
use proptest::prelude::*;

use crate::fixture::{evaluate, write};

/// Returns the value of a formula in the notation of formulas.
fn value(formula: &str) -> String {
    evaluate(formula, "", |outcome| write(&outcome.value))
}

fn text_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    quoted.join(" : ")
}

fn number_list<T: std::fmt::Display>(numbers: &[T]) -> String {
    let quoted: Vec<String> = numbers.iter().map(|number| format!("({number})")).collect();
    quoted.join(" : ")
}

fn format_numbers<T: std::fmt::Display>(numbers: &[T]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" : ")
}

/// Returns the pairs that operators form of two lists: the shorter one repeats its last element.
fn pairs<T: Copy>(left: &[T], right: &[T]) -> Vec<(T, T)> {
    let count = left.len().max(right.len());
    (0..count).map(|index| (left[index.min(left.len() - 1)], right[index.min(right.len() - 1)])).collect()
}

fn numbers() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(-100i64..100, 1..6)
}

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[abé]{1,3}", 1..6)
}

/// A piece of a pattern.
#[derive(Debug, Clone)]
enum Piece {
    Exactly(char),
    Any,
    Many,
    Set { negated: bool, from: char, to: char },
}

fn piece() -> impl Strategy<Value = Piece> {
    let letter = || prop::sample::select(vec!['a', 'b', 'c']);
    prop_oneof![
        4 => letter().prop_map(Piece::Exactly),
        1 => Just(Piece::Any),
        2 => Just(Piece::Many),
        1 => (any::<bool>(), letter(), letter()).prop_map(|(negated, from, to)| Piece::Set { negated, from, to }),
    ]
}

/// Matches a text by trying every possibility.
fn fits(pieces: &[Piece], text: &[char]) -> bool {
    let Some((piece, rest)) = pieces.split_first() else { return text.is_empty() };
    let is_match = |c: char| match piece {
        Piece::Exactly(wanted) => *wanted == c,
        Piece::Any | Piece::Many => true,
        Piece::Set { negated, from, to } => (*from <= c && c <= *to) != *negated,
    };
    match piece {
        Piece::Many => (0..=text.len()).any(|skipped| fits(rest, &text[skipped..])),
        _ => text.split_first().is_some_and(|(first, after)| is_match(*first) && fits(rest, after)),
    }
}

/// Spells a pattern of `@Matches`.
fn spell(pieces: &[Piece]) -> String {
    let spell_one = |piece: &Piece| match piece {
        Piece::Exactly(c) => c.to_string(),
        Piece::Any => "?".to_owned(),
        Piece::Many => "*".to_owned(),
        Piece::Set { negated, from, to } => format!("{{{}{from}-{to}}}", if *negated { "!" } else { "" }),
    };
    pieces.iter().map(spell_one).collect()
}

fn day() -> impl Strategy<Value = Date> {
    (1800i16..2300, 1i8..=12, 1i8..=28).prop_map(|(year, month, day)| date(year, month, day))
}

/// Spells a date as a literal of the American locale.
fn literal(day: Date) -> String {
    format!("[{:02}/{:02}/{:04}]", day.month(), day.day(), day.year())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_by_number_count_characters(text in "[abé-]{0,8}", count in 0usize..10) {
        let chars: Vec<char> = text.chars().collect();
        let kept = count.min(chars.len());
        let back = chars.len() - kept;
        let part = |range: std::ops::Range<usize>| format!("{:?}", chars[range].iter().collect::<String>());
        prop_assert_eq!(value(&format!("@Left({text:?}; {count})")), part(0..kept));
        prop_assert_eq!(value(&format!("@LeftBack({text:?}; {count})")), part(0..back));
        prop_assert_eq!(value(&format!("@Right({text:?}; {count})")), part(back..chars.len()));
        prop_assert_eq!(value(&format!("@RightBack({text:?}; {count})")), part(kept..chars.len()));
        let end = (kept + 2).min(chars.len());
        prop_assert_eq!(value(&format!("@Middle({text:?}; {count}; 2)")), part(kept..end));
        prop_assert_eq!(value(&format!("@Length({text:?})")), chars.len().to_string());
    }

    #[test]
    fn parts_by_text_split_at_first_and_last_occurrence(text in "[abé-]{0,8}", mark in "[abé-]{1,2}") {
        let quoted = |found: Option<&str>| format!("{:?}", found.unwrap_or_default());
        let first = text.split_once(&mark);
        let last = text.rsplit_once(&mark);
        prop_assert_eq!(value(&format!("@Left({text:?}; {mark:?})")), quoted(first.map(|parts| parts.0)));
        prop_assert_eq!(value(&format!("@Right({text:?}; {mark:?})")), quoted(first.map(|parts| parts.1)));
        prop_assert_eq!(value(&format!("@LeftBack({text:?}; {mark:?})")), quoted(last.map(|parts| parts.0)));
        prop_assert_eq!(value(&format!("@RightBack({text:?}; {mark:?})")), quoted(last.map(|parts| parts.1)));
        let found = u8::from(text.contains(&mark)).to_string();
        prop_assert_eq!(value(&format!("@Contains({text:?}; {mark:?})")), found);
    }

    #[test]
    fn words_are_the_pieces_between_separators(words in words(), number in -7i64..8) {
        let text = words.join("~");
        let index = match number {
            0.. => usize::try_from(number.max(1) - 1).ok(),
            _ => words.len().checked_add_signed(number as isize),
        };
        let expected = index.and_then(|index| words.get(index)).cloned().unwrap_or_default();
        prop_assert_eq!(value(&format!("@Word({text:?}; \"~\"; {number})")), format!("{expected:?}"));
    }

    #[test]
    fn list_functions_match_vectors(words in words(), wanted in "[abé]{1,2}", count in 1usize..8) {
        let list = text_list(&words);
        let mut unique: Vec<String> = Vec::new();
        words.iter().for_each(|word| if !unique.contains(word) { unique.push(word.clone()) });
        let position = words.iter().position(|word| *word == wanted).map_or(0, |index| index + 1);
        let kept = count.min(words.len());
        prop_assert_eq!(value(&format!("@Elements({list})")), words.len().to_string());
        prop_assert_eq!(value(&format!("@Unique({list})")), text_list(&unique));
        prop_assert_eq!(value(&format!("@Member({wanted:?}; {list})")), position.to_string());
        prop_assert_eq!(value(&format!("@IsMember({wanted:?}; {list})")), u8::from(position > 0).to_string());
        prop_assert_eq!(value(&format!("@IsNotMember({wanted:?}; {list})")), u8::from(position == 0).to_string());
        prop_assert_eq!(value(&format!("@Subset({list}; {count})")), text_list(&words[..kept]));
        prop_assert_eq!(value(&format!("@Subset({list}; -{count})")), text_list(&words[words.len() - kept..]));
    }

    #[test]
    fn replacements_apply_to_each_element(words in words(), old in words(), new in words()) {
        let replaced = words.iter().map(|word| match old.iter().position(|wanted| wanted == word) {
            Some(index) => new.get(index).cloned().unwrap_or_default(),
            None => word.clone(),
        });
        let expected = text_list(&replaced.collect::<Vec<_>>());
        let lists = [&words, &old, &new].map(|list| text_list(list));
        prop_assert_eq!(value(&format!("@Replace({}; {}; {})", lists[0], lists[1], lists[2])), expected);
        let substring = words.iter().map(|word| word.replace(&old[0], &new[0])).collect::<Vec<_>>();
        let formula = format!("@ReplaceSubstring({}; {:?}; {:?})", lists[0], old[0], new[0]);
        prop_assert_eq!(value(&formula), text_list(&substring));
    }

    #[test]
    fn begins_ends_and_contains_compare_all_pairs(texts in words(), parts in words()) {
        let any = |test: fn(&str, &str) -> bool| {
            u8::from(texts.iter().any(|text| parts.iter().any(|part| test(text, part)))).to_string()
        };
        let arguments = format!("{}; {}", text_list(&texts), text_list(&parts));
        prop_assert_eq!(value(&format!("@Begins({arguments})")), any(|text, part| text.starts_with(part)));
        prop_assert_eq!(value(&format!("@Ends({arguments})")), any(|text, part| text.ends_with(part)));
        prop_assert_eq!(value(&format!("@Contains({arguments})")), any(|text, part| text.contains(part)));
    }

    #[test]
    fn arithmetic_pairs_the_elements_of_lists(left in numbers(), right in numbers()) {
        let one = number_list(&left);
        let other = number_list(&right);
        let each = |compute: fn(i64, i64) -> i64| {
            format_numbers(&pairs(&left, &right).into_iter().map(|(one, other)| compute(one, other)).collect::<Vec<_>>())
        };
        prop_assert_eq!(value(&format!("({one}) + ({other})")), each(|one, other| one + other));
        prop_assert_eq!(value(&format!("({one}) - ({other})")), each(|one, other| one - other));
        prop_assert_eq!(value(&format!("({one}) * ({other})")), each(|one, other| one * other));
        prop_assert_eq!(value(&format!("@Min({one}; {other})")), each(std::cmp::Ord::min));
        prop_assert_eq!(value(&format!("@Max({one}; {other})")), each(std::cmp::Ord::max));
        if right.iter().all(|number| *number != 0) {
            prop_assert_eq!(value(&format!("@Modulo({one}; {other})")), each(|one, other| one % other));
        }
    }

    #[test]
    fn sums_and_sorting_match_vectors(numbers in numbers()) {
        let list = number_list(&numbers);
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        let mut unique: Vec<i64> = Vec::new();
        numbers.iter().for_each(|number| if !unique.contains(number) { unique.push(*number) });
        let each = |compute: fn(i64) -> i64| format_numbers(&numbers.iter().map(|number| compute(*number)).collect::<Vec<_>>());
        prop_assert_eq!(value(&format!("@Sum({list})")), numbers.iter().sum::<i64>().to_string());
        prop_assert_eq!(value(&format!("@Min({list})")), sorted[0].to_string());
        prop_assert_eq!(value(&format!("@Max({list})")), sorted[sorted.len() - 1].to_string());
        prop_assert_eq!(value(&format!("@Sort({list})")), format_numbers(&sorted));
        sorted.reverse();
        prop_assert_eq!(value(&format!("@Sort({list}; [DESCENDING])")), format_numbers(&sorted));
        prop_assert_eq!(value(&format!("@Unique({list})")), format_numbers(&unique));
        prop_assert_eq!(value(&format!("@Abs({list})")), each(i64::abs));
        prop_assert_eq!(value(&format!("@Sign({list})")), each(i64::signum));
    }

    #[test]
    fn patterns_match_like_an_exhaustive_search(
        pieces in prop::collection::vec(piece(), 0..6),
        text in "[abcd]{0,6}",
    ) {
        let chars: Vec<char> = text.chars().collect();
        let pattern = TextPattern::parse_matches(&spell(&pieces)).expect("the pattern is well formed");
        prop_assert_eq!(pattern.matches(&text), fits(&pieces, &chars), "{} {}", spell(&pieces), text);
        let negated = TextPattern::parse_matches(&format!("!{}", spell(&pieces))).expect("the pattern is well formed");
        prop_assert_eq!(negated.matches(&text), !fits(&pieces, &chars));
        let plain: Vec<Piece> =
            pieces.into_iter().filter(|piece| !matches!(piece, Piece::Set { .. })).collect();
        let like = spell(&plain).replace('?', "_").replace('*', "%");
        let pattern = TextPattern::parse_like(&like, None).expect("the pattern is well formed");
        prop_assert_eq!(pattern.matches(&text), fits(&plain, &chars));
    }

    #[test]
    fn alternatives_and_conjunctions_combine_patterns(
        one in prop::collection::vec(piece(), 0..4),
        other in prop::collection::vec(piece(), 0..4),
        text in "[abcd]{0,5}",
    ) {
        let chars: Vec<char> = text.chars().collect();
        let combined = |sign: &str| {
            let pattern = format!("{}{sign}{}", spell(&one), spell(&other));
            TextPattern::parse_matches(&pattern).expect("the pattern is well formed").matches(&text)
        };
        prop_assert_eq!(combined("|"), fits(&one, &chars) || fits(&other, &chars));
        prop_assert_eq!(combined("&"), fits(&one, &chars) && fits(&other, &chars));
        prop_assert_eq!(combined("&!"), fits(&one, &chars) && !fits(&other, &chars));
    }

    #[test]
    fn dates_follow_the_calendar(day in day(), days in -40_000i64..40_000, months in -500i64..500) {
        let source = literal(day);
        let parts = format!("@Year({source}) : @Month({source}) : @Day({source}) : @Weekday({source})");
        let weekday = i64::from(day.weekday().to_sunday_one_offset());
        let expected = [i64::from(day.year()), i64::from(day.month()), i64::from(day.day()), weekday];
        prop_assert_eq!(value(&parts), format_numbers(&expected));
        let later = day.checked_add(jiff::Span::new().days(days)).expect("within the calendar");
        prop_assert_eq!(value(&format!("@Adjust({source}; 0; 0; {days}; 0; 0; 0)")), literal(later));
        prop_assert_eq!(value(&format!("({} - {source}) / 86400", literal(later))), days.to_string());
        let month = i64::from(day.year()) * 12 + i64::from(day.month()) - 1 + months;
        let expected = date(month.div_euclid(12) as i16, month.rem_euclid(12) as i8 + 1, day.day());
        prop_assert_eq!(value(&format!("@Adjust({source}; 0; {months}; 0; 0; 0; 0)")), literal(expected));
        let constructed = format!("@Date({}; {}; {})", day.year(), day.month(), day.day());
        prop_assert_eq!(value(&constructed), literal(day));
    }

    #[test]
    fn business_days_are_the_days_that_are_not_excluded(from in day(), length in 0i64..60, excluded in 1i64..=7) {
        let to = from.checked_add(jiff::Span::new().days(length)).expect("within the calendar");
        let days = (0..=length).filter(|day| {
            let day = from.checked_add(jiff::Span::new().days(*day)).expect("within the calendar");
            i64::from(day.weekday().to_sunday_one_offset()) != excluded
        });
        let formula = format!("@BusinessDays({}; {}; {excluded})", literal(from), literal(to));
        prop_assert_eq!(value(&formula), days.count().to_string());
    }

    #[test]
    fn amounts_are_grouped_by_thousands(number in -1_000_000_000i64..1_000_000_000) {
        let mut expected = String::new();
        let digits = number.unsigned_abs().to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index) % 3 == 0 {
                expected.push(',');
            }
            expected.push(digit);
        }
        let sign = if number < 0 { "-" } else { "" };
        prop_assert_eq!(value(&format!("@Text({number}; \"F,0\")")), format!("\"{sign}{expected}\""));
        prop_assert_eq!(value(&format!("@TextToNumber(\"{sign}{expected}\")")), number.to_string());
    }

    #[test]
    fn encoded_texts_round_trip(text in "[a-z %+&é\\u{1F600}-]{0,12}") {
        let formula = format!("@URLDecode(\"UTF-8\"; @URLEncode(\"UTF-8\"; {text:?}))");
        prop_assert_eq!(value(&formula), format!("{text:?}"));
        let encoded = value(&format!("@URLEncode(\"UTF-8\"; {text:?})"));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~%".contains(&byte);
        prop_assert!(encoded.trim_matches('"').bytes().all(is_plain));
    }
}
