//! Prints the list of functions as it stands in `docs/formula.md`, between its two comments.

fn main() {
    print!("{}", formula::functions::markdown());
}
