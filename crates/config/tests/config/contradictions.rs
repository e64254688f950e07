//! Values that are valid alone and contradict each other, and values that only their user can judge.

use config::setting::is_host_name;

use crate::fixture::{check_problems, load_assignments, load_text};

#[test]
fn a_certificate_needs_its_key() {
    let text = "certificate and key belong together: set both or neither";
    check_problems(load_text("[tls]\ncertificate = \"c.pem\"\n"), &[&format!("line 2: tls.certificate: {text}")]);
    check_problems(load_assignments(&["tls.key=k.pem"]), &[&format!("tls.key: {text}")]);
    load_assignments(&["tls.key=k.pem", "tls.certificate=c.pem"]).expect("they belong together");
}

#[test]
fn a_user_of_the_smart_host_needs_a_password_file() {
    check_problems(
        load_text("[router]\nsmart_host = \"smtp.example.net\"\nsmart_host_user = \"acme\"\n"),
        &["line 3: router.smart_host_user: set smart_host_password_file as well"],
    );
    load_assignments(&["router.smart_host_user=acme", "router.smart_host_password_file=secret"])
        .expect("the file is named");
}

#[test]
fn encrypted_attachments_are_not_compressed_by_the_store() {
    for codec in ["blobs.codec=zstd", "blobs.codec=none"] {
        load_assignments(&["blobs.encryption=true", codec]).expect("they go together");
    }
    load_assignments(&["blobs.codec=lz4"]).expect("nothing is encrypted");
    check_problems(
        load_assignments(&["blobs.encryption=true", "blobs.codec=lz4"]),
        &["blobs.codec: the store cannot compress encrypted content with lz4; use zstd or none"],
    );
}

#[test]
fn retry_first_may_equal_retry_max() {
    load_assignments(&["router.retry_first=4h"]).expect("4h is the default of the longest");
    check_problems(
        load_assignments(&["router.retry_first=4h1ms"]),
        &["router.retry_first: may not be longer than router.retry_max"],
    );
    check_problems(
        load_text("[router]\nretry_max = \"1min\"\n"),
        &["router.retry_first: may not be longer than router.retry_max"],
    );
}

#[test]
fn message_memory_holds_two_messages() {
    let text = "limits.message_memory: must be at least twice limits.message_size";
    load_assignments(&["limits.message_size=256MiB"]).expect("`auto` is at least twice the maximum size");
    load_assignments(&["limits.message_size=8MiB", "limits.message_memory=16MiB"]).expect("it is twice as much");
    check_problems(load_assignments(&["limits.message_memory=127MiB"]), &[text]);
    check_problems(load_text("[limits]\nmessage_memory = \"16MiB\"\n"), &[&format!("line 2: {text}")]);
}

#[test]
fn parts_of_the_memory_fit_into_it() {
    let parts = ["server.memory=1GiB", "store.cache=512MiB", "blobs.cache=12MiB", "limits.connections=16000"];
    load_assignments(&parts).expect("they are exactly 1 GiB");
    let problem = "server.memory: 1GiB is less than 1048608KiB, the sum of limits.connections (512032KiB), \
                   store.cache (512MiB), blobs.cache (12MiB)";
    let one_more = ["server.memory=1GiB", "store.cache=512MiB", "blobs.cache=12MiB", "limits.connections=16001"];
    check_problems(load_assignments(&one_more), &[problem]);
    check_problems(
        load_text("[full_text]\nthreads = 8\nmemory = \"256MiB\"\n[server]\nmemory = \"1GiB\"\n"),
        &["line 5: server.memory: 1GiB is less than 2GiB, the sum of full_text.memory (2GiB)"],
    );
    load_assignments(&["store.cache=1TiB"]).expect("the memory is not set");
    check_problems(
        load_assignments(&["server.memory=1GiB", "store.cache=1TiB", "blobs.cache=lots"]),
        &[
            "blobs.cache: \"lots\" is not a size; write a number and a unit, as in 256MiB",
            "server.memory: 1GiB is less than 1TiB, the sum of store.cache (1TiB)",
        ],
    );
}

#[test]
fn a_listener_collides_with_each_listener_before_it() {
    check_problems(
        load_text("[listen]\nsmtp = \"*:143\"\nimap = \"127.0.0.1:143\"\n"),
        &["line 3: listen.imap: 127.0.0.1:143 is already used by listen.smtp"],
    );
    check_problems(
        load_text("[listen]\npop3 = [\"[::1]:7\", \"[::]:7\"]\n"),
        &["line 2: listen.pop3: [::]:7 is already used by listen.pop3"],
    );
    check_problems(
        load_text("[listen]\nsubmission = \"*:25\"\n"),
        &["line 2: listen.submission: *:25 is already used by listen.smtp"],
    );
    load_text("[listen]\nsmtp = \"off\"\nsubmission = \"*:25\"\n").expect("the other listener is off");
}

#[test]
fn invalid_value_causes_no_contradiction() {
    check_problems(
        load_text("[listen]\nsmtp = \"nowhere\"\nsubmission = \"*:25\"\n"),
        &["line 2: listen.smtp: \"nowhere\" is not an address; write 127.0.0.1:25, [::1]:25, *:25 or off"],
    );
    check_problems(
        load_text("[log]\nlevel = \"loud\"\nfilter = \"imap=loud\"\n[tls]\nkey = [1, 2]\ncertificate = \"c.pem\"\n"),
        &[
            "line 2: log.level: \"loud\" is not one of error warn info debug trace",
            "line 3: log.filter: \"imap=loud\" is not a valid filter (error parsing level filter: expected one of \
             \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number 0-5); write it as in \
             imap=debug,wire=debug",
            "line 5: tls.key: this key takes one value, not a list",
            "line 6: tls.certificate: certificate and key belong together: set both or neither",
        ],
    );
}

#[test]
fn host_names_follow_rfc_1123() {
    let label = "a".repeat(63);
    let name = [label.as_str(); 4].join(".");
    let longest = &name[..253];
    for valid in ["a", "mail.acme.test", "1and1.test", "xn--bcher-kva.example", "a-b.c", &label, longest] {
        assert!(is_host_name(valid), "{valid}");
    }
    let long_label = format!("{label}a");
    let one_longer = &name[..254];
    for wrong in ["", ".", "a.", ".a", "a..b", "-a", "a-", "a_b", "a b", "bücher.test", &long_label, one_longer] {
        assert!(!is_host_name(wrong), "{wrong}");
    }
}

#[test]
fn server_name_and_domain_must_be_host_names() {
    for key in ["server.name", "server.domain"] {
        for value in ["auto", "", "acme.test"] {
            load_assignments(&[&format!("{key}={value}")]).expect(value);
        }
        check_problems(
            load_assignments(&[&format!("{key}=acme_test")]),
            &[&format!("{key}: \"acme_test\" is not a valid host or domain name; write mail.example.org, or auto")],
        );
    }
}
