//! Tests of join tokens: what is accepted and refused, and random histories of several controllers.

use super::*;
use stdx::prng::Prng;

const NOON_S: u64 = 1_800_000_000;

fn name<T: std::str::FromStr<Err: fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a name")
}

fn bytes(prng: &mut Prng) -> TokenBytes {
    std::array::from_fn(|_| prng.next_u64() as u8)
}

/// `agent eu-1a` or, with a name, `agent eu-1a host-1`.
fn terms(text: &str) -> TokenTerms {
    let mut words = text.split(' ');
    let (role, zone) = (name(words.next().expect("a role")), name(words.next().expect("a zone")));
    TokenTerms { role, zone, id: words.next().map(name) }
}

fn claim(text: &str) -> JoinClaim {
    let TokenTerms { role, zone, id } = terms(text);
    JoinClaim { role, zone, id: id.expect("a name") }
}

fn issued(text: &str) -> (JoinTokens, JoinToken) {
    let none = JoinTokens::new(name("prod"));
    none.issued(terms(text), &bytes(&mut Prng::new(7)), NOON_S).expect("a token")
}

/// What a token with these terms gives to this claim, this many seconds later.
#[track_caller]
fn check(token: &str, later_s: i64, claimed: &str, expected: &str) {
    let (tokens, token) = issued(token);
    let now_s = NOON_S.checked_add_signed(later_s).expect("a time");
    let answer = match tokens.redeemed(&token, &claim(claimed), now_s) {
        Ok((_, identity)) => identity.to_string(),
        Err(refusal) => refusal.to_string(),
    };
    assert!(answer.contains(expected), "{answer}");
}

#[test]
fn a_token_is_good_for_its_role_its_zone_and_its_name() {
    check("agent eu-1a", 0, "agent eu-1a host-1", "evenkeel://prod/agent/host-1");
    check("agent eu-1a host-1", 0, "agent eu-1a host-1", "evenkeel://prod/agent/host-1");
    check("agent eu-1a", 0, "server eu-1a host-1", "for the role server: it is for agent");
    check("agent eu-1a", 0, "operator eu-1a host-1", "for the role operator: it is for agent");
    check("agent eu-1a", 0, "agent eu-1b host-1", "for the zone eu-1b: it is for eu-1a");
    check("agent eu-1a host-1", 0, "agent eu-1a host-2", "for the name host-2: it is for host-1");
    check("agent eu-1a host-1", 0, "agent eu-1a HOST-1", "for the name HOST-1");
}

#[test]
fn a_token_expires_after_a_quarter_of_an_hour() {
    check("agent a", 899, "agent a x", "evenkeel://prod/agent/x");
    check("agent a", 900, "agent a x", "it is 900 s old");
    check("agent a", 86_400, "agent a x", "it is 86400 s old");
}

#[test]
fn a_clock_may_be_five_minutes_behind() {
    check("agent a", -300, "agent a x", "evenkeel://prod/agent/x");
    check("agent a", -301, "agent a x", "issued 301 s in the future");
}

#[test]
fn a_token_is_used_once() {
    let (tokens, token) = issued("agent a");
    let (after, _) = tokens.redeemed(&token, &claim("agent a x"), NOON_S).expect("accepted");
    for again in ["agent a x", "agent a y"] {
        let refusal = after.redeemed(&token, &claim(again), NOON_S + 1).expect_err("refused");
        assert_eq!(refusal, JoinRefusal::Used { by: name("x") });
    }
}

#[test]
fn a_refused_token_can_still_be_used_by_the_right_one() {
    let (tokens, token) = issued("agent a x");
    assert!(tokens.redeemed(&token, &claim("agent a y"), NOON_S).is_err());
    assert!(tokens.redeemed(&token, &claim("agent a x"), NOON_S).is_ok());
}

#[test]
fn a_text_that_was_cut_or_changed_is_refused() {
    let (tokens, token) = issued("agent a");
    let text = token.reveal();
    assert_eq!(JoinToken::parse(&text).as_ref(), Ok(&token));
    for end in 0..text.len() {
        assert!(JoinToken::parse(&text[..end]).is_err(), "cut at {end}");
    }
    for (at, _) in text.char_indices() {
        for other in ["A", "z", ".", "=", " ", "\n", "é", ""] {
            let changed = [&text[..at], other, &text[at + 1..]].concat();
            if changed == text {
                continue;
            }
            let refused = JoinToken::parse(&changed)
                .and_then(|token| tokens.redeemed(&token, &claim("agent a x"), NOON_S).map(|_| ()));
            assert!(refused.is_err(), "{changed:?}");
        }
    }
    for text in [format!(" {text}"), format!("{text}\n"), text.repeat(2), "x".repeat(10_000_000)] {
        assert!(matches!(JoinToken::parse(&text), Err(JoinRefusal::NoToken { .. })));
    }
}

#[test]
fn a_token_of_another_fleet_is_unknown() {
    let (_, token) = issued("agent a");
    let other = JoinTokens::new(name("test"));
    assert_eq!(other.redeemed(&token, &claim("agent a x"), NOON_S), Err(JoinRefusal::Unknown));
}

#[test]
fn the_secret_is_in_no_record_message_or_log() {
    let (tokens, token) = issued("agent a x");
    let text = token.reveal();
    let secret = text.rsplit('.').next().expect("a secret");
    let (after, _) = tokens.redeemed(&token, &claim("agent a x"), NOON_S).expect("accepted");
    let kept = serde_json::to_string(&after).expect("JSON");
    for shown in [kept, format!("{token:?}"), format!("{tokens:?}")] {
        assert!(!shown.contains(secret) && shown.contains(&token.id()), "{shown}");
    }
    let refusal = JoinToken::parse(&text[..text.len() - 1]).expect_err("cut").to_string();
    assert!(!refusal.contains(&secret[..8]), "{refusal}");
}

#[test]
fn terms_that_were_changed_in_the_register_are_not_accepted() {
    let (tokens, token) = issued("agent a x");
    let kept = serde_json::to_string(&tokens).expect("JSON");
    let check = |from: &str, to: &str, claimed: &str| {
        let changed = kept.replacen(from, to, 1);
        assert_ne!(changed, kept);
        let changed: JoinTokens = serde_json::from_str(&changed).expect("tokens");
        assert_eq!(changed.redeemed(&token, &claim(claimed), NOON_S), Err(JoinRefusal::WrongSecret));
    };
    check("\"agent\"", "\"operator\"", "operator a x");
    check("\"zone\":\"a\"", "\"zone\":\"b\"", "agent b x");
    check(",\"id\":\"x\"", "", "agent a y");
    check("1800000000", "1800000001", "agent a x");
    check("\"prod\"", "\"test\"", "agent a x");
}

#[test]
fn nobody_joins_as_operator_controller_or_reader() {
    let none = JoinTokens::new(name("prod"));
    for (role, expected) in [
        ("controller", false),
        ("agent", true),
        ("router", true),
        ("server", true),
        ("operator", false),
        ("reader", false),
    ] {
        let made = none.issued(terms(&format!("{role} a")), &bytes(&mut Prng::new(1)), NOON_S);
        assert_eq!(made.is_ok(), expected, "{role}");
    }
}

#[test]
fn the_tokens_are_bounded_and_expired_ones_make_room() {
    let mut prng = Prng::new(3);
    let mut tokens = JoinTokens::new(name("prod"));
    for _ in 0..TOKENS_MAX {
        (tokens, _) = tokens.issued(terms("agent eu-west-1a"), &bytes(&mut prng), NOON_S).expect("a token");
    }
    assert!(serde_json::to_string(&tokens).expect("JSON").len() < 400 * TOKENS_MAX);
    let more = |prng: &mut Prng, now_s| tokens.issued(terms("agent a"), &bytes(prng), now_s);
    assert_eq!(more(&mut prng, NOON_S + 899).err(), Some(JoinTokenError::TooMany));
    assert_eq!(more(&mut prng, NOON_S + 900).expect("room").0.len(), 1);
}

#[test]
fn the_same_random_bytes_twice_do_not_revive_a_used_token() {
    let (tokens, token) = issued("agent a");
    let (after, _) = tokens.redeemed(&token, &claim("agent a x"), NOON_S).expect("accepted");
    let again = after.issued(terms("agent a"), &bytes(&mut Prng::new(7)), NOON_S);
    assert_eq!(again.err(), Some(JoinTokenError::SameBytes));
}

/// A register's key: a value and its revision.
struct Cell {
    revision: u64,
    tokens: JoinTokens,
}

impl Cell {
    fn put_if(&mut self, revision: u64, tokens: JoinTokens) -> bool {
        let unchanged = revision == self.revision;
        if unchanged {
            *self = Cell { revision: revision + 1, tokens };
        }
        unchanged
    }
}

/// Three controllers read and write in any order, with copies that may be old: each token is accepted once at most, and an
/// accepted one was neither expired nor for another zone.
#[test]
fn of_several_controllers_one_accepts_a_token() {
    let mut all = 0;
    for seed in 0..200 {
        let mut prng = Prng::new(seed);
        let mut cell = Cell { revision: 0, tokens: JoinTokens::new(name("prod")) };
        let mut copies: Vec<(u64, JoinTokens)> = vec![(0, cell.tokens.clone()); 3];
        let mut known: Vec<(JoinToken, u64, &str)> = Vec::new();
        let mut accepted: BTreeMap<String, u32> = BTreeMap::new();
        let mut now_s = NOON_S;
        for _ in 0..300 {
            now_s += prng.below(60);
            let controller = prng.below(3) as usize;
            let (revision, tokens) = copies[controller].clone();
            let zone = ["a", "b"][prng.below(2) as usize];
            match prng.below(3) {
                0 => copies[controller] = (cell.revision, cell.tokens.clone()),
                1 => {
                    let made = tokens.issued(terms(&format!("agent {zone}")), &bytes(&mut prng), now_s);
                    let (next, token) = made.expect("few tokens");
                    if cell.put_if(revision, next) {
                        known.push((token, now_s, zone));
                    }
                }
                _ if !known.is_empty() => {
                    let (token, issued_s, its_zone) = &known[prng.below(known.len() as u64) as usize];
                    let Ok((next, _)) = tokens.redeemed(token, &claim(&format!("agent {zone} x")), now_s)
                    else {
                        continue;
                    };
                    assert!(now_s < issued_s + TOKEN_LIFETIME_S && zone == *its_zone, "seed {seed}");
                    if cell.put_if(revision, next) {
                        *accepted.entry(token.id()).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
        assert!(accepted.values().all(|times| *times == 1), "seed {seed}: {accepted:?}");
        all += accepted.len();
    }
    assert!(all > 500, "{all} tokens were used");
}
