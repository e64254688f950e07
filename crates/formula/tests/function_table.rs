//! Tests of the function table: it agrees with `docs/formula.md`, and every function can be called.

use formula::functions::{all, find, markdown};

#[test]
fn the_page_lists_the_functions() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formula.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let (_, rest) = page.split_once("<!-- functions -->\n").expect("the list begins");
    let (listed, _) = rest.split_once("<!-- end -->").expect("the list ends");
    assert!(listed.trim() == markdown().trim(), "put this into docs/formula.md:\n\n{}", markdown());
}

#[test]
fn names_are_there_once() {
    let mut names: Vec<String> = all().map(|function| function.name.to_lowercase()).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(all().all(|function| (1..=3).contains(&function.tier) && function.help.ends_with('.')));
}

#[test]
fn what_views_mail_and_agents_need_is_there() {
    let needed = "@All @AllChildren @AllDescendants @IsResponseDoc @If @IsAvailable @IsUnavailable @IsMember @IsNotMember @Member @Contains @Begins \
        @Ends @Matches @Like @Trim @Left @Right @Middle @LeftBack @RightBack @Word @Length @LowerCase @UpperCase @ProperCase @Text @TextToNumber \
        @TextToTime @Date @Time @Day @Month @Year @Hour @Minute @Weekday @Adjust @Created @Modified @Accessed @Now @Today @Yesterday @Tomorrow @Elements \
        @Subset @Unique @Explode @Implode @Replace @ReplaceSubstring @Sort @Transform @Sum @Min @Max @Abs @Round @Integer @Modulo @Name @Author \
        @DocLength @DocumentUniqueID @NoteID @Attachments @AttachmentNames @AttachmentLengths @DocLevel @DocNumber @DocSiblings @DocChildren \
        @DocDescendants @DocParentNumber @IsCategory @IsExpandable @Responses @NewLine @Char @True @Yes @False @No @Error @IsError @Return @Do @Keywords \
        @Select @Count @Version @DeleteDocument @HardDeleteDocument @UndeleteDocument @Unavailable @SetField @GetField @GetDocField @SetDocField \
        @GetProfileField @SetProfileField @DbLookup @DbColumn @MailSend @UserName @UserNamesList @UserRoles @UserAccess @ServerName @DbName @DbTitle \
        @ReplicaID @ViewTitle @Environment @SetEnvironment @AddToFolder @Domain @NameLookup @ValidateInternetAddress @TimeMerge @GetCurrentTimeZone \
        @For @While @DoWhile @Eval @Random @Repeat @CheckFormulaSyntax @Command @HashPassword @Password @VerifyPassword";
    let missing: Vec<&str> = needed.split_whitespace().filter(|name| find(name).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
