//! Tests of the GS2 header.

use super::*;

#[test]
fn headers_are_parsed() {
    let check = |message: &str, flag: BindingFlag<'_>, authorization: Option<&str>, text: &str, rest: &str| {
        let authorization_id = authorization.map(str::to_owned);
        assert_eq!(parse(message), Ok(Gs2Header { flag, authorization_id, text, rest }), "{message}");
    };
    check("n,,rest,", BindingFlag::Unsupported, None, "n,,", "rest,");
    check("y,,", BindingFlag::NotOffered, None, "y,,", "");
    check("p=tls-exporter,,x", BindingFlag::Required("tls-exporter"), None, "p=tls-exporter,,", "x");
    check("n,a=ann,x", BindingFlag::Unsupported, Some("ann"), "n,a=ann,", "x");
    check("n,a=a=2Cb=3D,n,,", BindingFlag::Unsupported, Some("a,b="), "n,a=a=2Cb=3D,", "n,,");
    check("n,a=jürgen,", BindingFlag::Unsupported, Some("jürgen"), "n,a=jürgen,", "");
}

#[test]
fn malformed_headers_are_refused() {
    let messages =
        ["", "n", "n,", ",,", "x,,", "N,,", "nn,,", "p,,", "p=,,", "p=tls_unique,,", "p=é,,", "F,n,,", "n,ann,"];
    for message in messages {
        assert_eq!(parse(message), Err(LoginError::Malformed), "{message}");
    }
    for message in ["n,a=,", "n,a=x=y,", "n,a=x=2c,", "n,a==,", "n,a=x=2,", "n,user=ann,", "n,A=ann,", "n,a=x\0,"] {
        assert_eq!(parse(message), Err(LoginError::Malformed), "{message}");
    }
}
