//! Tests of list functions: counting, selecting, sorting, and splitting texts into lists.

use crate::fixture::check;

#[test]
fn list_elements_are_counted_and_selected() {
    check(
        "Team=Tom ~ Dick ~ Harry | One=x",
        &[
            ("@Elements(Team)", "3"),
            ("@Elements(\"\")", "0"),
            ("@Elements(Missing)", "0"),
            ("@Count(\"\")", "1"),
            ("@Count(Team)", "3"),
            (
                "@Subset(\"New Orleans\":\"London\":\"Frankfurt\":\"Tokyo\"; 3)",
                "\"New Orleans\" : \"London\" : \"Frankfurt\"",
            ),
            (
                "@Subset(\"New Orleans\":\"London\":\"Frankfurt\":\"Tokyo\"; -3)",
                "\"London\" : \"Frankfurt\" : \"Tokyo\"",
            ),
            ("@Subset(1:2; 9)", "1 : 2"),
            ("@Subset(1:2; -9)", "1 : 2"),
            ("@Subset(1:2; 0)", "error: The second argument to @Subset must not be zero"),
            ("@Subset(One; 1)", "\"x\""),
        ],
    );
}

#[test]
fn lists_are_sorted_and_compared() {
    check(
        "",
        &[
            (
                "@Sort(\"New Orleans\":\"London\":\"Frankfurt\":\"Tokyo\")",
                "\"Frankfurt\" : \"London\" : \"New Orleans\" : \"Tokyo\"",
            ),
            ("@Sort(\"CAT\":\"cat\":\"Cat\":\"bat\")", "\"bat\" : \"cat\" : \"Cat\" : \"CAT\""),
            ("@Sort(\"b\":\"A\":\"c\"; [DESCENDING])", "\"c\" : \"b\" : \"A\""),
            ("@Sort(\"B\":\"b\":\"a\"; [CASEINSENSITIVE])", "\"a\" : \"B\" : \"b\""),
            ("@Sort(\"é\":\"e\":\"f\":\"d\")", "\"d\" : \"e\" : \"é\" : \"f\""),
            ("@Sort(\"a-\":\"a1\":\"a'\":\"ab\":\"a b\")", "\"a b\" : \"a1\" : \"ab\" : \"a'\" : \"a-\""),
            ("@Sort(10:9:100:-1)", "-1 : 9 : 10 : 100"),
            ("@Sort(10:9:100; [DESCENDING])", "100 : 10 : 9"),
            ("@Sort([1/2/2024]:[1/1/2024])", "[01/01/2024] : [01/02/2024]"),
            ("@Sort(\"x\")", "\"x\""),
            (
                "@Sort(1:2; [SIDEWAYS])",
                "error: The specified [KeyWord] is not appropriate when used with this @Function",
            ),
            ("@Sort(\"ccc\":\"a\":\"bb\"; [CUSTOMSORT]; @Length($A) > @Length($B))", "\"a\" : \"bb\" : \"ccc\""),
            ("@Sort(\"a\":\"ccc\":\"bb\"; [CUSTOMSORT]; @Length($A) - @Length($B))", "\"a\" : \"bb\" : \"ccc\""),
            ("@Sort(1:2:3:4:5; [CUSTOMSORT]:[DESCENDING]; $A > $B)", "5 : 4 : 3 : 2 : 1"),
            (
                "@Sort(3:1:2; [CUSTOMSORT]; \"x\")",
                "error: Incorrect data type for operator or @Function: Number expected",
            ),
            ("@Sort(3:1:2; [CUSTOMSORT]; @Error)", "error: ERROR specified in formula"),
            ("@Sort(3:1:2; [CUSTOMSORT]; @Return($A))", "3"),
            ("@Sort(3:1:2; [CUSTOMSORT]; 1)", "2 : 1 : 3"),
            ("@Compare(\"alice\"; \"bobby\")", "-1"),
            (
                "@Compare(\"-a\":\"'a\":\"'\":\"1\":\"z\":\"é\"; \"1a\":\"1a\":\"-\":\"a\":\"#\":\"#\")",
                "-1 : -1 : -1 : -1 : -1 : -1",
            ),
            ("@Compare(\"new york\"; \"New Boston\")", "-1"),
            ("@Compare(\"new york\"; \"New Boston\"; [CASEINSENSITIVE])", "1"),
            ("@Compare(\"a\":\"A\":\"b\"; \"A\":\"b\":\"B\")", "-1 : -1 : -1"),
            ("@Compare(\"eb\"; \"éa\")", "-1"),
            ("@Compare(\"eb\"; \"éa\"; [ACCENTINSENSITIVE])", "1"),
            ("@Compare(\"e\u{301}\"; \"é\")", "0"),
            ("@Sort(\"new york\":\"New Boston\")", "\"New Boston\" : \"new york\""),
            ("\"-a\" < \"1a\"", "0"),
            ("@Compare(\"b\":\"a\"; \"a\":\"a\")", "1 : 0"),
            ("@Compare(\"a\"; \"A\")", "-1"),
            ("@Compare(\"a\"; \"A\"; [CASEINSENSITIVE])", "0"),
            ("@Compare(\"e\"; \"é\"; [ACCENTINSENSITIVE])", "0"),
        ],
    );
}

#[test]
fn texts_are_split_joined_and_replaced() {
    check(
        "Body=one\ntwo three",
        &[
            ("@Explode(\"Berlin; London Madrid\")", "\"Berlin\" : \"London\" : \"Madrid\""),
            ("@Explode(\"a,b,,c\"; \",\")", "\"a\" : \"b\" : \"c\""),
            ("@Explode(\"a,b,,c\"; \",\"; @True)", "\"a\" : \"b\" : \"\" : \"c\""),
            ("@Explode(\",a,\"; \",\"; 1)", "\"\" : \"a\" : \"\""),
            ("@Explode(\"bandage\"; \"and\")", "\"b\" : \"ge\""),
            ("@Explode(Body)", "\"one\" : \"two\" : \"three\""),
            ("@Explode(Body; \",\")", "\"one\" : \"two three\""),
            ("@Explode(Body; \" \"; 0; 0)", "\"one\\ntwo\" : \"three\""),
            ("@Explode(\"\")", "\"\""),
            ("@Explode([5/1/1996 - 5/3/1996])", "\"05/01/1996\" : \"05/02/1996\" : \"05/03/1996\""),
            ("@Explode([1/1/1000 - 1/1/2999])", "error: The time-date range argument of @Explode spans too many days"),
            ("@Implode(\"Minneapolis\":\"Detroit\":\"Chicago\"; \",\")", "\"Minneapolis,Detroit,Chicago\""),
            ("@Implode(\"Minneapolis\":\"Detroit\")", "\"Minneapolis Detroit\""),
            (
                "@Replace(\"red\":\"orange\":\"yellow\"; \"orange\":\"yellow\"; \"black\":\"brown\")",
                "\"red\" : \"black\" : \"brown\"",
            ),
            ("@Replace(\"red\":\"blue\"; \"blue\"; \"\")", "\"red\" : \"\""),
            ("@Replace(\"a\":\"b\"; \"a\":\"b\"; \"A\")", "\"A\" : \"\""),
            ("@ReplaceSubstring(\"I like hats\"; \"hats\"; \"cats\")", "\"I like cats\""),
            ("@ReplaceSubstring(\"I hate apples\"; \"hate\":\"apples\"; \"love\":\"peaches\")", "\"I love peaches\""),
            ("@ReplaceSubstring(\"a\":\"b\"; \"a\":\"b\"; \"A\")", "\"A\" : \"A\""),
            ("@ReplaceSubstring(\"aXbX\"; \"X\"; \"\")", "\"ab\""),
            ("@ReplaceSubstring(\"abc\"; \"\"; \"x\")", "\"abc\""),
        ],
    );
}

#[test]
fn lists_grow_in_loops() {
    check(
        "List=a ~ b",
        &[
            ("@For(n := 1; n <= 50000; n := n + 1; all := all : \"x\"); @Elements(all)", "50001"),
            ("List := List : \"c\"; List", "\"a\" : \"b\" : \"c\""),
            ("x := 1; x := x : x; x", "1 : 1"),
            ("x := 1; x := x : 2 : @Transform(3:4; \"y\"; y); x", "1 : 2 : 3 : 4"),
            ("x := 1; y := (x := x : 2); x : y", "1 : 2 : 1 : 2"),
            ("x := \"a\"; x := x : 1; x", "error: Incorrect data type for operator or @Function: Text expected"),
            ("FIELD x := 1; x := x : 2; x : @GetField(\"x\")", "1 : 2 : 1"),
        ],
    );
}
