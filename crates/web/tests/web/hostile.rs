//! Hostile messages: HTML, names and attachments.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use web::sanitizer::sanitize;

use super::harmless::check_fragment;
use super::world::World;

fn clean(html: &str) -> String {
    sanitize(html, &Arc::default())
}

fn check(html: &str) {
    let clean = clean(html);
    check_fragment(&clean);
    assert_eq!(self::clean(&clean), clean, "{html}");
}

#[test]
fn nothing_active_or_remote_stays() {
    for html in [
        "<script>alert(1)</script>",
        "<SCRIPT SRC=http://e.test/x.js></SCRIPT>",
        "<img src=x onerror=alert(1)>",
        "<img src=http://e.test/pixel.gif>",
        "<img src=//e.test/pixel.gif>",
        "<img srcset='http://e.test/a 1x' src='data:image/svg+xml;base64,AAAA'>",
        "<img src=\"data:text/html;base64,AAAA\">",
        "<a href=\"javascript:alert(1)\">x</a>",
        "<a href=\" &#106;avascript:alert(1)\">x</a>",
        "<a href=\"java\nscript:alert(1)\">x</a>",
        "<a href=\"data:text/html,<script>alert(1)</script>\">x</a>",
        "<a href=\"vbscript:x\" ping=\"http://e.test\">x</a>",
        "<svg/onload=alert(1)><svg><script>alert(1)</script></svg>",
        "<svg><a xlink:href=\"javascript:alert(1)\"><text>x</text></a></svg>",
        "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
        "<math><mi//xlink:href=\"data:x,<script>alert(4)</script>\">",
        "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
        "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
        "<div style=\"background:url(http://e.test/a)\">x</div>",
        "<div style=\"position:fixed;top:0;left:0;width:100%;height:100%;z-index:9\">x</div>",
        "<div style=\"color:red;background-image:u\\72l(http://e.test)\">x</div>",
        "<div style='width:expression(alert(1))'>x</div>",
        "<style>@import 'http://e.test/a.css'; body{background:url(http://e.test)}</style>",
        "<link rel=stylesheet href=http://e.test/a.css><link rel=dns-prefetch href=//e.test>",
        "<meta http-equiv=refresh content='0;url=http://e.test'>",
        "<base href=http://e.test/><a href=x>x</a>",
        "<form action=http://e.test><input name=password><button formaction=http://e.test>Go</button></form>",
        "<iframe src=http://e.test srcdoc='<script>alert(1)</script>'></iframe>",
        "<object data=http://e.test></object><embed src=http://e.test><applet code=x>",
        "<video src=http://e.test poster=http://e.test></video><audio src=http://e.test>",
        "<table background=http://e.test><td background=http://e.test>x</td></table>",
        "<body onload=alert(1) background=http://e.test>x</body>",
        "<details open ontoggle=alert(1)>x</details>",
        "<template><img src=x onerror=alert(1)></template>",
        "<textarea><img src=x onerror=alert(1)></textarea><title><img src=x onerror=alert(1)></title>",
        "<xmp><img src=x onerror=alert(1)></xmp><plaintext><img src=x onerror=alert(1)>",
        "<!--[if IE]><script>alert(1)</script><![endif]--><!--><img src=x onerror=alert(1)>-->",
        "<![CDATA[<script>alert(1)</script>]]><?xml-stylesheet href=\"http://e.test\"?>",
        "<a id=x name=y><img id=body name=cookie>x</a>",
        "<select><option><img src=x onerror=alert(1)></select>",
        "<p title=\"`onmouseover=alert(1)\">x",
        "<b><a href=http://e.test><b><a href=http://e.test><table><tr><a>x",
        "<img src=cid:unknown>",
        "<custom-element is=x onclick=alert(1)>x</custom-element>",
        "<isindex action=javascript:alert(1) type=image>",
        "<frameset><frame src=http://e.test></frameset>",
        "<div\0 style=\"color:red\" \0onclick=alert(1)>x</div>",
        "<a href=\"http://e.test\u{202e}\">x</a>",
    ] {
        check(html);
    }
    check(&"<div>".repeat(1_000));
    check(&"<div>".repeat(200_000));
    check(&"<b><i>".repeat(300));
    check(&format!("{}<script>alert(1)</script>", "<table><tr><td>".repeat(300)));
}

#[test]
fn bombs_are_shown_as_text() {
    let open: String = (0..1_000).map(|number| format!("<b title={number}>")).collect();
    let hidden: String = (0..1_000).map(|number| format!("<b title='>{number}'>")).collect();
    for bomb in [open, hidden] {
        let bomb = format!("{bomb}{}", "<p>boom".repeat(1_000));
        let clean = clean(&bomb);
        assert!(clean.contains("boom") && !clean.contains('<') && clean.len() < 100_000, "{} bytes", clean.len());
    }
    let rows = "<tr><td><b>a</b></td><td><font color=red>b</font></td></tr>".repeat(3_000);
    assert!(clean(&format!("<table>{rows}</table>")).contains("<table>"), "it is only long");
}

#[test]
fn the_look_of_a_message_stays() {
    let kept = "<p style=\"color:red\">a <b>b</b></p><table width=\"5\"><tbody><tr><td colspan=\"2\">c</td></tr></tbody></table>";
    assert_eq!(clean(kept), kept);
    let link = clean("<a href=\"https://a.test/?x=1&amp;y=2\" target=_blank>x</a>");
    assert_eq!(link, "<a href=\"https://a.test/?x=1&amp;y=2\" rel=\"noopener noreferrer nofollow\">x</a>");
    let images = HashMap::from([("a@b".to_owned(), "data:image/png;base64,AAAA".to_owned())]);
    let image = sanitize("<img src=\"cid:a%40b\" alt=x><img src=cid:c>", &Arc::new(images));
    assert!(image.contains("src=\"data:image/png;base64,AAAA\"") && !image.contains("cid:"), "{image}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn sanitizing_again_changes_nothing(pieces in prop::collection::vec(piece(), 0..40)) {
        let once = clean(&pieces.concat());
        prop_assert_eq!(clean(&once), once.clone());
        check_fragment(&once);
    }
}

/// Pieces of HTML that confuse parsers.
fn piece() -> impl Strategy<Value = String> {
    let tags = [
        "a", "b", "i", "p", "div", "table", "tr", "td", "th", "tbody", "svg", "math", "mtext", "mglyph", "style",
        "script", "title", "select", "option", "form", "li", "ul", "dd", "h1", "font", "nobr", "pre", "template",
        "noscript", "textarea",
    ];
    let attributes =
        ["", " href=http://a.test", " style='color:red;x:url(y)'", " onerror=alert(1)", " src=x", " title='<b>'"];
    prop_oneof![
        (prop::sample::select(tags.to_vec()), prop::sample::select(attributes.to_vec()))
            .prop_map(|(tag, attribute)| format!("<{tag}{attribute}>")),
        prop::sample::select(tags.to_vec()).prop_map(|tag| format!("</{tag}>")),
        prop::sample::select(vec![
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "&lt;",
            "&#0;",
            "\n",
            "\u{0}",
            "<",
            "\"",
            "'",
            "/>"
        ])
        .prop_map(str::to_owned),
        "[a-z ]{0,8}",
    ]
}

#[tokio::test]
async fn the_look_of_a_message_is_a_document_of_its_own() {
    let world = World::new();
    let html = "<p>hello</p><img src=\"cid:i\"><img src=\"http://e.test/x.gif\"><script>alert(1)</script>";
    let raw = format!(
        "Subject: </title><script>x</script>\r\nContent-Type: multipart/related; boundary=x\r\n\r\n--x\r\n\
         Content-Type: text/html\r\n\r\n{html}\r\n--x\r\nContent-Type: image/png\r\nContent-ID: <i>\r\n\
         Content-Transfer-Encoding: base64\r\n\r\niVBORw==\r\n--x--\r\n"
    );
    let uid = world.put("ann", "INBOX", &raw);
    let mut browser = world.logged_in("ann").await;
    let path = format!("/lite/folder/{}/{uid}", world.folder("ann", "INBOX"));
    let message = browser.get(&path).await;
    assert!(message.has("hello") && !message.has("alert") && !message.has("http://e"), "{}", message.text());
    let look = browser.get(&message.link("Show its own look (HTML)")).await;
    assert!(look.has("<p>hello</p>") && look.has("data:image/png;base64,iVBORw=="), "{}", look.text());
    assert!(!look.has("<script") && !look.has("http://e"), "{}", look.text());
    let policy = look.field("content-security-policy");
    assert!(policy.starts_with("sandbox; default-src 'none'; img-src data:;"), "{policy}");
    assert!(!policy.contains("allow-") && !policy.contains("script-src"), "{policy}");
}

#[tokio::test]
async fn attachments_are_downloads_whatever_their_type() {
    let world = World::new();
    let part = |kind: &str, name: &str| {
        format!(
            "--x\r\nContent-Type: {kind}\r\nContent-Disposition: inline; filename=\"{name}\"\r\n\r\n<svg onload=alert(1)>\r\n"
        )
    };
    let parts = [
        ("text/html", "a.html"),
        ("image/svg+xml", "b.svg"),
        ("application/xhtml+xml", "c.xhtml"),
        ("image/png", "../../d\u{202e}gnp.exe"),
        ("text/javascript", "e.js"),
    ];
    let body: String = parts.iter().map(|(kind, name)| part(kind, name)).collect();
    let first = "--x\r\nContent-Type: text/plain\r\n\r\ntext\r\n";
    let uid = world.put(
        "ann",
        "INBOX",
        &format!("Subject: x\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n{first}{body}--x--\r\n"),
    );
    let mut browser = world.logged_in("ann").await;
    let path = format!("/lite/folder/{}/{uid}", world.folder("ann", "INBOX"));
    let page = browser.get(&path).await;
    assert!(!page.has("\u{202e}") && !page.has("../"), "{}", page.text());
    for (index, (kind, name)) in parts.iter().enumerate() {
        let file = browser.get(&format!("{path}/part/{}?show", index + 2)).await;
        let sent = file.field("content-type");
        let disposition = file.field("content-disposition");
        match *kind {
            "image/png" => assert!(sent == "image/png" && disposition.starts_with("inline"), "{name}: {disposition}"),
            _ => assert!(
                sent == "application/octet-stream" && disposition.starts_with("attachment"),
                "{name}: {sent} {disposition}"
            ),
        }
        assert_eq!(file.field("x-content-type-options"), "nosniff", "{name}");
        assert!(file.field("content-security-policy").starts_with("sandbox; default-src 'none'"), "{name}");
        assert!(!disposition.contains("..") && !disposition.contains('\u{202e}'), "{disposition}");
    }
}

#[tokio::test]
async fn damaged_messages_are_shown_as_far_as_they_can_be() {
    let world = World::new();
    let messages = [
        "",
        "\r\n\r\n",
        "no header at all",
        "Subject: =?utf-8?B?w6?= \u{202e}evil\r\nFrom: \"<script>\" <x>, , <@>\r\n\r\n\0\u{1}",
        "Content-Type: multipart/mixed\r\n\r\nno boundary",
        "Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x",
        "Content-Type: text/html; charset=\"x-unknown\"\r\nContent-Transfer-Encoding: x-what\r\n\r\n<b>",
        "Content-Type: message/rfc822\r\n\r\nContent-Type: message/rfc822\r\n\r\n",
        "Date: 99999999999\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\n%%%%",
    ];
    let uids: Vec<_> = messages.iter().map(|raw| world.put("ann", "INBOX", raw)).collect();
    let mut browser = world.logged_in("ann").await;
    let inbox = world.folder("ann", "INBOX");
    let list = browser.get("/lite/").await;
    assert!(list.has("1–9 of 9") && !list.has("\u{202e}") && !list.has("<script>"), "{}", list.text());
    for (uid, raw) in uids.iter().zip(messages) {
        let path = format!("/lite/folder/{inbox}/{uid}");
        let page = browser.get(&path).await;
        assert_eq!(page.status.as_u16(), 200, "{raw:?}");
        assert!(!page.has("<script>") && !page.has("\u{202e}"), "{}", page.text());
        for rest in ["/raw", "?all"] {
            assert_eq!(browser.get(&format!("{path}{rest}")).await.status.as_u16(), 200, "{raw:?} {rest}");
        }
        for query in ["reply", "all", "forward"] {
            let page = browser.get(&format!("/lite/compose?{query}={inbox}.{uid}")).await;
            assert_eq!(page.status.as_u16(), 200, "{raw:?} {query}");
        }
    }
}
