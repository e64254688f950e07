//! The printer: writes a syntax tree as a formula that parses to the same tree.
//!
//! Parentheses are written only where the ranks of operators require them. Operators are surrounded by spaces, so that
//! no operator merges with the next one.

use std::fmt::Write as _;

use crate::token::ReservedWord;
use crate::tree::{AssignmentTarget, Expression, ExpressionKind, Statement};
use crate::value::Value;

/// Prints a formula.
#[must_use]
pub fn print(statements: &[Statement]) -> String {
    let printed: Vec<String> = statements.iter().map(print_statement).collect();
    printed.join("; ")
}

fn print_statement(statement: &Statement) -> String {
    let mut out = String::new();
    match statement {
        Statement::Remark(text) => {
            out.push_str(ReservedWord::Rem.text());
            out.push(' ');
            print_quoted(&mut out, text);
        }
        Statement::Select(selection) => {
            out.push_str(ReservedWord::Select.text());
            out.push(' ');
            print_with_parentheses(&mut out, selection, RANK_LOGICAL);
        }
        Statement::Plain(plain) => print_expression(&mut out, plain),
    }
    out
}

/// The rank of `&` and `|`. At this rank, everything except an assignment is printed without parentheses.
const RANK_LOGICAL: u8 = 8;
const ASSIGNMENT: u8 = 9;
const NOT: u8 = 7;
const SIGN: u8 = 3;
const LIST: u8 = 2;
const SUBSCRIPT: u8 = 1;

fn rank(kind: &ExpressionKind) -> u8 {
    match kind {
        ExpressionKind::Constant(_)
        | ExpressionKind::Bracketed(_)
        | ExpressionKind::Name(_)
        | ExpressionKind::Call(..) => 0,
        ExpressionKind::Subscript(..) => SUBSCRIPT,
        ExpressionKind::List(_) => LIST,
        ExpressionKind::Negate(_) | ExpressionKind::Plus(_) => SIGN,
        ExpressionKind::Chain(_, rest) => rest.first().map_or(0, |(operator, _)| operator.rank()),
        ExpressionKind::Not(_) => NOT,
        ExpressionKind::Assign(..) => ASSIGNMENT,
    }
}

/// Prints an expression, in parentheses if its rank is above `loosest`.
fn print_with_parentheses(out: &mut String, inner: &Expression, loosest: u8) {
    if rank(&inner.kind) <= loosest {
        print_expression(out, inner);
    } else {
        out.push('(');
        print_expression(out, inner);
        out.push(')');
    }
}

fn print_expression(out: &mut String, expression: &Expression) {
    match &expression.kind {
        ExpressionKind::Constant(value) => print_constant(out, value),
        ExpressionKind::Bracketed(text) => {
            let _ = write!(out, "[{text}]");
        }
        ExpressionKind::Name(name) => out.push_str(name),
        ExpressionKind::List(elements) => print_list(out, elements),
        ExpressionKind::Negate(operand) => print_signed(out, '-', operand),
        ExpressionKind::Plus(operand) => print_signed(out, '+', operand),
        ExpressionKind::Not(operand) => {
            out.push('!');
            print_with_parentheses(out, operand, NOT);
        }
        ExpressionKind::Chain(first, rest) => {
            let own = rank(&expression.kind);
            print_with_parentheses(out, first, own - 1);
            for (operator, operand) in rest {
                let _ = write!(out, " {} ", operator.text());
                print_with_parentheses(out, operand, own - 1);
            }
        }
        ExpressionKind::Subscript(operand, indexes) => {
            print_with_parentheses(out, operand, 0);
            for index in indexes {
                out.push('[');
                print_expression(out, index);
                out.push(']');
            }
        }
        ExpressionKind::Call(function, arguments) => print_call(out, function.name, arguments),
        ExpressionKind::Assign(target, name, value) => print_assignment(out, *target, name, value),
    }
}

fn print_signed(out: &mut String, sign: char, operand: &Expression) {
    out.push(sign);
    print_with_parentheses(out, operand, SIGN);
}

/// Prints a list. An element after a colon may have a sign, but its operand has none.
fn print_list(out: &mut String, elements: &[Expression]) {
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push_str(" : ");
        }
        match &element.kind {
            ExpressionKind::Negate(operand) | ExpressionKind::Plus(operand) if index > 0 => {
                out.push(if matches!(element.kind, ExpressionKind::Plus(_)) { '+' } else { '-' });
                print_with_parentheses(out, operand, SUBSCRIPT);
            }
            _ => print_with_parentheses(out, element, SUBSCRIPT),
        }
    }
}

fn print_call(out: &mut String, name: &str, arguments: &[Expression]) {
    out.push_str(name);
    for (index, argument) in arguments.iter().enumerate() {
        out.push_str(if index == 0 { "(" } else { "; " });
        print_expression(out, argument);
    }
    if !arguments.is_empty() {
        out.push(')');
    }
}

fn print_assignment(out: &mut String, target: AssignmentTarget, name: &str, value: &Expression) {
    let word = match target {
        AssignmentTarget::Temporary => "",
        AssignmentTarget::Field => "FIELD ",
        AssignmentTarget::Default => "DEFAULT ",
        AssignmentTarget::Environment => "ENVIRONMENT ",
    };
    let _ = write!(out, "{word}{name} := ");
    print_expression(out, value);
}

fn print_constant(out: &mut String, value: &Value<'_>) {
    match value {
        Value::Number(number) => {
            let _ = write!(out, "{number}");
        }
        value => print_quoted(out, value.text().map_or("", |text| text.as_str())),
    }
}

fn print_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}
