//! Tests of functions that query the document, the view and the host.

use base::Timestamp;
use formula::{Formula, FormulaOptions, Host};

use crate::fixture::{LineDocument, check, write};

#[test]
fn document_functions_return_properties() {
    check(
        "Form=Memo | $UpdatedBy=CN=Ann/O=Acme ~ CN=Bob/O=Acme | Empty=",
        &[
            ("@All", "1"),
            ("@Created", "[05/23/2024 02:30:45 PM]"),
            ("@Modified", "[05/28/2024 02:30:45 PM]"),
            ("@Accessed", "[06/01/2024 02:30:45 PM]"),
            ("@AddedToThisFile", "error: @Function is not valid in this context"),
            ("@Author", "\"CN=Ann/O=Acme\" : \"CN=Bob/O=Acme\""),
            ("@DocOmmittedLength", "0"),
            ("@DocLength", "1234"),
            ("@DocFields", "\"Form\" : \"$UpdatedBy\" : \"Empty\""),
            ("@DocumentUniqueID", "\"0123456789ABCDEF0123456789ABCDEF\""),
            ("@NoteID", "\"NT000008FA\""),
            ("@Attachments", "2"),
            ("@AttachmentNames", "\"a.txt\" : \"b.pdf\""),
            ("@AttachmentLengths", "10 : 2000"),
            ("@Elements(@AttachmentModifiedTimes)", "2"),
            ("@IsAvailable(Form)", "1"),
            ("@IsAvailable(form)", "1"),
            ("@IsAvailable(Empty)", "1"),
            ("@IsAvailable(Subject)", "0"),
            ("@IsUnavailable(Subject)", "1"),
            ("Subject := 1; @IsAvailable(Subject)", "0"),
            ("@IsResponseDoc", "0"),
            ("@IsNewDoc", "0"),
            ("@IsDocBeingSaved", "1"),
            ("@IsDocBeingEdited", "0"),
            ("@IsDocBeingLoaded : @IsDocBeingMailed : @IsDocBeingRecalculated : @IsDocTruncated", "0 : 0 : 0 : 0"),
            ("@InheritedDocumentUniqueID", "\"\""),
            ("@GetField(\"Form\")", "\"Memo\""),
            ("@GetField(\"fo\" + \"rm\")", "\"Memo\""),
            ("@GetField(\"Nothing\")", "\"\""),
        ],
    );
    check("$REF=0123456789ABCDEF0123456789ABCDEF", &[("@IsResponseDoc", "1")]);
}

#[test]
fn view_functions_return_the_position() {
    check(
        "",
        &[
            ("@DocLevel", "3"),
            ("@DocNumber", "\"2.1.4\""),
            ("@DocNumber(\"-\")", "\"2-1-4\""),
            ("@DocNumber(\"\")", "\"4\""),
            ("@DocParentNumber", "\"2.1\""),
            ("@DocSiblings", "7"),
            ("@DocChildren", "1"),
            ("@DocChildren(\"none\"; \"one response\"; \"% responses\")", "\"one response\""),
            ("@DocChildren(\"none\"; \"% responses\")", "\"1 responses\""),
            ("@DocChildren(\"% responses\")", "\"1 responses\""),
            ("@DocDescendants(\"none\"; \"one\"; \"There are %\")", "\"There are 3\""),
            ("@DocDescendants(\"% entries\")", "\"3 entries\""),
            ("@Responses", "3"),
            ("@IsCategory", "\"\""),
            ("@IsCategory(\"yes\"; \"no\")", "\"no\""),
            ("@IsExpandable", "\"+\""),
            ("@IsExpandable(\"more\"; \"\")", "\"more\""),
        ],
    );
}

#[test]
fn user_and_database_functions_return_their_values() {
    check(
        "",
        &[
            ("@UserName", "\"CN=Ann Smith/OU=Sales/O=Acme\""),
            ("@Name([CN]; @UserName)", "\"Ann Smith\""),
            ("@IsMember(\"[Boss]\"; @UserRoles)", "1"),
            ("@Elements(@UserNamesList)", "4"),
            ("@UserAccess(@DbName)", "\"4\" : \"1\" : \"0\""),
            ("@UserAccess(\"\"; [AccessLevel])", "4"),
            ("@ServerName", "\"CN=Hub/O=Acme\""),
            ("@DbName", "\"CN=Hub/O=Acme\" : \"mail/asmith.nsf\""),
            ("@Subset(@DbName; -1)", "\"mail/asmith.nsf\""),
            ("@DbTitle", "\"Ann Smith\""),
            ("@ReplicaID", "\"0123ABCD:4567EF89\""),
            ("@ViewTitle", "\"All\""),
            ("@Domain", "\"acme.test\""),
            ("@Platform", "\"UNIX\""),
            ("@Version", "\"1\""),
            ("@Language", "\"en\""),
            ("@LanguagePreference([Region])", "\"en\""),
            ("@WebDbName", "\"mail/asmith.nsf\""),
            ("@IsModalHelp | @IsEmbeddedInsideWCT", "0"),
            ("@ClientType", "\"None\""),
            ("@Environment(\"nothing\")", "\"\""),
        ],
    );
}

#[test]
fn passwords_are_hashed_and_compared_by_the_host() {
    check(
        "Stored=hash of sesame | Many=a ~ b",
        &[
            ("@HashPassword(\"sesame\")", "\"hash of sesame\""),
            ("@Password(\"sesame\")", "\"hash of sesame\""),
            ("@Password(Stored)", "\"hash of sesame\""),
            ("@Password(\"\")", "\"\""),
            ("@HashPassword(Many)", "\"hash of a\" : \"hash of b\""),
            ("@HashPassword(\"refused\")", "error: the password is too long"),
            ("@VerifyPassword(\"sesame\"; Stored)", "1"),
            ("@VerifyPassword(\"Sesame\"; Stored)", "0"),
            ("@VerifyPassword(\"sesame\"; \"sesame\")", "0"),
            ("@IsError(@HashPassword(1))", "1"),
        ],
    );
    let alone = Formula::compile("@VerifyPassword(\"a\"; \"b\")", &FormulaOptions::default()).expect("it compiles");
    let paper = LineDocument::new("");
    let clock = Clock;
    let outcome = alone.evaluate(&paper, &clock).expect("no limit is near");
    assert_eq!(write(&outcome.value), "error: @Function is not valid in this context", "views have no passwords");
}

/// A host with a clock and no other services, as views provide it.
struct Clock;

impl Host for Clock {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(0)
    }
}

#[test]
fn lookup_functions_return_values() {
    check(
        "",
        &[
            ("@DbColumn(\"\"; \"\"; \"Colours\"; 1)", "\"blue\" : \"red\""),
            ("@DbColumn(\"Notes\":\"NoCache\"; \"\":\"\"; \"Colours\"; 1)", "\"blue\" : \"red\""),
            ("@DbLookup(\"\"; \"\"; \"Colours\"; \"red\"; \"Code\")", "2"),
            ("@DbLookup(\"\"; \"\"; \"Colours\"; \"red\":\"blue\"; \"Code\")", "2 : 7"),
            ("@DbLookup(\"\"; \"\"; \"Colours\"; \"pink\"; \"Code\")", "error: Entry not found in index"),
            ("@DbLookup(\"\"; \"\"; \"Nowhere\"; \"red\"; 2)", "error: Cannot find the view"),
            ("@IfError(@DbLookup(\"\"; \"\"; \"Nowhere\"; \"red\"; 2); \"none\")", "\"none\""),
            ("@DbColumn(\"\"; \"\"; \"Colours\"; 0)", "error: Column numbers start at 1"),
            ("@GetDocField(\"00000000000000000000000000000001\"; \"Form\")", "\"Testform\""),
            ("@GetDocField(\"00000000000000000000000000000002\"; \"Form\")", "error: Document could not be found."),
            ("@GetDocField(\"12\"; \"Form\")", "error: Invalid UNID; UNID must be a 32-digit hex string."),
            ("@GetProfileField(\"CalendarProfile\"; \"Owner\")", "\"CN=Ann Smith/OU=Sales/O=Acme\""),
            ("@GetProfileField(\"CalendarProfile\"; \"Colour\"; @UserName)", "\"\""),
        ],
    );
}
