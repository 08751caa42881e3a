//! Splits an `async` function into its parts.

use crate::expand::Error;
use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// An `async` function without generics.
pub(crate) struct Function {
    /// The attributes and the visibility, which belong to the outer function.
    pub(crate) head: Vec<TokenTree>,
    pub(crate) name: Ident,
    pub(crate) parameters: Group,
    /// The arrow and the type. There are no tokens if the function has no return type.
    pub(crate) output: Vec<TokenTree>,
    pub(crate) body: Group,
}

impl Function {
    /// Splits the item below an attribute. `attribute` is the name that errors mention.
    pub(crate) fn parse(item: TokenStream, attribute: &str) -> Result<Function, Error> {
        let needs = |span| Error::new(span, format!("#[{attribute}] needs an `async fn`"));
        let mut tokens = item.into_iter().peekable();
        let mut head = Vec::new();
        // Only attributes and the visibility may come before `async`. Anything else means that the
        // item is not an `async fn`.
        loop {
            match tokens.next() {
                Some(TokenTree::Ident(word)) => match word.to_string().as_str() {
                    "async" => break,
                    "pub" | "crate" => head.push(word.into()),
                    _ => return Err(needs(word.span())),
                },
                Some(other) => head.push(other),
                None => return Err(needs(Span::call_site())),
            }
        }
        match tokens.next() {
            Some(TokenTree::Ident(word)) if word.to_string() == "fn" => {}
            other => return Err(needs(span(other.as_ref()))),
        }
        let name = match tokens.next() {
            Some(TokenTree::Ident(name)) => name,
            other => return Err(needs(span(other.as_ref()))),
        };
        let parameters = match tokens.next() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => group,
            other => {
                let message = format!("#[{attribute}] needs a function without generics");
                return Err(Error::new(span(other.as_ref()), message));
            }
        };
        let mut output: Vec<TokenTree> = tokens.collect();
        let body = match output.pop() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => group,
            other => {
                let message = format!("#[{attribute}] needs a function with a body");
                return Err(Error::new(span(other.as_ref()), message));
            }
        };
        Ok(Function {
            head,
            name,
            parameters,
            output,
            body,
        })
    }

    /// Returns the place of an attribute with this name, such as `test`, if there is one.
    pub(crate) fn attribute(&self, name: &str) -> Option<Span> {
        self.head.iter().find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                (group.stream().to_string() == name).then(|| group.span())
            }
            _ => None,
        })
    }
}

fn span(token: Option<&TokenTree>) -> Span {
    token.map_or_else(Span::call_site, TokenTree::span)
}
