//! What is typed, and what comes out or is refused.

use clap::CommandFactory;

use super::*;

fn parsed(line: &str) -> Result<Command, clap::error::ErrorKind> {
    parse_from(line.split(' ')).map_err(|error| error.kind())
}

fn given(flags: &[(&Setting, &[&str])]) -> Overrides {
    let mut overrides = Overrides::default();
    for (wanted, values) in flags {
        let setting = settings::ALL.iter().find(|setting| setting.flag == wanted.flag).unwrap();
        overrides.set(setting, values.iter().map(|value| (*value).to_owned()).collect());
    }
    overrides
}

#[test]
fn clap_finds_no_fault_with_the_definition() {
    Cli::command().debug_assert();
}

#[test]
fn serve_and_check_have_a_flag_for_every_setting_and_no_other() {
    let command = Cli::command();
    let flags = |name| -> Vec<&str> {
        command.find_subcommand(name).unwrap().get_arguments().filter_map(Arg::get_long).collect()
    };
    let expected: Vec<&str> = settings::ALL
        .iter()
        .flat_map(|setting| match setting.kind {
            Kind::Switch(off) => vec![setting.flag, off],
            Kind::Value(_) | Kind::List(_) => vec![setting.flag],
        })
        .collect();
    assert_eq!(flags("serve"), expected);
    assert_eq!(flags("check"), expected);
}

#[test]
fn flags_come_out_as_typed() {
    assert_eq!(parsed("host serve"), Ok(Command::Serve(Settings(Overrides::default()))));
    assert_eq!(
        parsed("host serve --model m.onnx --env A=1 --env=B --no-watch --instance-memory nonsense --debug"),
        Ok(Command::Serve(Settings(given(&[
            (&settings::MODEL, &["m.onnx"]),
            (&settings::ENV, &["A=1", "B"]),
            (&settings::WATCH, &["false"]),
            (&settings::MEMORY, &["nonsense"]),
            (&settings::DEBUG, &["true"]),
        ]))))
    );
    let watch = |line| parsed(line).map(|command| command == parsed("host serve --watch").unwrap());
    assert_eq!(watch("host serve --no-watch --watch"), Ok(true), "the last one counts");
    assert_eq!(watch("host serve --watch --no-watch"), Ok(false));
}

#[test]
fn the_version_is_short_or_long() {
    assert_eq!(parsed("host -V"), Ok(Command::Version { long: false }));
    assert_eq!(parsed("host --version"), Ok(Command::Version { long: true }));
}

#[test]
fn inspect_and_run_take_their_own_arguments() {
    assert_eq!(
        parsed("host inspect h.wasm --json"),
        Ok(Command::Inspect(Inspect { component: "h.wasm".into(), json: true }))
    );
    assert_eq!(
        parsed(
            "host run --plugin h.wasm - --query a=1 --header X-A:b --repeat 3 --config c.toml --endpoint e"
        ),
        Ok(Command::Run(Run {
            sample: "-".into(),
            content_type: "application/json".to_owned(),
            query: "a=1".to_owned(),
            headers: vec![("x-a".to_owned(), "b".to_owned())],
            repeat: 3,
            config: Some("c.toml".into()),
            endpoint: Some("e".to_owned()),
            settings: Settings(given(&[(&settings::PLUGIN, &["h.wasm"])])),
        }))
    );
}

#[test]
fn diff_takes_two_handlers_and_no_other() {
    assert_eq!(
        parsed("host diff a.wasm b.wasm --samples s --ignore /a/* --ignore x-took --model m.onnx"),
        Ok(Command::Diff(Diff {
            old: "a.wasm".into(),
            new: "b.wasm".into(),
            samples: "s".into(),
            tolerance: Tolerance(1e-6),
            ignore: ["/a/*", "x-took"].map(|text| Pattern::parse(text).unwrap()).into(),
            json: false,
            settings: Settings(given(&[(&settings::MODEL, &["m.onnx"])])),
        }))
    );
    let mut command = Cli::command();
    let help = command.find_subcommand_mut("diff").unwrap().render_long_help().to_string();
    assert!(help.contains("--model") && !help.contains("--plugin <"), "{help}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    use clap::error::ErrorKind;
    for (line, kind) in [
        ("host", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
        ("host bench", ErrorKind::MissingRequiredArgument),
        ("host serve --modle m.onnx", ErrorKind::UnknownArgument),
        ("host serve --model", ErrorKind::InvalidValue),
        ("host serve --model a --model b", ErrorKind::ArgumentConflict),
        ("host run --plugin h.wasm", ErrorKind::MissingRequiredArgument),
        ("host run s.json --listen 127.0.0.1:0", ErrorKind::UnknownArgument),
        ("host swap", ErrorKind::MissingRequiredArgument),
        ("host swap iris", ErrorKind::MissingRequiredArgument),
        ("host swap iris --rollback --plugin h.wasm", ErrorKind::ArgumentConflict),
        ("host swap iris --rollback --persist", ErrorKind::ArgumentConflict),
        ("host swap iris --rollback --shadow 0.1", ErrorKind::ArgumentConflict),
        ("host replay --plugin h.wasm", ErrorKind::MissingRequiredArgument),
        ("host replay r", ErrorKind::MissingRequiredArgument),
        ("host replay r --plugin h.wasm --tolerance -1", ErrorKind::ValueValidation),
        ("host replay r --plugin h.wasm --tolerance=nan", ErrorKind::ValueValidation),
        ("host swap iris --shadow 0.1", ErrorKind::MissingRequiredArgument),
        ("host swap iris --plugin h.wasm --shadow 0.1 --canary 0.1", ErrorKind::ArgumentConflict),
        ("host swap iris --plugin h.wasm --canary 0.1 --persist", ErrorKind::ArgumentConflict),
        ("host swap iris --promote --drop-candidate", ErrorKind::ArgumentConflict),
        ("host swap iris --plugin h.wasm --shadow 1 --term nonsense", ErrorKind::ValueValidation),
        ("host run s.json --repeat 0", ErrorKind::ValueValidation),
        ("host run s.json --repeat -1", ErrorKind::ValueValidation),
        ("host bench a --rate -5", ErrorKind::ValueValidation),
        ("host logs -n -1", ErrorKind::ValueValidation),
        ("host swap iris --plugin h.wasm --canary 0.5,0.1", ErrorKind::ValueValidation),
        ("host swap iris --plugin h.wasm --canary 0.1,,1", ErrorKind::ValueValidation),
        ("host run s.json --header nonsense", ErrorKind::ValueValidation),
        ("host diff a b", ErrorKind::MissingRequiredArgument),
        ("host diff a b --samples s --plugin c", ErrorKind::ArgumentConflict),
        ("host diff a b --samples s --tolerance=-1", ErrorKind::ValueValidation),
        ("host diff a b --samples s --tolerance nan", ErrorKind::ValueValidation),
        ("host diff a b --samples s --ignore /a~", ErrorKind::ValueValidation),
        ("host --version serve", ErrorKind::ArgumentConflict),
        ("host bench a b c", ErrorKind::TooManyValues),
        ("host bench a --connections 0", ErrorKind::ValueValidation),
        ("host bench a --connections 1025", ErrorKind::ValueValidation),
        ("host bench a --duration 10", ErrorKind::ValueValidation),
        ("host bench a --duration 2h", ErrorKind::ValueValidation),
        ("host bench a --rate 0", ErrorKind::ValueValidation),
        ("host completions", ErrorKind::MissingRequiredArgument),
        ("host serve --help", ErrorKind::DisplayHelp),
    ] {
        assert_eq!(parsed(line), Err(kind), "{line}");
    }
}

#[test]
fn help_says_what_cannot_be_guessed() {
    for subcommand in ["serve", "run", "check"] {
        let mut command = Cli::command();
        let help = command.find_subcommand_mut(subcommand).unwrap().render_long_help().to_string();
        for text in ["ORT_DYLIB_PATH", "MODELHOST_PRE_TIMEOUT", "Exit codes:", "Example:", "[default: 64MiB]"]
        {
            assert!(help.contains(text), "{subcommand}: {text}");
        }
    }
}

#[test]
fn a_file_without_its_flag_is_told_one_that_the_command_has() {
    for (line, hint) in [
        ("host serve h.wasm", Some("'--plugin h.wasm'")),
        ("host check modelhost.toml", Some("'--config modelhost.toml'")),
        ("host swap iris h.wasm", Some("'--plugin h.wasm'")),
        ("host inspect h.wasm h.wasm", None),
        ("host diff a.wasm b.wasm --samples s c.wasm", None),
        ("host dev . modelhost.toml", None),
    ] {
        let error = parse_from(line.split(' ')).unwrap_err();
        let told = error.to_string();
        let found = told.split_once("give the file with its flag: ").map(|(_, hint)| hint);
        match hint {
            Some(hint) => assert!(found.is_some_and(|found| found.starts_with(hint)), "{line}: {told}"),
            None => assert_eq!(found, None, "{line}"),
        }
    }
}
