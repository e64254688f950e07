//! Tests of functions of times. The current time is Sunday, 2024-06-02, 14:30:45 in Berlin.

use base::Timestamp;
use formula::locale::Locale;
use formula::{Formula, FormulaOptions, Zone};

use crate::fixture::{LineDocument, Server, check, options};

#[test]
fn current_time_and_its_parts_are_returned() {
    check(
        "Posted=@2024-03-31 03:30",
        &[
            ("@Now", "[06/02/2024 02:30:45 PM]"),
            ("@Today", "[06/02/2024]"),
            ("@Tomorrow", "[06/03/2024]"),
            ("@Yesterday", "[06/01/2024]"),
            ("@Year(@Now) : @Month(@Now) : @Day(@Now)", "2024 : 6 : 2"),
            ("@Hour(@Now) : @Minute(@Now) : @Second(@Now)", "14 : 30 : 45"),
            ("@Weekday(@Now)", "1"),
            ("@Weekday([6/8/2024])", "7"),
            ("@Year([10:00])", "-1"),
            ("@Hour(@Today)", "-1"),
            ("@Hour(Posted)", "3"),
            ("@Year([1/1/2023]:[1/1/2024])", "2023 : 2024"),
            ("@Year(\"x\")", "error: Incorrect data type for operator or @Function: Time/Date expected"),
            ("@Date(@Now) = @Today", "1"),
            ("@Time(@Now)", "[02:30:45 PM]"),
            ("@Now - @Today", "52245"),
        ],
    );
}

#[test]
fn dates_and_times_are_constructed() {
    check(
        "",
        &[
            ("@Date(1995; 6; 23)", "[06/23/1995]"),
            ("@Date(95; 6; 23)", "[06/23/0095]"),
            ("@Year(@Date(95; 6; 23))", "95"),
            ("@Date(2024; 6; 23; 14; 26; 0)", "[06/23/2024]"),
            ("@Time(1951; 4; 11; 23; 50; 30)", "[04/11/1951 11:50:30 PM]"),
            ("@Date([6/23/2024 14:26])", "[06/23/2024]"),
            ("@Date(2024; 13; 1)", "error: The value cannot be converted to a Time/Date."),
            ("@Date(2024; 6)", "error: The @Date and @Time functions must have exactly 1, 3, or 6 arguments."),
            ("@Date(\"x\")", "error: Incorrect data type for operator or @Function: Time/Date expected"),
            ("@Time(14; 26; 5)", "[02:26:05 PM]"),
            ("@Time([6/23/2024 14:26])", "[02:26:00 PM]"),
            ("@Time(25; 0; 0)", "error: The value cannot be converted to a Time/Date."),
            ("@TimeMerge([6/23/2024]; [2:26 PM])", "[06/23/2024 02:26:00 PM]"),
            ("@TimeMerge([6/23/2024]:[6/24/2024]; [2:00 PM])", "[06/23/2024 02:00:00 PM] : [06/24/2024 02:00:00 PM]"),
            ("@TimeMerge([1/5/2024]; [10:00]:[11:00])", "[01/05/2024 10:00:00 AM] : [01/05/2024 11:00:00 AM]"),
            (
                "@TimeMerge([1/5/2024]:[1/6/2024]; [10:00]:[11:00]:[12:00])",
                "[01/05/2024 10:00:00 AM] : [01/06/2024 11:00:00 AM] : [01/06/2024 12:00:00 PM]",
            ),
            ("@TimeMerge([1/15/2024]; [9:00]; \"America/New_York\")", "[01/15/2024 03:00:00 PM]"),
            ("@TimeMerge([1/15/2024]; [9:00]; \"Mars\")", "error: Unknown time zone"),
            ("@TimeMerge([9:00]; [9:00])", "error: Incorrect data type for operator or @Function: Time/Date expected"),
        ],
    );
}

#[test]
fn times_are_adjusted() {
    check(
        "",
        &[
            ("@Adjust([06/30/95]; 2; 2; 2; 0; 0; 0)", "[09/02/1997]"),
            ("@Adjust([2/2/2006]; 0; 2; 28; 0; 0; 0)", "[05/02/2006]"),
            ("@Adjust(@Adjust([02/02/2006]; 0; 2; 0; 0; 0; 0); 0; 0; 28; 0; 0; 0)", "[04/30/2006]"),
            ("@Adjust([10/1/2014]; 0; 3; -1; 0; 0; 0)", "[12/30/2014]"),
            ("@Adjust([1/31/2024]; 0; 1; 0; 0; 0; 0)", "[03/02/2024]"),
            ("@Adjust([2/29/2024]; 1; 0; 0; 0; 0; 0)", "[03/01/2025]"),
            ("@Adjust([1/15/2024]; 0; -1; 0; 0; 0; 0)", "[12/15/2023]"),
            ("@Adjust([10:00]; 0; 0; 0; -11; 0; 0)", "[11:00:00 PM]"),
            ("@Adjust([1/1/2024 23:30]; 0; 0; 0; 0; 45; 0)", "[01/02/2024 12:15:00 AM]"),
            ("@Adjust([3/30/2024 12:00]; 0; 0; 1; 0; 0; 0)", "[03/31/2024 01:00:00 PM]"),
            ("@Adjust([3/30/2024 12:00]; 0; 0; 1; 0; 0; 0; [InLocalTime])", "[03/31/2024 12:00:00 PM]"),
            ("@Adjust([1/1/2024]:[2/1/2024]; 0; 0; 1; 0; 0; 0)", "[01/02/2024] : [02/02/2024]"),
            ("@Adjust([1/1/2024 - 1/5/2024]; 0; 1; 0; 0; 0; 0)", "[02/01/2024 - 02/05/2024]"),
            ("@Adjust([1/1/2024]; 9999999; 0; 0; 0; 0; 0)", "error: The value cannot be converted to a Time/Date."),
            ("@Adjust([1/1/2024]; 0; 1E300; 0; 0; 0; 0)", "error: The value cannot be converted to a Time/Date."),
            ("@Adjust([1/1/2024 1:00]; 0; 0; 0; 1E300; 0; 0)", "error: The value cannot be converted to a Time/Date."),
            ("@BusinessDays([1/1/2001]; [12/31/2001]; 1:7)", "261"),
            ("@BusinessDays([6/3/2024]; [6/9/2024]; 1:7; [6/5/2024])", "4"),
            ("@BusinessDays([6/3/2024]; [6/9/2024])", "7"),
            ("@BusinessDays([6/3/2024]; [6/9/2024]; 1.2:6.5:0.4:9)", "5"),
            ("@BusinessDays([6/9/2024]; [6/3/2024])", "-1"),
            ("@BusinessDays([6/3/2024]:[6/9/2024]; [6/9/2024]; 1)", "6 : 0"),
        ],
    );
}

#[test]
fn time_zones_are_applied() {
    check(
        "",
        &[
            ("@Zone", "-1.1"),
            ("@Zone([1/1/2024 12:00])", "-1"),
            ("@Zone([7/1/2024 12:00])", "-1.1"),
            ("@Zone([7/1/2024])", "0"),
            ("@Zone(@TimeMerge([1/1/2024]; [12:00]; \"America/New_York\"))", "5"),
            ("@Zone(@TimeMerge([7/1/2024]; [12:00]; \"America/New_York\"))", "5.1"),
            ("@Zone(@TimeMerge([1/1/2024]; [12:00]; \"America/St_Johns\"))", "3003"),
            ("@Zone(@TimeMerge([1/1/2024]; [12:00]; \"Asia/Kolkata\"))", "-3005"),
            ("@GetCurrentTimeZone", "\"Z=-1$DO=1$ZN=Europe/Berlin\""),
            ("@TimeMerge([1/15/2024]; [9:00]; \"Z=5$DO=1$ZN=America/New_York\")", "[01/15/2024 03:00:00 PM]"),
            ("@TimeZoneToText(@GetCurrentTimeZone)", "\"Europe/Berlin\""),
            ("@TimeZoneToText(\"Europe/Berlin\"; \"S\")", "\"CEST\""),
            ("@TimeToTextInZone([1/15/2024 15:00]; \"America/New_York\")", "\"01/15/2024 09:00:00 AM EST\""),
            ("@TimeToTextInZone([1/15/2024 15:00]; \"Asia/Tokyo\"; \"T1\":\"S1\")", "\"11:00 PM\""),
            ("@TimeToTextInZone([1/15/2024 15:00]; \"Asia/Tokyo\"; \"T1S1\")", "\"11:00 PM\""),
            // The hour that the change to daylight saving time skips, and the one that the change back repeats.
            ("@Text([3/31/2024 2:30]; \"Z2\")", "\"03/31/2024 03:30:00 AM CEST\""),
            ("@Text([10/27/2024 2:30]; \"Z2\")", "\"10/27/2024 02:30:00 AM CEST\""),
            ("[10/27/2024 12:00] - [10/26/2024 12:00]", "90000"),
            ("[10/27/2024] - [10/26/2024]", "86400"),
            ("[2024-07-01T10:00:00Z]", "[07/01/2024 12:00:00 PM]"),
            ("[7/1/2024 10:00 GMT]", "[07/01/2024 12:00:00 PM]"),
        ],
    );
}

#[test]
fn times_are_formatted_and_parsed() {
    check(
        "",
        &[
            ("@Text(@Now)", "\"06/02/2024 02:30:45 PM\""),
            ("@Text(@Now; \"S0\")", "\"06/02/2024\""),
            ("@Text(@Now; \"S1\")", "\"02:30:45 PM\""),
            ("@Text(@Now; \"S1T1\")", "\"02:30 PM\""),
            ("@Text(@Now; \"D1S0\")", "\"06/02\""),
            ("@Text([1/2/2023]; \"D1S0\")", "\"01/02/2023\""),
            ("@Text([12/31/2024 10:00]; \"D2\":\"S0\")", "\"12/31\""),
            ("@Text([12/31/2024 10:00]; \"D0\":\"T1\":\"Z2\":\"S2\")", "\"12/31/2024 10:00 AM CET\""),
            ("@Text(@Now; 1)", "error: Incorrect data type for operator or @Function: Text expected"),
            ("@Text(@Now; \"D2S0\")", "\"06/02\""),
            ("@Text(@Now; \"D3S0\")", "\"06/2024\""),
            ("@Text(@Now; \"S3T1\")", "\"Today 02:30 PM\""),
            ("@Text(@Yesterday; \"S3\")", "\"Yesterday\""),
            ("@Text(@Now; \"D0T0Z2S2\")", "\"06/02/2024 02:30:45 PM CEST\""),
            ("@Text([10:00])", "\"10:00:00 AM\""),
            ("@Text([12:00 AM])", "\"12:00:00 AM\""),
            ("@Text([12:00 PM])", "\"12:00:00 PM\""),
            ("@Text([1/1/2024 - 1/5/2024]; \"D2\")", "\"01/01 - 01/05\""),
            ("@TextToTime(\"6/23/2024\")", "[06/23/2024]"),
            ("@TextToTime(\"6/23/24\")", "[06/23/2024]"),
            ("@TextToTime(\"6/23/50\")", "[06/23/1950]"),
            ("@TextToTime(\"6/23\")", "[06/23/2024]"),
            ("@TextToTime(\"6/23/2024 2:26 PM\")", "[06/23/2024 02:26:00 PM]"),
            ("@TextToTime(\"6/23/2024 2:26pm\")", "[06/23/2024 02:26:00 PM]"),
            ("@TextToTime(\"14:26\")", "[02:26:00 PM]"),
            ("@TextToTime(\"Today\")", "[06/02/2024]"),
            ("@TextToTime(\"Yesterday 10:00\")", "[06/01/2024 10:00:00 AM]"),
            ("@TextToTime(\"2024-06-23T14:26:05Z\")", "[06/23/2024 04:26:05 PM]"),
            ("@TextToTime(\"1/1/2024 9:00 America/New_York\")", "[01/01/2024 03:00:00 PM]"),
            ("@TextToTime(\"nonsense\")", "error: The value cannot be converted to a Time/Date."),
            ("@TextToTime(\"2/30/2024\")", "error: The value cannot be converted to a Time/Date."),
            ("@TextToTime(\"13:00 PM\")", "error: The value cannot be converted to a Time/Date."),
            ("@TextToTime(\"\")", "error: The value cannot be converted to a Time/Date."),
            ("@ToTime(@Today)", "[06/02/2024]"),
            ("@ToTime(\"6/23/2024\")", "[06/23/2024]"),
        ],
    );
}

#[test]
fn time_literals_are_parsed() {
    check(
        "",
        &[
            ("[12/25]", "[12/25/2024]"),
            ("[6/30 5:30 PM]", "[06/30/2024 05:30:00 PM]"),
            ("[5:30 PM 6/15]", "[06/15/2024 05:30:00 PM]"),
            ("@IsTime([12/25]) : @IsTime([6/30 5:30 PM]) : @IsTime([17:30 EST])", "1 : 1 : 1"),
            ("[12/24 - 12/26]", "[12/24/2024 - 12/26/2024]"),
            ("[2/29]", "[02/29/2024]"),
            ("[Today 10:00]", "[06/02/2024 10:00:00 AM]"),
            ("[10:00 tomorrow]", "[06/03/2024 10:00:00 AM]"),
            ("[5 PM] : [12 a.m.] : [7pm]", "[05:00:00 PM] : [12:00:00 AM] : [07:00:00 PM]"),
            ("[17:30 EST]", "[05:30:00 PM]"),
            ("[1/15/2024 9:00 EST]", "[01/15/2024 03:00:00 PM]"),
            ("[7/15/2024 9:00 AM EDT]", "[07/15/2024 03:00:00 PM]"),
            ("@Zone([7/15/2024 9:00 AM EDT])", "5.1"),
            ("[7/15/2024 9:00 ze9]", "[07/15/2024 02:00:00 AM]"),
            ("[1/15/2024 9:00 America/New_York]", "[01/15/2024 03:00:00 PM]"),
            ("[Today's] : [Role1]", "\"[Today's]\" : \"[Role1]\""),
            ("@TextToTime(\"2024-01-05 10:00 Europe/Amsterdam\")", "[01/05/2024 10:00:00 AM]"),
            ("@TextToTime(\"2024-01-05 10:00 Pacific/Guam\")", "[01/05/2024 01:00:00 AM]"),
            ("@TextToTime(\"2024-01-05 10:00 CET\")", "[01/05/2024 10:00:00 AM]"),
            ("@TextToTime(\"10:00 Nowhere\")", "error: The value cannot be converted to a Time/Date."),
            ("@TextToTime(\"10:00xm\")", "error: The value cannot be converted to a Time/Date."),
            ("@TextToTime(\"13 PM\")", "error: The value cannot be converted to a Time/Date."),
        ],
    );
    let wrong = |source: &str| Formula::compile(source, &options()).err().map(|error| error.to_string());
    for source in
        ["[02/30/2024]", "[2/30]", "[25:00]", "[13/1]", "[1]", "[10:00 XYZ]", "[1/1/2024 - 25:00]", "[2/29/2023]"]
    {
        let expected = Some("line 1, column 7: Invalid date or time".to_owned());
        assert_eq!(wrong(&format!("@Year({source})")), expected, "{source}");
    }
}

#[test]
fn other_locales_change_formats() {
    let german = FormulaOptions { locale: Locale::GERMAN, ..options() };
    let cases = [
        ("@Text([31.12.2024 23:59])", "31.12.2024 23:59:00"),
        ("@Text(1234.5; \"F,2\")", "1.234,50"),
        ("@Text(@TextToNumber(\"1.234,5\"))", "1234,5"),
        ("@Text(@TextToTime(\"31.12.\" + \"2024\"))", "31.12.2024"),
        ("@Text([2024-12-31])", "31.12.2024"),
    ];
    let iso = FormulaOptions { locale: Locale::ISO, zone: Zone::default(), ..FormulaOptions::default() };
    for (options, cases) in [(german, &cases[..]), (iso, &[("@Text([2024-12-31 10:00])", "2024-12-31 10:00:00")])] {
        for (source, expected) in cases {
            let formula = Formula::compile(source, &options).expect("the cases above compile");
            let paper = LineDocument::new("");
            let value = formula.evaluate(&paper, &Server).expect("no limit is near").value;
            assert_eq!(formula::print_value::render(&value, &options, Timestamp(0)), *expected, "{source}");
        }
    }
}
