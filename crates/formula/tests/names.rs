//! Tests of functions of names and addresses.

use crate::fixture::check;

#[test]
fn parts_of_names_are_extracted() {
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
            ("@Name([ToKeyword]; \"Ann Smith/Sales/East/Acme\")", "\"Acme\\\\East\\\\Sales\""),
            ("@Name([ToKeyword]; Me)", "\"US\\\\Acme\\\\Sales\\\\Field\""),
            ("@Name([ToKeyword]; \"John Doe\":\"ann@acme.test\")", "\"John Doe\" : \"ann@acme.test\""),
            ("@Name([HierarchyOnly]; \"OU=Sales/O=Acme\")", "\"Sales/Acme\""),
            ("@Name([HierarchyOnly]; \"Ann\")", "\"\""),
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
fn x400_labels_are_extracted_from_names() {
    check(
        "Me=G=John/I=B/S=Doe/Q=Jr/OU=Sales/O=Acme/P=Priv/A=Adm/C=US",
        &[
            (
                "@Name([G]; Me) : @Name([I]; Me) : @Name([S]; Me) : @Name([Q]; Me)",
                "\"John\" : \"B\" : \"Doe\" : \"Jr\"",
            ),
            ("@Name([P]; Me) : @Name([A]; Me) : @Name([C]; Me)", "\"Priv\" : \"Adm\" : \"US\""),
            ("@Name([O]; Me) : @Name([OU1]; Me) : @Name([CN]; Me)", "\"Acme\" : \"Sales\" : \"\""),
            ("@Name([G]; \"G=John/S=Doe/O=Acme\")", "\"John\""),
            ("@Name([G]; \"CN=John B Doe/G=John/O=Acme\")", "\"John\""),
            ("@Name([OU2]; \"CN=John B Doe/G=John/OU=Sales/O=Acme\")", "\"\""),
            ("@Name([Canonicalize]; \"G=John/S=Doe/O=Acme\")", "\"G=John/S=Doe/O=Acme\""),
            ("@Name([Abbreviate]; \"G=John/S=Doe/O=Acme\")", "\"John/Doe/Acme\""),
            ("@Name([G]; \"Ann Smith/Acme\")", "\"\""),
        ],
    );
}

#[test]
fn parts_of_addresses_are_extracted() {
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
            ("@Name([CN]; \"jdoe@x.y\":\"<jdoe@x.y>\":\"jdoe@x.y (John)\")", "\"jdoe\" : \"jdoe\" : \"jdoe\""),
            ("@Name([CN]; \"Ann Smith/Sales/Acme@Home\":\"Ann Smith@Home\")", "\"Ann Smith\" : \"Ann Smith\""),
            (
                "@Name([Abbreviate]; \"ann@acme.test\") : @Name([Canonicalize]; \"ann@acme.test\")",
                "\"ann@acme.test\" : \"ann@acme.test\"",
            ),
            ("@Name([O]; \"ann@acme.test\")", "\"\""),
            ("@ValidateInternetAddress([Address821]; \"ann@acme.test\")", "\"\""),
            ("@ValidateInternetAddress([Address822]; \"Ann <ann@acme.test>\")", "\"\""),
            ("@ValidateInternetAddress([Address821]; \"ann\")", "\"The address has no @\""),
            (
                "@ValidateInternetAddress([Address821]; \"a b@acme.test\")",
                "\"The part before the @ contains invalid characters\"",
            ),
            (
                "@ValidateInternetAddress([Address821]; \"ann@acme..test\")",
                "\"The part after the @ is not a valid host name\"",
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
