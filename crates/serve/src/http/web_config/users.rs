//! Users and their passwords.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bcrypt::HashParts;
use ring::error::Unspecified;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// With each step a check takes twice as long: some 70 ms with 10, and 4 s with 16.
const COSTS: std::ops::RangeInclusive<u32> = 4..=16;

/// Users by name.
pub struct Users {
    hashes: BTreeMap<String, String>,
    /// A hash that takes as long as any. Names without a hash are checked against it, so that the time says nothing of them.
    costliest: String,
    /// A random key of this process, so that `known` has nothing from which passwords follow.
    key: hmac::Key,
    /// Passwords that were right. They need no further check, however many wrong ones wait for theirs.
    known: Arc<Known>,
    /// A password is checked after another, so that wrong ones take one CPU at most.
    turn: Arc<Semaphore>,
}

/// At most one password of each user.
#[derive(Default)]
struct Known(Mutex<BTreeMap<String, hmac::Tag>>);

impl Known {
    fn tags(&self) -> MutexGuard<'_, BTreeMap<String, hmac::Tag>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the comparison takes tells nothing: without the key, no one can choose a tag.
    fn has(&self, name: &str, tag: &hmac::Tag) -> bool {
        let tags = self.tags();
        let known = tags.get(name);
        known.is_some_and(|known| known.as_ref() == tag.as_ref())
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.hashes.keys()).finish()
    }
}

/// Checks that a text is a bcrypt hash, with a cost that a request may have. The error does not contain the text.
pub fn check_hash(hash: &str) -> Result<(), String> {
    let Ok(parts) = hash.parse::<HashParts>() else {
        return Err("is not a bcrypt hash; make one by `htpasswd -nBC 10 NAME`".to_owned());
    };
    match COSTS.contains(&parts.get_cost()) {
        true => Ok(()),
        false => Err(format!(
            "has the cost {}; make a hash with a cost from {} to {}",
            parts.get_cost(),
            COSTS.start(),
            COSTS.end()
        )),
    }
}

impl Users {
    /// Users with these hashes. Fails without random numbers.
    pub fn new(hashes: BTreeMap<String, String>) -> Result<Self, Unspecified> {
        let cost = |hash: &&String| {
            hash.parse::<HashParts>()
                .map_or(0, |parts| parts.get_cost())
        };
        let costliest = hashes.values().max_by_key(cost).cloned();
        Ok(Self {
            hashes,
            costliest: costliest.unwrap_or_default(),
            key: hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?,
            known: Arc::default(),
            turn: Arc::new(Semaphore::new(1)),
        })
    }

    /// Whether this is the user's password.
    pub async fn verify(&self, name: &str, password: Vec<u8>) -> bool {
        let tag = hmac::sign(&self.key, &password);
        if self.known.has(name, &tag) {
            return true;
        }
        let Ok(turn) = Arc::clone(&self.turn).acquire_owned().await else {
            return false;
        };
        let (user, hash) = match self.hashes.get(name) {
            Some(hash) => (Some(name.to_owned()), hash.clone()),
            None => (None, self.costliest.clone()),
        };
        let known = Arc::clone(&self.known);
        // It goes on if the connection ends, so that the next request of a client that does not wait so long is answered.
        let check = spawn_blocking(move || {
            let _turn = turn;
            let is_same = bcrypt::verify(&password, &hash).unwrap_or(false);
            let user = user.filter(|_| is_same);
            let is_right = user.is_some();
            known.tags().extend(user.map(|user| (user, tag)));
            is_right
        });
        check.await.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn users(cost: u32) -> Users {
        let hash = bcrypt::hash("secret", cost).unwrap();
        Users::new(BTreeMap::from([("ann".to_owned(), hash)])).unwrap()
    }

    #[tokio::test]
    async fn only_the_right_password_of_a_user_is_right() {
        let users = users(4);
        assert!(users.verify("ann", b"secret".to_vec()).await);
        assert!(users.verify("ann", b"secret".to_vec()).await, "again");
        for (name, password) in [("ann", "Secret"), ("ann", ""), ("bob", "secret"), ("", "")] {
            let is_right = users.verify(name, password.as_bytes().to_vec()).await;
            assert!(!is_right, "{name}:{password}");
        }
        assert_eq!(users.known.tags().len(), 1, "wrong ones are not kept");
        assert!(!format!("{users:?}").contains("$2"));
    }

    #[tokio::test]
    async fn a_known_password_waits_for_no_other() {
        let users = users(4);
        assert!(users.verify("ann", b"secret".to_vec()).await);
        let _turn = Arc::clone(&users.turn).acquire_owned().await.unwrap();
        let known = timeout(SOON, users.verify("ann", b"secret".to_vec()));
        assert!(known.await.unwrap());
        let wrong = users.verify("ann", b"wrong".to_vec());
        assert!(timeout(Duration::from_millis(50), wrong).await.is_err());
    }

    #[tokio::test]
    async fn a_check_outlives_its_connection() {
        let users = users(7);
        let check = users.verify("ann", b"secret".to_vec());
        assert!(timeout(Duration::from_millis(1), check).await.is_err());
        // The turn is free once the check has ended.
        let turn = timeout(SOON, Arc::clone(&users.turn).acquire_owned());
        let _turn = turn.await.unwrap().unwrap();
        let known = timeout(SOON, users.verify("ann", b"secret".to_vec()));
        assert!(known.await.unwrap());
    }

    #[tokio::test]
    async fn a_name_without_a_user_takes_as_long_as_a_wrong_password() {
        let users = users(7);
        let mut shortest = [SOON; 2];
        for _ in 0..3 {
            for (shortest, name) in shortest.iter_mut().zip(["ann", "bob"]) {
                let begun = Instant::now();
                assert!(!users.verify(name, b"wrong".to_vec()).await);
                *shortest = begun.elapsed().min(*shortest);
            }
        }
        let [user, nobody] = shortest;
        assert!(nobody * 3 > user, "{user:?} {nobody:?}");
    }

    #[test]
    fn only_hashes_of_bcrypt_are_taken() {
        check_hash("$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG").unwrap();
        for hash in ["", "secret", "$1$salt$hash", "$2y$10$short"] {
            let why = check_hash(hash).unwrap_err();
            assert!(why.contains("htpasswd"), "{why}");
            assert!(hash.is_empty() || !why.contains(hash), "{why}");
        }
        for cost in ["03", "31"] {
            let hash = format!("$2y${cost}$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG");
            assert!(check_hash(&hash).unwrap_err().contains("cost"));
        }
    }
}
