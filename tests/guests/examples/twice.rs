//! An application with a route that is there twice: its parameter has another name.

use std::sync::LazyLock;

use modelhost_guest::app::{Path, Router};
use modelhost_guest::{Handler, export};

struct App;

static ROUTES: LazyLock<Router<App>> = LazyLock::new(|| {
    let item = |_: &mut App, Path(item): Path<String>| item;
    Router::new().get("/items/{id}", item).post("/items/{id}", item).get("/items/{name}", item)
});

impl Handler for App {
    fn new() -> Self {
        App
    }

    fn router() -> Option<&'static Router<App>> {
        Some(&ROUTES)
    }
}

export!(App: respond);
