//! `#[handler]`: exports the functions that an `impl` of `Handler` has.
//!
//! Place in the flow: passed on by the crate `modelhost-guest`, under its own name. In: the `impl`. Out: the
//! same, with `new` where it has none, and `export!` with the functions that are there. No parser: names at
//! the top of the body are all that is asked for.

use proc_macro::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree};

/// The functions that a component can export.
const FUNCTIONS: [&str; 8] = [
    "init",
    "input_schema",
    "pre_inference",
    "post_inference",
    "pre_inference_tensors",
    "post_inference_tensors",
    "respond_all",
    "websocket",
];
/// The function of an application, which its routes stand for too.
const RESPOND: &str = "respond";
const ROUTES: &str = "router";

/// Exports a `Handler` from the component that this crate is: the functions that its `impl` has. Without
/// `new` the value is made by `Default`.
///
/// Routes, `router`, are exported as `respond`. Those that serve requests together are
/// `#[handler(respond_all)]`: nothing of the `impl` says so.
#[proc_macro_attribute]
pub fn handler(more: TokenStream, item: TokenStream) -> TokenStream {
    exported(more, item)
        .unwrap_or_else(|problem| format!("::core::compile_error!({problem:?});").parse().unwrap_or_default())
}

fn exported(more: TokenStream, item: TokenStream) -> Result<TokenStream, &'static str> {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let body = match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
        _ => return Err("`#[handler]` belongs to `impl Handler for …`"),
    };
    let handler = handler_type(&tokens).ok_or("`#[handler]` belongs to `impl Handler for …`")?;
    let written = functions(body.stream());
    let mut names: Vec<Ident> = Vec::new();
    for name in written.iter().chain(&names_of(more)?) {
        let text = name.to_string();
        let is_routed = text == ROUTES && !written.iter().any(|it| it.to_string() == RESPOND);
        if is_routed {
            names.push(Ident::new(RESPOND, name.span()));
        } else if text == RESPOND || FUNCTIONS.contains(&text.as_str()) {
            names.push(name.clone());
        }
    }
    if names.is_empty() {
        return Err("there is no function to export: write `pre_inference`, `post_inference`, `respond`, …");
    }
    let mut inner = TokenStream::new();
    if !written.iter().any(|name| name.to_string() == "new") {
        inner.extend(code("fn new() -> Self { ::core::default::Default::default() }")?);
    }
    inner.extend(body.stream());
    let mut body_with_new = Group::new(Delimiter::Brace, inner);
    body_with_new.set_span(body.span());
    let mut made: TokenStream = tokens.into_iter().collect();
    made.extend([TokenTree::Group(body_with_new)]);
    let mut arguments: TokenStream = handler.into_iter().collect();
    arguments.extend(code(":")?);
    for name in names {
        arguments.extend([TokenTree::Ident(name)]);
        arguments.extend(code(",")?);
    }
    made.extend(code("::modelhost_guest::export!")?);
    made.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))]);
    made.extend(code(";")?);
    Ok(made)
}

fn code(text: &str) -> Result<TokenStream, &'static str> {
    text.parse().map_err(|_| "this is a mistake of `#[handler]`")
}

/// The type behind the last `for` that is none of `for<'a>`.
fn handler_type(head: &[TokenTree]) -> Option<Vec<TokenTree>> {
    let at = head
        .iter()
        .rposition(|token| matches!(token, TokenTree::Ident(word) if word.to_string() == "for"))?;
    let is_end = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "where");
    let found: Vec<TokenTree> =
        head.get(at + 1..)?.iter().take_while(|token| !is_end(token)).cloned().collect();
    (!found.is_empty()).then_some(found)
}

/// The names of the functions of an `impl`.
fn functions(body: TokenStream) -> Vec<Ident> {
    let mut found = Vec::new();
    let mut is_next = false;
    for token in body {
        match token {
            TokenTree::Ident(word) if is_next => {
                found.push(word);
                is_next = false;
            }
            token => is_next = matches!(token, TokenTree::Ident(word) if word.to_string() == "fn"),
        }
    }
    found
}

/// Names, with commas between them.
fn names_of(arguments: TokenStream) -> Result<Vec<Ident>, &'static str> {
    let mut found = Vec::new();
    for token in arguments {
        match token {
            TokenTree::Ident(name) if FUNCTIONS.contains(&name.to_string().as_str()) => found.push(name),
            TokenTree::Punct(mark) if mark.as_char() == ',' && mark.spacing() == Spacing::Alone => {}
            _ => {
                return Err(
                    "`#[handler(…)]` takes names of functions that are exported besides: `respond_all`",
                );
            }
        }
    }
    Ok(found)
}
