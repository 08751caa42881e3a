//! Generates the functions.

use crate::function::Function;
use crate::options::Options;
use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// An error of the program that uses an attribute.
pub(crate) struct Error {
    span: Span,
    message: String,
}

impl Error {
    pub(crate) fn new(span: Span, message: String) -> Self {
        Error { span, message }
    }

    /// Returns a `compile_error!` that points to the place of the error.
    fn report(self) -> TokenStream {
        let text = TokenTree::Literal(Literal::string(&self.message));
        let argument = Group::new(Delimiter::Brace, text.into());
        let tokens = [
            TokenTree::Ident(Ident::new("compile_error", self.span)),
            TokenTree::Punct(Punct::new('!', Spacing::Alone)),
            TokenTree::Group(argument),
        ];
        let with_span = |mut token: TokenTree| {
            token.set_span(self.span);
            token
        };
        tokens.into_iter().map(with_span).collect()
    }
}

/// Expands `#[creel::main]`.
pub(crate) fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = Options::parse(options, false).and_then(|options| {
        let function = Function::parse(item, "creel::main")?;
        Ok(generate(&options, &function, None))
    });
    expanded.unwrap_or_else(|error| {
        // Without a `main`, the compiler would report its absence as a second error.
        let mut tokens = error.report();
        tokens.extend(parse("fn main() {}"));
        tokens
    })
}

/// Expands `#[creel::test]`.
pub(crate) fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = Options::parse(options, true).and_then(|options| {
        let function = Function::parse(item, "creel::test")?;
        if let Some(span) = function.attribute("test") {
            let message = "remove #[test], because #[creel::test] already adds it";
            return Err(Error::new(span, message.into()));
        }
        let takes_clock = !function.parameters.stream().is_empty();
        let span = function.parameters.span();
        match &options.manual_clock {
            None if takes_clock => {
                let message = "a test has no parameters, except with \
                               #[creel::test(manual_clock)], which passes its clock";
                Err(Error::new(span, message.into()))
            }
            Some(_) if !takes_clock => {
                let message = "`manual_clock` passes the clock to the test: add a parameter, for \
                               example `clock: creel::time::Clock`";
                Err(Error::new(span, message.into()))
            }
            _ => Ok(generate(&options, &function, Some(1))),
        }
    });
    expanded.unwrap_or_else(Error::report)
}

/// Generates the function that runs the `async` one. `workers` is the default number of workers of
/// a test, and `None` for a program.
fn generate(options: &Options, function: &Function, workers: Option<usize>) -> TokenStream {
    let path = options.path.clone().unwrap_or_else(|| parse("::creel"));
    let name = TokenStream::from(TokenTree::Ident(function.name.clone()));

    // A function with parameters becomes an `async` block, which takes their values from the outer
    // function. They may be patterns, so we could not pass them on by name.
    let has_parameters = workers.is_none() && !function.parameters.stream().is_empty();
    let mut body = TokenStream::new();
    if !has_parameters {
        body.extend(parse("async fn"));
        body.extend(name.clone());
        body.extend([TokenTree::Group(function.parameters.clone())]);
        body.extend(function.output.clone());
        body.extend([TokenTree::Group(function.body.clone())]);
    }

    if options.manual_clock.is_some() {
        body.extend(parse("let __clock ="));
        body.extend(path.clone());
        body.extend(parse("::time::Clock::manual();"));
    }
    body.extend(parse("let __pool ="));
    body.extend(path);
    if let Some(seed) = &options.seed {
        body.extend(parse("::Pool::seeded"));
        body.extend(parenthesized(seed.value.clone()));
    } else {
        body.extend(parse("::Pool::builder()"));
        // An option that comes later replaces this one.
        if let Some(workers) = workers {
            body.extend(parse(&format!(".workers({workers})")));
        }
        for setting in &options.methods {
            body.extend(parse("."));
            body.extend([TokenTree::Ident(setting.name.clone())]);
            body.extend(parenthesized(setting.value.clone()));
        }
        if options.manual_clock.is_some() {
            body.extend(parse(".clock(::core::clone::Clone::clone(&__clock))"));
        }
        body.extend(parse(
            ".build().unwrap_or_else(|error| match ::core::error::Error::source(&error) { \
                 ::core::option::Option::Some(cause) => \
                     ::core::panic!(\"cannot create the pool: {error}: {cause}\"), \
                 ::core::option::Option::None => \
                     ::core::panic!(\"cannot create the pool: {error}\"), \
             })",
        ));
    }
    body.extend(parse("; __pool.block_on"));
    let argument = match options.manual_clock {
        Some(_) => parse("__clock"),
        None => TokenStream::new(),
    };
    let mut future = name.clone();
    future.extend(parenthesized(argument));
    if has_parameters {
        future = parse("async move");
        future.extend([TokenTree::Group(function.body.clone())]);
    }
    body.extend(parenthesized(future));

    let mut tokens = match workers {
        Some(_) => parse("#[::core::prelude::v1::test]"),
        None => TokenStream::new(),
    };
    tokens.extend(function.head.clone());
    tokens.extend(parse("fn"));
    tokens.extend(name);
    if has_parameters {
        tokens.extend([TokenTree::Group(function.parameters.clone())]);
    } else {
        tokens.extend(parse("()"));
    }
    tokens.extend(function.output.clone());
    tokens.extend([TokenTree::Group(Group::new(Delimiter::Brace, body))]);
    tokens
}

fn parenthesized(tokens: TokenStream) -> TokenStream {
    TokenTree::Group(Group::new(Delimiter::Parenthesis, tokens)).into()
}

/// Parses Rust code. The variables in it are invisible to the program, because we give all tokens
/// the span of a definition in a `macro_rules!` macro.
fn parse(code: &str) -> TokenStream {
    let tokens: TokenStream = code.parse().expect("our own code is valid Rust");
    with_span(tokens, Span::mixed_site())
}

fn with_span(tokens: TokenStream, span: Span) -> TokenStream {
    let tokens = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) => {
            let inner = with_span(group.stream(), span);
            let mut group = Group::new(group.delimiter(), inner);
            group.set_span(span);
            TokenTree::Group(group)
        }
        mut token => {
            token.set_span(span);
            token
        }
    });
    tokens.collect()
}
