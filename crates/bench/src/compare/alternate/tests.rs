//! Tests of the order of turns and of their ratios.

use super::*;

fn turn(side: Side, values: &[(&str, f64)]) -> Turn {
    let figures = values.iter().map(|(name, value)| TurnFigure {
        name: (*name).to_owned(),
        unit: "ms".to_owned(),
        value: *value,
    });
    Turn {
        side,
        report: format!("{}-1", side.letter()),
        state: State::Valid.name().to_owned(),
        figures: figures.collect(),
    }
}

fn settings() -> Settings {
    Settings {
        workload: "n8mail".to_owned(),
        a: vec!["store.sync=group".to_owned()],
        b: vec!["store.sync=off".to_owned()],
        run: Vec::new(),
        has_own_populations: false,
    }
}

/// Returns the result of five turns of each setting with these values of A and B.
fn alternated(name: &str, a: [f64; 5], b: [f64; 5]) -> Alternation {
    let mut values = [a.iter(), b.iter()];
    let turns = order(5).map(|side| {
        let value = values[side as usize].next().expect("five of each");
        turn(side, &[(name, *value)])
    });
    Alternation::new(settings(), turns.collect())
}

#[test]
fn settings_take_turns() {
    let letters = |turns| order(turns).map(Side::letter).collect::<String>();
    assert_eq!(letters(5), "abbaabbaab");
    assert_eq!(letters(2), "abba");
}

#[test]
fn ratios_are_those_of_turns_of_the_same_number() {
    let result = alternated("x", [10.0, 20.0, 10.0, 10.0, 10.0], [20.0, 40.0, 30.0, 20.0, 20.0]);
    let row = result.row("x").expect("all turns have it");
    assert_eq!((row.a, row.b, row.judgement), (10.0, 20.0, Judgement::Differs));
    assert_eq!(row.ratio, Some(Ratio { median: 2.0, low: 2.0, high: 3.0 }));
    assert!((result.coverage - 0.937_5).abs() < 1e-9);
}

#[test]
fn differences_within_the_spread_are_none() {
    let judgement = |a, b| alternated("x", a, b).rows[0].judgement;
    assert_eq!(judgement([1.0; 5], [1.1, 1.2, 0.9, 1.1, 1.1]), Judgement::None);
    assert_eq!(judgement([0.0; 5], [0.0; 5]), Judgement::None, "both are 0");
    assert_eq!(judgement([0.0; 5], [0.0, 0.0, 1.0, 0.0, 0.0]), Judgement::NotJudged, "there is no ratio");
}

#[test]
fn figures_that_a_turn_does_not_have_are_left_out() {
    let mut result = alternated("x", [1.0; 5], [1.0; 5]);
    result.turns[3].figures.clear();
    assert_eq!(Alternation::new(settings(), result.turns).rows, []);
    assert_eq!(Alternation::new(settings(), Vec::new()).rows, []);
}

#[test]
fn turns_that_ended_early_have_a_state_and_no_figures() {
    let turns = vec![turn(Side::A, &[("x", 1.0)]), turn(Side::B, &[("x", 2.0)])];
    let broken_off = Alternation {
        state: State::BrokenOff.name().to_owned(),
        title: "N8Mail, 3 users".to_owned(),
        ..Alternation::incomplete(settings(), turns)
    };
    assert!(!broken_off.is_complete() && broken_off.rows.is_empty());
    let text = output::format(&broken_off);
    assert!(text.contains("- turns: A B\n"), "{text}");
    let end = "\n**State: broken off.** The turns ended early, so there are no figures of both settings.\n";
    assert!(text.ends_with(end), "{text}");
    let none = Alternation { turns: Vec::new(), ..broken_off };
    assert!(output::format(&none).contains("- turns: none\n"));
}

#[test]
fn results_are_stored_and_read_and_formatted() {
    let mut result = alternated("read (users)", [2.0; 5], [1.0; 5]);
    result.title = "N8Mail, 3 users".to_owned();
    result.turns[1].state = State::NotValid.name().to_owned();
    let json = serde_json::to_string(&result).expect("it is JSON");
    assert_eq!(serde_json::from_str::<Alternation>(&json).expect("it was written"), result);
    let text = output::format(&result);
    let lines = [
        "# A against B: N8Mail, 3 users",
        "- A: `store.sync=group`",
        "- both: no further options",
        "- turns: A B B A A B B A A B",
        "- **Note: 1 of 10 turns are not valid (2): their reports say why**",
        "| read (users) | ms | 2.000 | 1.000 | 0.500 | 0.500 to 0.500 | -50.0 % |",
        "the true median is within the spread with a probability of 93.8 %",
    ];
    for line in lines {
        assert!(text.contains(line), "{line}: {text}");
    }
}
