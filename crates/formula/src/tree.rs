//! The syntax tree of a formula.
//!
//! Operators of one rank form one flat chain, and a list keeps its elements in one node. The depth of a tree is
//! therefore the depth of its parentheses and calls, which the parser limits. Code that walks a tree may recurse.

use crate::functions::Function;
use crate::source::Span;
use crate::token::Operator;
use crate::value::Value;

/// A statement at the top level.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// A remark.
    Remark(String),
    /// `SELECT expression`.
    Select(Expression),
    /// Any other statement.
    Plain(Expression),
}

/// An expression and its position.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The kind.
    pub kind: ExpressionKind,
    /// The position.
    pub span: Span,
}

impl PartialEq for Expression {
    /// Compares the kinds of two expressions. The positions do not matter.
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpressionKind {
    /// A constant value. Times keep their spelling.
    Constant(Value<'static>),
    /// A time or keyword in brackets (`[...]`), as written.
    Bracketed(String),
    /// An item or temporary.
    Name(String),
    /// `a : b : c`.
    List(Vec<Expression>),
    /// `-a`.
    Negate(Box<Expression>),
    /// `+a`.
    Plus(Box<Expression>),
    /// `!a`.
    Not(Box<Expression>),
    /// `a + b - c`: operators of one rank, from left to right.
    Chain(Box<Expression>, Vec<(Operator, Expression)>),
    /// `a[n][m]`, from left to right.
    Subscript(Box<Expression>, Vec<Expression>),
    /// `@Function(...)`.
    Call(&'static Function, Vec<Expression>),
    /// `name := a` and the other assignments.
    Assign(AssignmentTarget, String, Box<Expression>),
}

/// The target of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignmentTarget {
    /// A temporary.
    Temporary,
    /// A field of the document.
    Field,
    /// The default value of a missing field.
    Default,
    /// An environment setting.
    Environment,
}

impl Expression {
    /// Calls `visit` for this expression and all expressions within it.
    pub fn walk(&self, visit: &mut impl FnMut(&Self)) {
        visit(self);
        match &self.kind {
            ExpressionKind::Constant(_) | ExpressionKind::Bracketed(_) | ExpressionKind::Name(_) => {}
            ExpressionKind::List(all) | ExpressionKind::Call(_, all) => all.iter().for_each(|one| one.walk(visit)),
            ExpressionKind::Negate(one)
            | ExpressionKind::Plus(one)
            | ExpressionKind::Not(one)
            | ExpressionKind::Assign(_, _, one) => one.walk(visit),
            ExpressionKind::Chain(first, rest) => {
                first.walk(visit);
                rest.iter().for_each(|(_, one)| one.walk(visit));
            }
            ExpressionKind::Subscript(list, indexes) => {
                list.walk(visit);
                indexes.iter().for_each(|index| index.walk(visit));
            }
        }
    }
}
