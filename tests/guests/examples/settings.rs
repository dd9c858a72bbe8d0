//! Answers with what each draft of `wasi:config` says of the names that the body lists.

use modelhost_guest::{Context, Error, Handler, Response, Result, Sample, Tensor, export};

struct Settings;

export!(Settings: pre_inference);

impl Handler for Settings {
    fn new() -> Self {
        Settings
    }

    fn pre_inference(&mut self, sample: Sample, _: &Context) -> Result<Vec<Tensor>> {
        let names: Vec<String> = sample.json()?;
        Err(Error::Respond(Response::json(&drafts::answers(&names))?))
    }
}

#[cfg(target_family = "wasm")]
mod drafts {
    use serde_json::{Value, json};

    mod bindings {
        #![allow(missing_docs, unsafe_code, clippy::pedantic, reason = "generated")]

        wit_bindgen::generate!({
            inline: "
                package tests:settings;

                world settings {
                    import wasi:config/store@0.2.0-rc.1;
                    import wasi:config/runtime@0.2.0-draft;
                }

                package wasi:config@0.2.0-rc.1 {
                    interface store {
                        variant error { upstream(string), io(string) }
                        get: func(key: string) -> result<option<string>, error>;
                        get-all: func() -> result<list<tuple<string, string>>, error>;
                    }
                }

                package wasi:config@0.2.0-draft {
                    interface runtime {
                        variant config-error { upstream(string), io(string) }
                        get: func(key: string) -> result<option<string>, config-error>;
                        get-all: func() -> result<list<tuple<string, string>>, config-error>;
                    }
                }
            ",
            generate_all,
        });
    }

    use bindings::wasi::{config0_2_0_draft, config0_2_0_rc_1};

    pub fn answers(names: &[String]) -> Value {
        let store = |name: &String| config0_2_0_rc_1::store::get(name).ok().flatten();
        let runtime = |name: &String| config0_2_0_draft::runtime::get(name).ok().flatten();
        json!({
            "store": names.iter().map(store).collect::<Vec<_>>(),
            "runtime": names.iter().map(runtime).collect::<Vec<_>>(),
            "store, all": config0_2_0_rc_1::store::get_all().ok(),
            "runtime, all": config0_2_0_draft::runtime::get_all().ok(),
        })
    }
}

#[cfg(not(target_family = "wasm"))]
mod drafts {
    pub fn answers(_: &[String]) -> serde_json::Value {
        serde_json::Value::Null
    }
}
