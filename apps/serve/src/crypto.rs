//! The cryptography, which is the work of the service: signatures, digests and password hashes. It
//! is pure computation and never blocks.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use bytes::Bytes;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256, Sha512};

use crate::admission::KINDS;

/// A job for the cryptography.
#[derive(Debug, Clone)]
pub enum Job {
    /// Sign a message.
    Sign(Bytes),
    /// Check whether a key made the signature of a message.
    Verify {
        /// The public key.
        key: [u8; 32],
        /// The signature.
        signature: [u8; 64],
        /// The message.
        message: Bytes,
    },
    /// Compute the digest of a body.
    Digest(Algo, Bytes),
    /// Hash a password for storage.
    Hash(Bytes),
    /// Check whether a password matches a stored hash.
    Check {
        /// The password.
        password: Bytes,
        /// The stored hash of the password.
        stored_hash: String,
    },
}

/// The digest algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algo {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// The SHA-256 of the message, which is the name of its record, and the signature.
    Signed([u8; 32], [u8; 64]),
    /// Whether the signature or the password is right.
    Verified(bool),
    /// The digest.
    Digest(Vec<u8>),
    /// The hash of a password, as a PHC string.
    Hash(String),
    /// The job is invalid. The text says why.
    Rejected(&'static str),
}

impl Job {
    /// Returns the number of the job's kind, from 0 to [`KINDS`] - 1.
    pub fn kind(&self) -> usize {
        let kind = match self {
            Job::Sign(_) => 0,
            Job::Verify { .. } => 1,
            Job::Digest(..) => 2,
            Job::Hash(_) => 3,
            Job::Check { .. } => 4,
        };
        debug_assert!(kind < KINDS);
        kind
    }
}

/// The Argon2 parameters for passwords.
///
/// ```
/// let cost: creel_serve::crypto::Cost = "m=1024,t=1,p=1".parse()?;
/// assert_eq!((cost.memory_kib, cost.passes), (1024, 1));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The memory in KiB.
    pub memory_kib: u32,
    /// The number of passes over the memory.
    pub passes: u32,
    /// The number of lanes. We compute them one after the other.
    pub lanes: u32,
}

impl Default for Cost {
    /// Returns the parameters that OWASP recommends.
    ///
    /// Source: OWASP, "Password Storage Cheat Sheet".
    fn default() -> Cost {
        Cost {
            memory_kib: 19_456,
            passes: 2,
            lanes: 1,
        }
    }
}

impl std::str::FromStr for Cost {
    type Err = String;

    fn from_str(text: &str) -> Result<Cost, String> {
        let params: Params = text
            .parse()
            .map_err(|_| "expected m=KIB,t=PASSES,p=LANES, for example m=19456,t=2,p=1")?;
        Ok(Cost {
            memory_kib: params.m_cost(),
            passes: params.t_cost(),
            lanes: params.p_cost(),
        })
    }
}

/// The signing key and the Argon2 parameters.
pub struct Crypto {
    key: SigningKey,
    argon2: Argon2<'static>,
}

impl std::fmt::Debug for Crypto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crypto").finish_non_exhaustive()
    }
}

impl Crypto {
    /// Creates the cryptography from the seed of the signing key and the Argon2 parameters.
    ///
    /// # Errors
    ///
    /// Returns an error if Argon2 does not accept the parameters.
    pub fn new(seed: &[u8; 32], cost: Cost) -> Result<Crypto, String> {
        let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, None);
        let params = params.map_err(|error| error.to_string())?;
        Ok(Crypto {
            key: SigningKey::from_bytes(seed),
            argon2: Argon2::new(Algorithm::Argon2id, Version::V0x13, params),
        })
    }

    /// Returns the public key.
    pub fn key(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }

    /// Performs a job. This takes from microseconds to tens of milliseconds.
    pub fn perform(&self, job: &Job) -> Done {
        match job {
            Job::Sign(message) => {
                let id = Sha256::digest(message).into();
                Done::Signed(id, self.key.sign(message).to_bytes())
            }
            Job::Verify {
                key,
                signature,
                message,
            } => match VerifyingKey::from_bytes(key) {
                Ok(key) => {
                    let signature = Signature::from_bytes(signature);
                    Done::Verified(key.verify_strict(message, &signature).is_ok())
                }
                Err(_) => Done::Rejected("the key is not a valid Ed25519 public key"),
            },
            Job::Digest(Algo::Sha256, bytes) => Done::Digest(Sha256::digest(bytes).to_vec()),
            Job::Digest(Algo::Sha512, bytes) => Done::Digest(Sha512::digest(bytes).to_vec()),
            Job::Hash(password) => match self.argon2.hash_password(password) {
                Ok(hash) => Done::Hash(hash.to_string()),
                Err(_) => Done::Rejected("Argon2 does not accept this password"),
            },
            Job::Check {
                password,
                stored_hash,
            } => self.check(password, stored_hash),
        }
    }

    fn check(&self, password: &[u8], stored_hash: &str) -> Done {
        let Ok(stored_hash) = PasswordHash::new(stored_hash) else {
            return Done::Rejected("the stored_hash is not a PHC string, such as $argon2id$v=19$…");
        };
        let Ok(params) = Params::try_from(&stored_hash) else {
            return Done::Rejected("stored_hash is not an argon2 hash");
        };
        // The client chooses the parameters in the hash, so we limit what they may cost.
        let own = self.argon2.params();
        if params.m_cost() > own.m_cost()
            || params.t_cost() > own.t_cost()
            || params.p_cost() > own.p_cost()
        {
            return Done::Rejected(
                "stored_hash has higher Argon2 parameters than this service allows",
            );
        }
        Done::Verified(self.argon2.verify_password(password, &stored_hash).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crypto() -> Crypto {
        Crypto::new(&[7; 32], "m=64,t=1,p=1".parse().unwrap()).unwrap()
    }

    #[test]
    fn signatures_verify_and_changed_messages_do_not() {
        let (crypto, message) = (crypto(), Bytes::from_static(b"hello"));
        let Done::Signed(id, signature) = crypto.perform(&Job::Sign(message.clone())) else {
            panic!();
        };
        assert_eq!(
            hex::encode(id),
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
        );
        let verify = |message: &'static [u8], signature| {
            let key = crypto.key();
            crypto.perform(&Job::Verify {
                key,
                signature,
                message: message.into(),
            })
        };
        assert_eq!(verify(b"hello", signature), Done::Verified(true));
        assert_eq!(verify(b"hellO", signature), Done::Verified(false));
        let mut other = signature;
        other[3] ^= 1;
        assert_eq!(verify(b"hello", other), Done::Verified(false));
    }

    /// Source: RFC 8032, section 7.1, test 1.
    #[test]
    fn signatures_match_rfc_8032() {
        let mut seed = [0; 32];
        hex::decode_to_slice(
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            &mut seed,
        )
        .unwrap();
        let crypto = Crypto::new(&seed, Cost::default()).unwrap();
        assert_eq!(
            hex::encode(crypto.key()),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
        );
        let Done::Signed(_, signature) = crypto.perform(&Job::Sign(Bytes::new())) else {
            panic!();
        };
        assert!(
            hex::encode(signature).starts_with("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974")
        );
    }

    #[test]
    fn passwords_are_verified_and_costlier_hashes_rejected() {
        let crypto = crypto();
        let Done::Hash(stored_hash) = crypto.perform(&Job::Hash("secret".into())) else {
            panic!();
        };
        let check = |password: &'static str, stored_hash: &str| {
            crypto.perform(&Job::Check {
                password: password.into(),
                stored_hash: stored_hash.to_owned(),
            })
        };
        assert_eq!(check("secret", &stored_hash), Done::Verified(true));
        assert_eq!(check("Secret", &stored_hash), Done::Verified(false));
        for (from, to) in [
            ("m=64", "m=4194304"),
            ("t=1", "t=1000"),
            ("$argon2id", "argon"),
        ] {
            let expensive = stored_hash.replace(from, to);
            assert!(
                matches!(check("secret", &expensive), Done::Rejected(_)),
                "{expensive}"
            );
        }
    }
}
