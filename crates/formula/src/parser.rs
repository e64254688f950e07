//! The parser: translates tokens into a syntax tree by recursive descent, with one function for each operator rank (see
//! the table of operators in `docs/formula.md`).

use crate::error::{CompileError, CompileErrorKind};
use crate::functions::{self, Function};
use crate::lexer::lex;
use crate::limits::{ARGUMENTS_MAX, DEPTH_MAX};
use crate::source::Span;
use crate::token::{Operation, ReservedWord, Token, TokenKind};
use crate::tree::{AssignmentTarget, Expression, ExpressionKind, Statement};
use crate::value::Value;

/// Parses a formula.
pub fn parse(source: &str) -> Result<Vec<Statement>, CompileError> {
    let tokens = lex(source)?;
    let mut parser = Parser { source, tokens, position: 0, depth: 0 };
    let statements = parser.parse_formula()?;
    if statements.is_empty() {
        return Err(parser.error(CompileErrorKind::Empty));
    }
    Ok(statements)
}

type ParseResult<T = Expression> = Result<T, CompileError>;

struct Parser<'s> {
    source: &'s str,
    /// The tokens. The last one is the end token, and the position never moves beyond it.
    tokens: Vec<Token>,
    position: usize,
    depth: usize,
}

impl Parser<'_> {
    fn parse_formula(&mut self) -> ParseResult<Vec<Statement>> {
        let mut statements = Vec::new();
        loop {
            while self.take(&TokenKind::Semicolon) {}
            if *self.peek() == TokenKind::End {
                return Ok(statements);
            }
            let statement = self.parse_top_statement(&statements)?;
            statements.push(statement);
            if *self.peek() != TokenKind::End {
                self.expect(&TokenKind::Semicolon, "An operator or semicolon")?;
            }
        }
    }

    fn parse_top_statement(&mut self, before: &[Statement]) -> ParseResult<Statement> {
        match self.peek() {
            TokenKind::Word(ReservedWord::Rem) => {
                self.advance();
                self.parse_remark()
            }
            TokenKind::Word(ReservedWord::Select) => {
                if before.iter().any(|statement| matches!(statement, Statement::Select(_))) {
                    return Err(self.error(CompileErrorKind::SecondSelect));
                }
                self.advance();
                self.parse_logical().map(Statement::Select)
            }
            _ => self.parse_statement().map(Statement::Plain),
        }
    }

    /// Parses the text of a remark. The text is optional and may be enclosed in parentheses.
    fn parse_remark(&mut self) -> ParseResult<Statement> {
        if matches!(self.peek(), TokenKind::Semicolon | TokenKind::End) {
            return Ok(Statement::Remark(String::new()));
        }
        let mut opened = 0;
        while self.take(&TokenKind::Open) {
            opened += 1;
        }
        let TokenKind::Text(text) = self.peek().clone() else {
            return Err(self.expected("REM must be followed by a quoted string containing the remark: a text"));
        };
        self.advance();
        for _ in 0..opened {
            self.expect(&TokenKind::Close, "A right parenthesis")?;
        }
        Ok(Statement::Remark(text))
    }

    /// Parses an assignment or an expression.
    fn parse_statement(&mut self) -> ParseResult {
        let start = self.span();
        let target = match self.peek() {
            TokenKind::Word(ReservedWord::Field) => AssignmentTarget::Field,
            TokenKind::Word(ReservedWord::Default) => AssignmentTarget::Default,
            TokenKind::Word(ReservedWord::Environment) => AssignmentTarget::Environment,
            TokenKind::Word(word @ (ReservedWord::Select | ReservedWord::Rem)) => {
                return Err(self.error(CompileErrorKind::StatementInExpression(word.text())));
            }
            TokenKind::Name(_) if self.peek_second() == Some(&TokenKind::Assign) => AssignmentTarget::Temporary,
            _ => return self.parse_logical(),
        };
        if target != AssignmentTarget::Temporary {
            self.advance();
        }
        let TokenKind::Name(name) = self.peek().clone() else {
            return Err(self.expected("FIELD must be followed by a variable name and :=; a name"));
        };
        self.advance();
        self.expect(&TokenKind::Assign, ":=")?;
        let value = self.parse_nested(Self::parse_statement)?;
        let span = start.to(value.span);
        Ok(Expression { kind: ExpressionKind::Assign(target, name, Box::new(value)), span })
    }

    /// Parses the operators of rank 8.
    fn parse_logical(&mut self) -> ParseResult {
        self.parse_chain(8, Self::parse_not_operand)
    }

    /// Parses the operator of rank 7.
    fn parse_not_operand(&mut self) -> ParseResult {
        let start = self.span();
        let mut count = 0;
        while self.take(&TokenKind::Not) {
            count += 1;
        }
        if self.depth + count > DEPTH_MAX {
            return Err(self.too_deep());
        }
        self.depth += count;
        let operand = self.parse_chain(6, |parser| {
            parser.parse_chain(5, |parser| parser.parse_chain(4, Self::parse_signed_operand))
        })?;
        self.depth -= count;
        let span = start.to(operand.span);
        Ok((0..count).fold(operand, |inner, _| Expression { kind: ExpressionKind::Not(Box::new(inner)), span }))
    }

    /// Parses operands separated by operators of one rank.
    fn parse_chain(&mut self, rank: u8, operand: impl Fn(&mut Self) -> ParseResult) -> ParseResult {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let TokenKind::Operator(operator) = *self.peek()
            && operator.rank() == rank
        {
            self.advance();
            rest.push((operator, operand(self)?));
        }
        let Some((_, last)) = rest.last() else { return Ok(first) };
        let span = first.span.to(last.span);
        Ok(Expression { kind: ExpressionKind::Chain(Box::new(first), rest), span })
    }

    /// Parses the signs of rank 3.
    fn parse_signed_operand(&mut self) -> ParseResult {
        let start = self.span();
        match self.peek_sign() {
            None => self.parse_list(),
            Some(wrap) => {
                self.advance();
                let operand = self.parse_nested(Self::parse_signed_operand)?;
                Ok(wrapped(operand, start, wrap))
            }
        }
    }

    fn peek_sign(&self) -> Option<fn(Box<Expression>) -> ExpressionKind> {
        let TokenKind::Operator(operator) = self.peek() else { return None };
        match (operator.operation, operator.permuted) {
            (Operation::Add, false) => Some(ExpressionKind::Plus),
            (Operation::Subtract, false) => Some(ExpressionKind::Negate),
            _ => None,
        }
    }

    /// Parses a list, rank 2. An element after a colon may have its own sign.
    fn parse_list(&mut self) -> ParseResult {
        let first = self.parse_subscript_operand()?;
        let mut elements = vec![first];
        while self.take(&TokenKind::Colon) {
            let start = self.span();
            elements.push(match self.peek_sign() {
                None => self.parse_subscript_operand()?,
                Some(wrap) => {
                    self.advance();
                    wrapped(self.parse_subscript_operand()?, start, wrap)
                }
            });
        }
        let last = elements.pop().expect("the first element was pushed above");
        if elements.is_empty() {
            return Ok(last);
        }
        let span = elements[0].span.to(last.span);
        elements.push(last);
        Ok(Expression { kind: ExpressionKind::List(elements), span })
    }

    /// Parses subscripts, rank 1.
    fn parse_subscript_operand(&mut self) -> ParseResult {
        let operand = self.parse_operand()?;
        let mut indexes = Vec::new();
        let mut span = operand.span;
        while self.take(&TokenKind::OpenSubscript) {
            indexes.push(self.parse_nested(Self::parse_statement)?);
            span = span.to(self.span());
            self.expect(&TokenKind::CloseSubscript, "]")?;
        }
        if indexes.is_empty() {
            return Ok(operand);
        }
        Ok(Expression { kind: ExpressionKind::Subscript(Box::new(operand), indexes), span })
    }

    fn parse_operand(&mut self) -> ParseResult {
        let span = self.span();
        let kind = match self.peek().clone() {
            TokenKind::Number(number) => ExpressionKind::Constant(Value::Number(number)),
            TokenKind::Text(text) => ExpressionKind::Constant(Value::from(text)),
            TokenKind::Bracketed(text) => ExpressionKind::Bracketed(text),
            // An assignment within an expression extends as far to the right as possible. It costs the nesting level of
            // the parentheses in which it is printed.
            TokenKind::Name(_) if self.peek_second() == Some(&TokenKind::Assign) => {
                return self.parse_nested(Self::parse_statement);
            }
            TokenKind::Word(ReservedWord::Field) => return self.parse_nested(Self::parse_statement),
            TokenKind::Name(name) => ExpressionKind::Name(name),
            TokenKind::Function(name) => return self.parse_call(&name),
            TokenKind::Open => {
                self.advance();
                let inside = self.parse_nested(Self::parse_statement)?;
                self.expect(&TokenKind::Close, "A right parenthesis")?;
                return Ok(inside);
            }
            TokenKind::Word(word) => return Err(self.error(CompileErrorKind::StatementInExpression(word.text()))),
            _ => return Err(self.expected("A value")),
        };
        self.advance();
        Ok(Expression { kind, span })
    }

    fn parse_call(&mut self, name: &str) -> ParseResult {
        let start = self.span();
        let Some(function) = functions::find(name) else {
            return Err(self.error(functions::unknown_function_reason(name)));
        };
        self.advance();
        let mut arguments = Vec::new();
        let mut end = start;
        if self.take(&TokenKind::Open) {
            arguments = self.parse_nested(Self::parse_arguments)?;
            end = self.span();
            self.expect(&TokenKind::Close, "A right parenthesis")?;
        }
        let span = start.to(end);
        self.check_count(function, arguments.len(), span)?;
        Ok(Expression { kind: ExpressionKind::Call(function, arguments), span })
    }

    fn parse_arguments(&mut self) -> ParseResult<Vec<Expression>> {
        let mut arguments = Vec::new();
        if *self.peek() == TokenKind::Close {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.parse_statement()?);
            if arguments.len() > ARGUMENTS_MAX {
                return Err(self.error(CompileErrorKind::Limit { what: "arguments", max: ARGUMENTS_MAX }));
            }
            if !self.take(&TokenKind::Semicolon) {
                return Ok(arguments);
            }
        }
    }

    fn check_count(&self, function: &'static Function, count: usize, span: Span) -> ParseResult<()> {
        if function.takes(count) {
            return Ok(());
        }
        let reason = CompileErrorKind::Arguments { name: function.name, wanted: function.arguments_in_words(), count };
        Err(CompileError::new(self.source, span, reason))
    }

    /// Runs a parse function one nesting level deeper.
    fn parse_nested<T>(&mut self, inside: impl Fn(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    fn peek(&self) -> &TokenKind {
        &self.tokens[self.position].kind
    }

    fn peek_second(&self) -> Option<&TokenKind> {
        self.tokens.get(self.position + 1).map(|token| &token.kind)
    }

    fn span(&self) -> Span {
        self.tokens[self.position].span
    }

    fn advance(&mut self) {
        self.position = (self.position + 1).min(self.tokens.len() - 1);
    }

    fn take(&mut self, kind: &TokenKind) -> bool {
        let there = self.peek() == kind;
        if there {
            self.advance();
        }
        there
    }

    fn expect(&mut self, kind: &TokenKind, expected: &'static str) -> ParseResult<()> {
        if self.take(kind) { Ok(()) } else { Err(self.expected(expected)) }
    }

    fn error(&self, reason: CompileErrorKind) -> CompileError {
        CompileError::new(self.source, self.span(), reason)
    }

    fn expected(&self, expected: &'static str) -> CompileError {
        self.error(CompileErrorKind::Expected { expected, found: self.peek().describe() })
    }

    fn too_deep(&self) -> CompileError {
        self.error(CompileErrorKind::Limit { what: "nesting", max: DEPTH_MAX })
    }
}

fn wrapped(operand: Expression, start: Span, wrap: fn(Box<Expression>) -> ExpressionKind) -> Expression {
    let span = start.to(operand.span);
    Expression { kind: wrap(Box::new(operand)), span }
}
