//! Parses the options of an attribute: `NAME`, or `NAME = VALUE`, separated by commas.

use crate::expand::Error;
use proc_macro::{Ident, TokenStream, TokenTree};

/// One option.
pub(crate) struct Setting {
    pub(crate) name: Ident,
    /// The tokens after the `=`. There are no tokens if the option has no value.
    pub(crate) value: TokenStream,
}

/// The methods of `PoolBuilder` that are options.
const METHODS: [&str; 8] = [
    "name",
    "workers",
    "placement",
    "stack_size",
    "wait",
    "balance",
    "clock",
    "observe",
];

/// The options of an attribute.
#[derive(Default)]
pub(crate) struct Options {
    /// The settings of the builder, in the order of the program.
    pub(crate) methods: Vec<Setting>,
    pub(crate) seed: Option<Setting>,
    pub(crate) manual_clock: Option<Ident>,
    /// The path of the crate `creel`, if it is not `::creel`.
    pub(crate) path: Option<TokenStream>,
}

impl Options {
    /// Parses the options. Those that only tests have are allowed if `is_test`.
    pub(crate) fn parse(tokens: TokenStream, is_test: bool) -> Result<Options, Error> {
        let mut options = Options::default();
        let mut seen: Vec<String> = Vec::new();
        for setting in settings(tokens)? {
            let (name, span) = (setting.name.to_string(), setting.name.span());
            if seen.contains(&name) {
                return Err(Error::new(span, format!("the option `{name}` is repeated")));
            }
            let is_flag = name == "manual_clock";
            let known = METHODS.contains(&name.as_str())
                || name == "crate"
                || (is_test && (is_flag || name == "seed"));
            if !known {
                let own = if is_test { ", seed, manual_clock" } else { "" };
                let all = METHODS.join(", ");
                let message = format!("unknown option `{name}`: expected one of {all}, crate{own}");
                return Err(Error::new(span, message));
            }
            if is_flag != setting.value.is_empty() {
                let message = match is_flag {
                    true => format!("the option `{name}` has no value"),
                    false => format!("the option `{name}` needs a value: `{name} = VALUE`"),
                };
                return Err(Error::new(span, message));
            }
            match name.as_str() {
                "seed" => options.seed = Some(setting),
                "manual_clock" => options.manual_clock = Some(setting.name),
                "crate" => options.path = Some(setting.value),
                _ => options.methods.push(setting),
            }
            seen.push(name);
        }
        options.check()?;
        Ok(options)
    }

    /// Returns an error if two options contradict each other.
    fn check(&self) -> Result<(), Error> {
        if let Some(seed) = &self.seed {
            let other = self.manual_clock.as_ref();
            let other = other.or(self.methods.first().map(|setting| &setting.name));
            if let Some(other) = other {
                let message = format!(
                    "`seed` cannot be combined with `{other}`: a seeded pool has one worker, no \
                     thread, and a clock of its own"
                );
                return Err(Error::new(seed.name.span(), message));
            }
        }
        let of_clock = |setting: &&Setting| setting.name.to_string() == "clock";
        match (&self.manual_clock, self.methods.iter().find(of_clock)) {
            (Some(_), Some(clock)) => {
                let message = "`manual_clock` already sets the clock";
                Err(Error::new(clock.name.span(), message.into()))
            }
            _ => Ok(()),
        }
    }
}

/// Splits the tokens at the commas.
fn settings(tokens: TokenStream) -> Result<Vec<Setting>, Error> {
    let mut settings = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(first) = tokens.next() {
        let TokenTree::Ident(name) = first else {
            let message = format!("expected the name of an option, found `{first}`");
            return Err(Error::new(first.span(), message));
        };
        let mut value = Vec::new();
        let mut begins = true;
        for token in tokens.by_ref() {
            match &token {
                TokenTree::Punct(punct) if punct.as_char() == ',' => break,
                TokenTree::Punct(punct) if begins && punct.as_char() == '=' => {}
                _ if begins => {
                    let message = format!("expected `=` after `{name}`, found `{token}`");
                    return Err(Error::new(token.span(), message));
                }
                _ => value.push(token),
            }
            begins = false;
        }
        let value = value.into_iter().collect();
        settings.push(Setting { name, value });
    }
    Ok(settings)
}
