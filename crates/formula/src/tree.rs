//! A formula as a tree.
//!
//! Operators of one rank form one flat chain and the elements of a list one row, so that the depth of a tree is that of its
//! parentheses and calls, which the parser limits. Everything that walks a tree may therefore recurse.

use crate::functions::Function;
use crate::source::Span;
use crate::token::Operator;
use crate::value::Value;

/// A statement at the top.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// A remark.
    Remark(String),
    /// `SELECT expression`.
    Select(Expression),
    /// Anything else.
    Plain(Expression),
}

/// An expression and where it stands.
#[derive(Clone, Debug)]
pub struct Expression {
    /// What it is.
    pub kind: Kind,
    /// Where it stands.
    pub span: Span,
}

impl PartialEq for Expression {
    /// Two expressions are equal when they mean the same, wherever they stand.
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A value that is known; times keep their spelling.
    Constant(Value<'static>),
    /// `[...]` that is a time or keyword, as it was written.
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
    /// `name := a` and the like.
    Assign(Target, String, Box<Expression>),
}

/// What an assignment changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A temporary.
    Temporary,
    /// A field of the document.
    Field,
    /// What stands in for a missing field.
    Default,
    /// A setting of the environment.
    Environment,
}

impl Expression {
    /// Calls `visit` for this and everything within.
    pub fn walk(&self, visit: &mut impl FnMut(&Self)) {
        visit(self);
        match &self.kind {
            Kind::Constant(_) | Kind::Bracketed(_) | Kind::Name(_) => {}
            Kind::List(all) | Kind::Call(_, all) => all.iter().for_each(|one| one.walk(visit)),
            Kind::Negate(one) | Kind::Plus(one) | Kind::Not(one) | Kind::Assign(_, _, one) => one.walk(visit),
            Kind::Chain(first, rest) => {
                first.walk(visit);
                rest.iter().for_each(|(_, one)| one.walk(visit));
            }
            Kind::Subscript(list, indexes) => {
                list.walk(visit);
                indexes.iter().for_each(|index| index.walk(visit));
            }
        }
    }
}
