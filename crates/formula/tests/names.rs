//! Functions of names and addresses.

use crate::fixture::check;

#[test]
fn parts_of_names() {
    check(
        "Me=CN=Ann Smith/OU=Field/OU=Sales/O=Acme/C=US",
        &[
            ("@Name([CN]; Me)", "\"Ann Smith\""),
            ("@Name([cn]; Me)", "\"Ann Smith\""),
            ("@Name([O]; Me)", "\"Acme\""),
            ("@Name([C]; Me)", "\"US\""),
            ("@Name([OU1]; Me)", "\"Sales\""),
            ("@Name([OU2]; Me)", "\"Field\""),
            ("@Name([OU3]; Me)", "\"\""),
            ("@Name([Abbreviate]; Me)", "\"Ann Smith/Field/Sales/Acme/US\""),
            ("@Name([Canonicalize]; \"Ann Smith/Sales/Acme\")", "\"CN=Ann Smith/OU=Sales/O=Acme\""),
            ("@Name([HierarchyOnly]; Me)", "\"Field/Sales/Acme/US\""),
            ("@Name([ToKeyword]; \"CN=Ann Smith/OU=Sales/O=Acme\")", "\"Acme\\\\Sales\""),
            ("@Name([CN]; \"Ann\":\"CN=Bob/O=Acme\")", "\"Ann\" : \"Bob\""),
            ("@Name([O]; \"Ann\")", "\"\""),
            ("@Name([CN]; \"\")", "\"\""),
            ("@Name([CN]; \"Ann Smith/Sales/Acme\")", "\"Ann Smith\""),
            ("@Name([XY]; Me)", "error: The specified [KeyWord] is not appropriate when used with this @Function"),
            ("o := [O]; @Name(o; Me)", "\"Acme\""),
        ],
    );
}

#[test]
fn addresses() {
    check(
        "",
        &[
            ("@Name([Address821]; \"\\\"Ann Smith\\\" <ann@acme.test>\")", "\"ann@acme.test\""),
            ("@Name([Address821]; \"ann@acme.test (Ann)\")", "\"ann@acme.test\""),
            ("@Name([Address821]; \"ann@acme.test\")", "\"ann@acme.test\""),
            ("@Name([Address821]; \"Ann Smith/Acme\")", "\"\""),
            ("@Name([LP]; \"Ann <ann@acme.test>\")", "\"ann\""),
            ("@Name([Phrase]; \"\\\"Ann Smith\\\" <ann@acme.test>\")", "\"Ann Smith\""),
            ("@Name([CN]; \"Ann Smith <ann@acme.test>\")", "\"Ann Smith\""),
            ("@ValidateInternetAddress([Address821]; \"ann@acme.test\")", "\"\""),
            ("@ValidateInternetAddress([Address822]; \"Ann <ann@acme.test>\")", "\"\""),
            ("@ValidateInternetAddress([Address821]; \"ann\")", "\"The address has no @\""),
            (
                "@ValidateInternetAddress([Address821]; \"a b@acme.test\")",
                "\"The part before the @ has characters that it may not have\"",
            ),
            (
                "@ValidateInternetAddress([Address821]; \"ann@acme..test\")",
                "\"The part after the @ is not the name of a host\"",
            ),
            (
                "@ValidateInternetAddress([Address821]; \"@acme.test\")",
                "\"The address has nothing before or after its @\"",
            ),
            ("@NameLookup([NoUpdate]; \"Ann Smith\"; \"InternetAddress\")", "\"ann@acme.test\""),
            ("@NameLookup([NoUpdate]; \"Nobody\"; \"InternetAddress\")", "\"\""),
        ],
    );
}
