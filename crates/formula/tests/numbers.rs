//! Tests of functions of numbers.

use crate::fixture::check;

#[test]
fn numbers_are_rounded() {
    check(
        "",
        &[
            ("@Abs(-5)", "5"),
            ("@Abs(-1:2:-3)", "1 : 2 : 3"),
            ("@Abs(\"a\")", "error: Incorrect data type for operator or @Function: Number expected"),
            ("@Integer(123.001)", "123"),
            ("@Integer(-1.9)", "-1"),
            ("@Round(1.499)", "1"),
            ("@Round(1.5)", "2"),
            ("@Round(-1.5)", "-2"),
            ("@Round(1234.567; .1)", "1234.6"),
            ("@Round(17; 5)", "15"),
            ("@Round(1; 0)", "error: The result is not a number"),
            ("@Modulo(4; 3)", "1"),
            ("@Modulo(-14; 3)", "-2"),
            ("@Modulo(5:6:7; 3)", "2 : 0 : 1"),
            ("@Modulo(5; 0)", "error: The result is not a number"),
            ("-5 : -7", "-5 : 7"),
            ("@Sign((-3):0:2)", "-1 : 0 : 1"),
        ],
    );
}

#[test]
fn sums_and_extremes_are_computed() {
    check(
        "Sizes=#3 1 2",
        &[
            ("@Sum(1:2; 10)", "13"),
            ("@Sum(Sizes)", "6"),
            ("@Sum(\"\")", "error: Incorrect data type for operator or @Function: Number expected"),
            ("@Min(Sizes)", "1"),
            ("@Max(Sizes)", "3"),
            ("@Max((-5):(-7))", "-5"),
            ("@Min(99:2:3; 5:6:7:8)", "5 : 2 : 3 : 3"),
            ("@Max(1; 3)", "3"),
            ("@Max([1/1/2024]:[1/2/2024])", "[01/02/2024]"),
            ("@Max([1/1/2024]:[1/5/2024]; [1/3/2024])", "[01/03/2024] : [01/05/2024]"),
            ("@Min([1/1/2024]; [1/2/2024])", "[01/01/2024]"),
        ],
    );
}

#[test]
fn powers_and_angles_are_computed() {
    check(
        "",
        &[
            ("@Power(2; 10)", "1024"),
            ("@Power(2:3; 2)", "4 : 9"),
            ("@Power(-1; .5)", "error: The result is not a number"),
            ("@Sqrt(16)", "4"),
            ("@Sqrt(-1)", "error: The result is not a number"),
            ("@Exp(0)", "1"),
            ("@Ln(1)", "0"),
            ("@Ln(0)", "error: The result is not a number"),
            ("@Log(1000)", "3"),
            ("@Round(@Pi; .0001)", "3.1416"),
            ("@Sin(0) : @Cos(0) : @Tan(0)", "0 : 1 : 0"),
            ("@Round(@ASin(1) - @Pi / 2)", "0"),
            ("@ACos(1)", "0"),
            ("@ATan(0)", "0"),
            ("@FloatEq(@ATan2(0; 1); @Pi / 2)", "1"),
            ("@FloatEq(1; 1.001)", "0"),
            ("@FloatEq(1; 1.001; .01)", "1"),
            ("@Round(@Random; .01)", "0.25"),
        ],
    );
}
