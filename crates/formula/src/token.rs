//! The tokens of a formula.

use crate::source::Span;

/// A token and its position.
#[derive(Clone, PartialEq, Debug)]
pub struct Token {
    /// The kind.
    pub kind: TokenKind,
    /// The position.
    pub span: Span,
}

/// The kinds of tokens.
#[derive(Clone, PartialEq, Debug)]
pub enum TokenKind {
    /// A number.
    Number(f64),
    /// A text, without its quotes and escapes.
    Text(String),
    /// The content of brackets where an operand is expected.
    Bracketed(String),
    /// The name of an item or temporary.
    Name(String),
    /// The name of a function, including its `@`.
    Function(String),
    /// A reserved word such as `SELECT` or `FIELD`.
    Word(ReservedWord),
    /// An operator of rank 4 to 6 or 8.
    Operator(Operator),
    /// `!`.
    Not,
    /// `:`.
    Colon,
    /// `:=`.
    Assign,
    /// `;`.
    Semicolon,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `[` of a subscript.
    OpenSubscript,
    /// `]`.
    CloseSubscript,
    /// The end of the formula.
    End,
}

impl TokenKind {
    /// Returns `true` if a `[` after this token opens a subscript.
    #[must_use]
    pub fn ends_operand(&self) -> bool {
        matches!(
            self,
            Self::Number(_)
                | Self::Text(_)
                | Self::Bracketed(_)
                | Self::Name(_)
                | Self::Function(_)
                | Self::Close
                | Self::CloseSubscript
        )
    }

    /// Returns a description of the token for an error message.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Number(number) => format!("the number {number}"),
            Self::Text(_) => "a text".to_owned(),
            Self::Bracketed(text) => format!("[{text}]"),
            Self::Name(name) | Self::Function(name) => name.clone(),
            Self::Word(word) => word.text().to_owned(),
            Self::Operator(operator) => operator.text(),
            Self::Not => "!".to_owned(),
            Self::Colon => ":".to_owned(),
            Self::Assign => ":=".to_owned(),
            Self::Semicolon => ";".to_owned(),
            Self::Open => "(".to_owned(),
            Self::Close => ")".to_owned(),
            Self::OpenSubscript => "[".to_owned(),
            Self::CloseSubscript => "]".to_owned(),
            Self::End => "the end of the formula".to_owned(),
        }
    }
}

/// Reserved words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReservedWord {
    /// Selects documents.
    Select,
    /// Sets a field.
    Field,
    /// Sets a value that replaces a missing field.
    Default,
    /// Sets an environment setting.
    Environment,
    /// Begins a remark.
    Rem,
}

impl ReservedWord {
    const ALL: [Self; 5] = [Self::Select, Self::Field, Self::Default, Self::Environment, Self::Rem];

    /// Returns the spelling of the word.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::Field => "FIELD",
            Self::Default => "DEFAULT",
            Self::Environment => "ENVIRONMENT",
            Self::Rem => "REM",
        }
    }

    /// Returns the reserved word with a name. ASCII case is ignored.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.text().eq_ignore_ascii_case(name))
    }
}

/// A binary operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operator {
    /// The operation on two elements.
    pub operation: Operation,
    /// `true` if every element is combined with every other one, instead of pairwise.
    pub permuted: bool,
}

/// The operation of an operator on two elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// `*`.
    Multiply,
    /// `/`.
    Divide,
    /// `+`.
    Add,
    /// `-`.
    Subtract,
    /// `=`.
    Equal,
    /// `<>`.
    NotEqual,
    /// `<`.
    Less,
    /// `>`.
    Greater,
    /// `<=`.
    LessOrEqual,
    /// `>=`.
    GreaterOrEqual,
    /// `&`.
    And,
    /// `|`.
    Or,
}

/// The spellings of operators. A spelling precedes its own prefixes.
const OPERATOR_SPELLINGS: [(&str, Operation, bool); 26] = [
    ("*<>", Operation::NotEqual, true),
    ("*!=", Operation::NotEqual, true),
    ("*<=", Operation::LessOrEqual, true),
    ("*>=", Operation::GreaterOrEqual, true),
    ("**", Operation::Multiply, true),
    ("*/", Operation::Divide, true),
    ("*+", Operation::Add, true),
    ("*-", Operation::Subtract, true),
    ("*=", Operation::Equal, true),
    ("*<", Operation::Less, true),
    ("*>", Operation::Greater, true),
    ("<>", Operation::NotEqual, false),
    ("!=", Operation::NotEqual, false),
    ("=!", Operation::NotEqual, false),
    ("><", Operation::NotEqual, false),
    ("<=", Operation::LessOrEqual, false),
    (">=", Operation::GreaterOrEqual, false),
    ("*", Operation::Multiply, false),
    ("/", Operation::Divide, false),
    ("+", Operation::Add, false),
    ("-", Operation::Subtract, false),
    ("=", Operation::Equal, false),
    ("<", Operation::Less, false),
    (">", Operation::Greater, false),
    ("&", Operation::And, false),
    ("|", Operation::Or, false),
];

impl Operator {
    /// Returns the longest operator at the beginning of a text, and its length.
    #[must_use]
    pub fn lex(text: &str) -> Option<(Self, usize)> {
        let (spelling, act, permuted) = OPERATOR_SPELLINGS.iter().find(|(spelling, ..)| text.starts_with(spelling))?;
        Some((Self { operation: *act, permuted: *permuted }, spelling.len()))
    }

    /// Returns the spelling of the operator.
    #[must_use]
    pub fn text(self) -> String {
        let found =
            OPERATOR_SPELLINGS.iter().find(|(_, act, permuted)| *act == self.operation && *permuted == self.permuted);
        found.map_or_else(String::new, |(spelling, ..)| (*spelling).to_owned())
    }

    /// Returns the rank: 4 binds tightest, 8 loosest.
    #[must_use]
    pub fn rank(self) -> u8 {
        match self.operation {
            Operation::Multiply | Operation::Divide => 4,
            Operation::Add | Operation::Subtract => 5,
            Operation::And | Operation::Or => 8,
            _ => 6,
        }
    }
}
