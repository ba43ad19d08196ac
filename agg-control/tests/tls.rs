//! Mutual TLS with certificates made for each test.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agg_control::{
    ClientIdentity, ClientTls, ControlClient, ControlConfig, ControlError, ControlServer, TlsConfig, serve,
};
use common::plane::FakePlane;
use common::{TIMEOUT, request};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// A directory of certificates that is removed at the end.
struct Files(PathBuf);

impl Files {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("agg-control-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: String) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// An authority, and a certificate for 127.0.0.1 that it signed.
    fn authority(&self, name: &str) -> Party {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = self.write(&format!("{name}-ca.pem"), params.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        let cert = params.signed_by(&key, &issuer).unwrap();
        let cert = self.write(&format!("{name}.pem"), cert.pem());
        Party {
            ca,
            cert,
            key: self.write(&format!("{name}.key"), key.serialize_pem()),
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Party {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

impl Party {
    fn serve(&self, client_ca: &Path) -> ControlServer {
        let tls = TlsConfig {
            cert: self.cert.clone(),
            key: self.key.clone(),
            client_ca: client_ca.into(),
        };
        let config = ControlConfig {
            tls: Some(tls),
            ..ControlConfig::default()
        };
        serve("127.0.0.1:0".parse().unwrap(), FakePlane::shared(), config).unwrap()
    }

    fn connect(&self, server: &ControlServer, ca: &Path) -> Result<ControlClient, ControlError> {
        let identity = ClientIdentity {
            cert: self.cert.clone(),
            key: self.key.clone(),
        };
        connect(server, ca, Some(identity))
    }
}

fn connect(
    server: &ControlServer,
    ca: &Path,
    identity: Option<ClientIdentity>,
) -> Result<ControlClient, ControlError> {
    let tls = ClientTls {
        ca: ca.into(),
        identity,
        server_name: None,
    };
    ControlClient::connect(&server.local_addr().to_string(), Some(&tls), TIMEOUT)
}

fn assert_handshake_fails(result: Result<ControlClient, ControlError>, reason: &str) {
    match result {
        Err(ControlError::Handshake { detail, .. }) if detail.contains(reason) => {}
        other => panic!("the handshake must fail because of {reason:?}, but: {other:?}"),
    }
}

#[test]
fn a_client_with_a_certificate_of_the_authority_can_register() {
    let files = Files::new("good");
    let (host, rank) = (files.authority("host"), files.authority("rank"));
    let server = host.serve(&rank.ca);
    let client = rank.connect(&server, &host.ca).unwrap();
    assert!(
        client.register(&request("x", 1, 0)).is_ok(),
        "the peer's address is known under TLS as well"
    );
}

#[test]
fn a_client_without_a_certificate_is_refused() {
    let files = Files::new("none");
    let (host, rank) = (files.authority("host"), files.authority("rank"));
    let server = host.serve(&rank.ca);
    // The alert may be lost when the server closes the connection, so the reason is not always the same.
    assert_handshake_fails(connect(&server, &host.ca, None), "");
    assert!(
        rank.connect(&server, &host.ca).is_ok(),
        "it is the certificate that makes the difference"
    );
}

#[test]
fn a_client_with_a_certificate_of_another_authority_is_refused() {
    let files = Files::new("other");
    let (host, rank, other) = (
        files.authority("host"),
        files.authority("rank"),
        files.authority("other"),
    );
    let server = host.serve(&rank.ca);
    assert_handshake_fails(other.connect(&server, &host.ca), "");
}

#[test]
fn a_client_does_not_trust_another_aggregator() {
    let files = Files::new("host");
    let (host, rank) = (files.authority("host"), files.authority("rank"));
    let server = host.serve(&rank.ca);
    assert_handshake_fails(rank.connect(&server, &rank.ca), "certificate");
}

#[test]
fn a_client_without_tls_is_refused() {
    let files = Files::new("plain");
    let (host, rank) = (files.authority("host"), files.authority("rank"));
    let server = host.serve(&rank.ca);
    let plain = ControlClient::connect(&server.local_addr().to_string(), None, Duration::from_secs(8));
    assert!(matches!(plain, Err(ControlError::Handshake { .. })), "{plain:?}");
}

#[test]
fn a_client_with_tls_does_not_hang_at_an_aggregator_without() {
    let files = Files::new("half");
    let rank = files.authority("rank");
    let (server, _plane) = common::start(ControlConfig::default());
    assert_handshake_fails(rank.connect(&server, &rank.ca), "");
}

#[test]
fn unreadable_and_unusable_files_are_named() {
    let files = Files::new("files");
    let host = files.authority("host");
    let start = |cert: PathBuf| {
        let tls = TlsConfig {
            cert,
            key: host.key.clone(),
            client_ca: host.ca.clone(),
        };
        let config = ControlConfig {
            tls: Some(tls),
            ..ControlConfig::default()
        };
        serve("127.0.0.1:0".parse().unwrap(), FakePlane::shared(), config)
            .err()
            .unwrap()
            .to_string()
    };
    let missing = start(files.0.join("nowhere.pem"));
    assert!(
        missing.starts_with("cannot read the TLS file ") && missing.contains("nowhere.pem"),
        "{missing}"
    );
    let empty = start(files.write("empty.pem", "nothing here".into()));
    assert!(
        empty.contains("empty.pem") && empty.contains("do not work together"),
        "{empty}"
    );
}
