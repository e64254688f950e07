//! Prints the list of functions that stands between the two marker comments of `docs/formula.md`.

fn main() {
    print!("{}", formula::functions::markdown());
}
