//! Where values and jobs are: a file, or a Redis with its password, prefix and time.

use super::*;
use crate::stores::Place;

#[test]
fn a_redis_is_read_with_what_belongs_to_it_and_its_password_is_never_told() {
    let folder = Folder::new();
    folder.write("password", " hush\n");
    folder.write("empty", "\n");
    let shown = |given: &[&str]| {
        let config = folder.serve(given).unwrap();
        let Some(Place::Redis(redis)) = config.kv else { panic!("{given:?}") };
        assert!(!format!("{redis:?} {redis}").contains("hush"), "{redis:?}");
        (redis.to_string(), redis.user, redis.password, redis.prefix, redis.timeout)
    };
    let expected = |host: &str, password: Option<&str>, prefix: &str, milliseconds| {
        let password = password.map(str::to_owned);
        (
            host.to_owned(),
            Some("me".to_owned()),
            password,
            prefix.to_owned(),
            Duration::from_millis(milliseconds),
        )
    };
    let (plain, model) = ("kv-store redis://me@cache:1/2", "model DIR/m.onnx");
    for (given, expected) in [
        (&[model, plain][..], expected("redis://cache:1/2", None, "modelhost", 2000)),
        (
            &[model, plain, "kv-password @DIR/password", "kv-prefix a:b", "kv-timeout 300ms"],
            expected("redis://cache:1/2", Some("hush"), "a:b", 300),
        ),
        (
            &[model, plain, "KV_PASSWORD env:HOME", "KV_PREFIX f", "KV_TIMEOUT 1s"],
            expected("redis://cache:1/2", Some("/home/me"), "f", 1000),
        ),
        (
            &[model, "kv-store rediss://me:hush@cache"],
            expected("rediss://cache:6379/0", Some("hush"), "modelhost", 2000),
        ),
    ] {
        let given: Vec<String> = given.iter().map(|given| variable(given)).collect();
        assert_eq!(shown(&given.iter().map(String::as_str).collect::<Vec<_>>()), expected, "{given:?}");
    }
    let text = "kv = { store = 'redis://me@cache', password = '@password', prefix = 'g', timeout = '3s' }";
    folder.write("c.toml", &format!("{text}\n[[endpoint]]\nmodel = 'm.onnx'"));
    let read = expected("redis://cache:6379/0", Some("hush"), "g", 3000);
    assert_eq!(shown(&["config DIR/c.toml"]), read);
    for (given, expected) in [
        (&[plain, "kv-password @DIR/empty"][..], "is empty"),
        (&[plain, "kv-password hush"], "names no source of a key"),
        (&[plain, "kv-password @DIR/none"], "none"),
        (&["kv-store redis://:hush@cache", "kv-password @DIR/password"], "so is one in `kv.store`"),
        (&["kv-store DIR/values", "kv-password @DIR/password"], "is of a Redis, and there is none"),
        (&["kv-timeout 1s"], "is of a Redis, and there is none"),
        (&["kv-store redis://:hush@"], "hint: write a path, or `redis://USER@HOST:PORT/0`"),
        (&["kv-store https://:hush@cache"], "is no file and no address of a Redis"),
        (&[plain, "kv-prefix {a}"], "`{a}` is no name"),
    ] {
        let given = [&[model], given].concat();
        let problem = folder.serve(&given).unwrap_err();
        assert!(problem.contains(expected) && !problem.contains("hush"), "{given:?}: {problem}");
    }

    /// `KV_PREFIX f` as the variable's full name.
    fn variable(given: &str) -> String {
        match given.starts_with("KV_") {
            true => format!("MODELHOST_{given}"),
            false => given.to_owned(),
        }
    }
}

#[test]
fn the_jobs_have_a_redis_of_their_own() {
    let folder = Folder::new();
    folder.write("password", "hush\n");
    let (model, values) = ("model DIR/m.onnx", "kv-store redis://values");
    let plain = "jobs-store redis://me@cache:1/2";
    let given = [model, values, plain, "jobs-password @DIR/password", "jobs-prefix f", "jobs-timeout 300ms"];
    let config = folder.serve(&given).unwrap();
    let (Some(Place::Redis(jobs)), Some(Place::Redis(kv))) = (&config.jobs, &config.kv) else { panic!() };
    assert_eq!(
        (jobs.to_string(), kv.to_string()),
        ("redis://cache:1/2".into(), "redis://values:6379/0".into())
    );
    assert_eq!((jobs.password.as_deref(), jobs.prefix.as_str()), (Some("hush"), "f"));
    assert_eq!((jobs.timeout, kv.timeout), (Duration::from_millis(300), Duration::from_secs(2)));
    for (given, expected) in [
        (&["jobs-store redis://:hush@cache", "jobs-password @DIR/password"][..], "so is one in `jobs.store`"),
        (&["jobs-store DIR/jobs", "jobs-prefix f"], "hint: give `jobs.store` the address of one"),
        (&["jobs-store https://cache"], "is no file and no address of a Redis"),
    ] {
        let given = [&[model], given].concat();
        let problem = folder.serve(&given).unwrap_err();
        assert!(problem.contains(expected) && !problem.contains("hush"), "{given:?}: {problem}");
    }
}
