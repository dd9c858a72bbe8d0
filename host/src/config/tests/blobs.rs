//! Where objects are: a folder, or a bucket with its server, its key and its time.

use super::*;
use crate::blobs::{Addressing, Cloud, Place};

#[test]
fn a_bucket_is_read_with_what_belongs_to_it_and_its_key_is_never_told() {
    let folder = Folder::new();
    for (name, content) in [("name", "AKID\n"), ("key", " hush\n"), ("token", "hush too"), ("empty", "\n")] {
        folder.write(name, content);
    }
    let (model, plain) = ("model DIR/m.onnx", "blobs-store s3://objects/fleet-a");
    let keys = ["blobs-access-key @DIR/name", "blobs-secret-key @DIR/key"];
    let more = [
        "blobs-server https://s3.example.com:9000/",
        "blobs-region eu-north-1",
        "blobs-addressing host",
        "blobs-session-token @DIR/token",
        "blobs-timeout 300ms",
    ];
    folder.write(
        "c.toml",
        "[blobs]\nstore = 's3://objects/fleet-a'\nserver = 'https://s3.example.com:9000'\nregion = 'eu-north-1'\n\
         addressing = 'host'\naccess_key = '@name'\nsecret_key = '@key'\nsession_token = '@token'\ntimeout = '300ms'\n\
         [[endpoint]]\nmodel = 'm.onnx'\nproject = 'project'\nblobs = ['shared/b']",
    );
    let grant = "blobs shared/b";
    let flags = [&[model, grant, plain][..], &keys, &more].concat();
    let expected =
        ("https://s3.example.com:9000", "eu-north-1", Some(Addressing::Host), Duration::from_millis(300));
    for given in [&flags[..], &["config DIR/c.toml"]] {
        let config = folder.serve(given).unwrap();
        let Some(Place::Bucket(s3)) = &config.blobs else { panic!("{given:?}") };
        assert!(!format!("{s3:?} {s3}").contains("hush"), "{s3:?}");
        let found = (s3.server.as_deref().unwrap(), &*s3.region, s3.addressing, s3.timeout);
        assert_eq!(found, expected, "{given:?}");
        assert_eq!(s3.to_string(), "s3://objects/fleet-a");
        let credentials = s3.credentials.clone().unwrap();
        let (token, name) = (credentials.session_token.as_deref(), credentials.access_key);
        assert_eq!((&*name, &*credentials.secret_key, token), ("AKID", "hush", Some("hush too")));
        // It is read again where it was read.
        let files = &s3.credential_files;
        let names = [&files.access_key, &files.secret_key, &files.session_token];
        let names = names.map(|path| path.as_ref().unwrap().file_name().unwrap());
        assert_eq!(names, ["name", "key", "token"]);
        // No project shows the files of the key.
        let hidden = &config.endpoints[0].hidden;
        assert!(["name", "key", "token"].iter().all(|name| hidden.iter().any(|path| path.ends_with(name))));
        assert_eq!(config.endpoints[0].capabilities.blobs.containers, ["shared/b"]);
    }
    let config = folder.serve(&[&[model, plain][..], &keys].concat()).unwrap();
    let Some(Place::Bucket(s3)) = config.blobs else { panic!() };
    let found = (s3.server, &*s3.region, s3.addressing, s3.timeout);
    assert_eq!(found, (None, "us-east-1", None, Duration::from_secs(2)));

    // Other clouds, and credentials of none of the operator's.
    for (given, cloud, server) in [
        (&["blobs-store s3://objects", "blobs-credentials platform"][..], Cloud::S3, None),
        (&["blobs-store gs://objects", keys[1], "blobs-server http://127.0.0.1:4443"], Cloud::Gcs, Some(())),
        (&["blobs-store az://objects", keys[1], "blobs-account fleet"], Cloud::Azure, None),
        (
            &["blobs-store az://objects", "blobs-account fleet", "blobs-credentials platform"],
            Cloud::Azure,
            None,
        ),
    ] {
        let config = folder.serve(&[&[model][..], given].concat()).unwrap();
        let Some(Place::Bucket(bucket)) = config.blobs else { panic!("{given:?}") };
        assert_eq!((bucket.cloud, bucket.server.map(drop)), (cloud, server), "{given:?}");
        let is_of_platform = given.iter().any(|flag| flag.ends_with("platform"));
        assert_eq!(bucket.credentials.is_none(), is_of_platform, "{given:?}");
        assert_eq!(&*bucket.account, if cloud == Cloud::Azure { "fleet" } else { "" });
    }

    // Nor does one show the objects of all, although the folder is not there yet.
    let config = folder.serve(&[model, "blobs-store DIR/project/objects"]).unwrap();
    assert!(config.endpoints[0].hidden.iter().any(|path| path.ends_with("project/objects")));

    for (given, expected) in [
        (&["blobs a"][..], "has containers, and there is no store for them; hint: give `--blobs-store DIR`"),
        (&["blobs-store DIR/objects", "blobs ../a"], "`../a` is not a container's name"),
        (&[plain], "there is no key for it; hint: give `blobs.access_key` too"),
        (&[plain, keys[0]], "there is no key for it; hint: give `blobs.secret_key` too"),
        (&[plain, keys[0], "blobs-secret-key hush"], "names no source of a key"),
        (&[plain, keys[0], "blobs-secret-key @DIR/empty"], "is empty"),
        (&[plain, keys[0], keys[1], "blobs-server s3.example.com"], "is not scheme, host and port"),
        (&[plain, keys[0], keys[1], "blobs-region eu/north"], "`eu/north` is no region"),
        (&["blobs-store DIR/objects", keys[0]], "is of S3, and there is none"),
        (&["blobs-timeout 1s"], "is of a bucket, and there is none"),
        (&["blobs-account fleet"], "is of Azure Blob Storage, and there is none"),
        (&["blobs-store gs://objects"], "there is no key for it; hint: give `blobs.secret_key` too"),
        (
            &["blobs-store gs://objects", keys[1], "blobs-addressing path"],
            "is of S3 and Azure Blob Storage, and the store is of Google Cloud Storage",
        ),
        (
            &["blobs-store az://objects", keys[1]],
            "there is no account for it; hint: give `blobs.account` too",
        ),
        (
            &["blobs-store az://objects", keys[1], "blobs-account fleet", keys[0]],
            "is of S3, and the store is of Azure Blob Storage",
        ),
        (&["blobs-store az://objects", "blobs-account Fleet"], "`Fleet` is no storage account"),
        (
            &[plain, "blobs-credentials platform", keys[1]],
            "is not used, since `blobs.credentials` is `platform`",
        ),
        (&[plain, "blobs-credentials instance"], "`instance` is not one of"),
        (&["blobs-store s3://Objects"], "has no bucket's name"),
        (&["blobs-store https://objects"], "is no folder and no bucket"),
    ] {
        let given = [&[model], given].concat();
        let problem = folder.serve(&given).unwrap_err();
        assert!(problem.contains(expected) && !problem.contains("hush"), "{given:?}: {problem}");
    }
}
