//! The options of the store: the flags, the environment, and the files with passwords.

use std::env;
use std::fs;
use std::path::Path;

use creel_console::{Exit, Failure};
use creel_serve::store::{Certificates, Kind, Login, Replicas, Secret};

use super::private;
use super::serve::Options;

/// Returns the value of a variable, if it is set and not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the store that the environment names.
pub fn from_environment() -> Option<String> {
    variable("CREEL_SERVE_STORE")
}

/// Returns whether the text of a store contains a password.
pub fn has_password(text: &str) -> bool {
    matches!(text.parse(), Ok(Kind::Redis(address)) if address.login.password.is_some())
}

/// Rejects a password on the command line.
pub fn check_flag(text: &str) -> Result<(), Failure> {
    if has_password(text) {
        return Err(Failure::new(
            Exit::Usage,
            "--store: other users can read a password on the command line. Use \
             --store-password-file FILE or the variable CREEL_SERVE_STORE_PASSWORD",
        ));
    }
    Ok(())
}

/// Returns the store that the options ask for, or `None` for the default.
pub fn kind(options: &Options) -> Result<Option<Kind>, Failure> {
    let usage = |why: String| Failure::new(Exit::Usage, why);
    let kind = options.store.as_deref().map(str::parse::<Kind>).transpose();
    let kind = kind.map_err(|why| usage(format!("--store: {why}")))?;
    let Some(Kind::Redis(mut address)) = kind else {
        let of_redis = [
            ("store-password-file", options.store_password_file.is_some()),
            (
                "sentinel-password-file",
                options.sentinel_password_file.is_some(),
            ),
            ("store-ca", options.store_ca.is_some()),
            ("store-cert", options.store_cert.is_some()),
            ("store-cert-key", options.store_cert_key.is_some()),
            ("store-replicas", options.store_replicas.is_some()),
        ];
        if let Some((name, _)) = of_redis.iter().find(|(_, is_set)| *is_set) {
            return Err(usage(format!(
                "--{name} has a meaning only for a Redis server: use --store redis://HOST, or \
                 leave out --{name}"
            )));
        }
        return Ok(kind);
    };
    let login = |file: Option<&Path>, who: &str, url: Login| -> Result<Login, Failure> {
        let user = variable(&format!("CREEL_SERVE_{who}_USER")).or(url.user);
        let password = match file {
            Some(path) => Some(read_password(path)?),
            None => variable(&format!("CREEL_SERVE_{who}_PASSWORD")),
        };
        let password = password.map(Secret).or(url.password);
        Ok(Login { user, password })
    };
    address.login = login(
        options.store_password_file.as_deref(),
        "STORE",
        address.login,
    )?;
    address.sentinel_login = login(
        options.sentinel_password_file.as_deref(),
        "SENTINEL",
        address.sentinel_login,
    )?;
    address.certificates = Certificates {
        authority: options.store_ca.clone(),
        client: match (&options.store_cert, &options.store_cert_key) {
            (Some(chain), Some(key)) => Some((chain.clone(), key.clone())),
            (None, None) => None,
            _ => {
                let why = "a certificate for Redis needs both --store-cert and --store-cert-key";
                return Err(usage(why.into()));
            }
        },
    };
    if address.tls && !cfg!(feature = "tls") {
        let why = "cannot use rediss://, because this program was built without the feature tls: \
                   build it with --features tls";
        return Err(usage(why.into()));
    }
    if !address.tls && address.certificates != Certificates::default() {
        let why = "--store-ca and --store-cert need a Redis server with TLS: use --store \
                   rediss://HOST";
        return Err(usage(why.into()));
    }
    let files = [
        &options.store_ca,
        &options.store_cert,
        &options.store_cert_key,
    ];
    for path in files.into_iter().flatten() {
        // The file is read again for each connection. We report a missing file at the start.
        fs::File::open(path)
            .map_err(|error| usage(format!("cannot read {}: {error}", path.display())))?;
    }
    if let Some(path) = &options.store_cert_key {
        private::warn_if_readable(path, "a private key");
    }
    if let Some(replicas) = options.store_replicas {
        address.replicas = Replicas::AtLeast(replicas);
    }
    Ok(Some(Kind::Redis(address)))
}

/// Reads a password from the first line of a file.
fn read_password(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        let why = format!("cannot read the password file {}: {error}", path.display());
        Failure::new(Exit::SomeFailed, why)
    })?;
    let password = text.lines().next().unwrap_or("");
    if password.is_empty() {
        let why = format!(
            "the first line of the password file {} is empty: expected a password",
            path.display()
        );
        return Err(Failure::new(Exit::BadData, why));
    }
    private::warn_if_readable(path, "a password");
    Ok(password.to_owned())
}
