//! Tests of random changes against a naive model of address owners and group membership.

use std::collections::{BTreeMap, BTreeSet};

use directory::{GroupChange, NewGroup, NewUser, PersonChange};
use proptest::prelude::*;

use crate::fixture::World;

const NAMES: u8 = 6;

#[derive(Debug, Clone)]
enum Step {
    UserAdd(u8),
    UserRemove(u8),
    AliasAdd(u8, u8),
    AliasRemove(u8, u8),
    GroupAdd(u8),
    GroupRemove(u8),
    MemberAdd(u8, String),
    MemberRemove(u8, String),
    Rebuild,
    Crash,
}

/// Users by number, with the numbers of their addresses, and groups by number, with their members.
#[derive(Debug, Default, Clone)]
struct Model {
    users: BTreeMap<u8, BTreeSet<u8>>,
    groups: BTreeMap<u8, BTreeSet<String>>,
}

fn any_step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES;
    let member = || prop_oneof![name().prop_map(user), name().prop_map(group)];
    prop_oneof![
        4 => name().prop_map(Step::UserAdd),
        1 => name().prop_map(Step::UserRemove),
        3 => (name(), name()).prop_map(|(user, address)| Step::AliasAdd(user, address)),
        2 => (name(), name()).prop_map(|(user, address)| Step::AliasRemove(user, address)),
        3 => name().prop_map(Step::GroupAdd),
        1 => name().prop_map(Step::GroupRemove),
        6 => (name(), member()).prop_map(|(group, member)| Step::MemberAdd(group, member)),
        2 => (name(), member()).prop_map(|(group, member)| Step::MemberRemove(group, member)),
        1 => Just(Step::Rebuild),
        1 => Just(Step::Crash),
    ]
}

fn user(number: u8) -> String {
    format!("user{number}")
}

fn group(number: u8) -> String {
    format!("group{number}")
}

fn address(number: u8) -> String {
    format!("a{number}@acme.test")
}

impl Model {
    fn holder(&self, address: u8) -> Option<u8> {
        self.users.iter().find(|(_, addresses)| addresses.contains(&address)).map(|(user, _)| *user)
    }

    fn forget_member(&mut self, name: &str) {
        self.groups.values_mut().for_each(|members| members.retain(|member| member != name));
    }

    /// Applies a step to the model. Returns `true` if the step is possible.
    fn apply(&mut self, step: &Step) -> bool {
        match step {
            Step::UserAdd(number) => {
                let possible = !self.users.contains_key(number) && self.holder(*number).is_none();
                if possible {
                    self.users.insert(*number, BTreeSet::from([*number]));
                }
                possible
            }
            Step::UserRemove(number) => {
                let existed = self.users.remove(number).is_some();
                if existed {
                    self.forget_member(&user(*number));
                }
                existed
            }
            Step::AliasAdd(number, address) => {
                let free = self.holder(*address).is_none_or(|holder| holder == *number);
                let Some(addresses) = self.users.get_mut(number).filter(|_| free) else { return false };
                addresses.insert(*address);
                true
            }
            Step::AliasRemove(number, address) => {
                self.users.get_mut(number).is_some_and(|addresses| addresses.remove(address))
            }
            Step::GroupAdd(number) => {
                let possible = !self.groups.contains_key(number);
                self.groups.entry(*number).or_default();
                possible
            }
            Step::GroupRemove(number) => {
                let existed = self.groups.remove(number).is_some();
                if existed {
                    self.forget_member(&group(*number));
                }
                existed
            }
            Step::MemberAdd(number, member) => {
                self.groups.get_mut(number).map(|members| members.insert(member.clone())).is_some()
            }
            Step::MemberRemove(number, member) => {
                self.groups.get_mut(number).is_some_and(|members| members.remove(member))
            }
            Step::Rebuild | Step::Crash => true,
        }
    }

    /// Returns the groups of a user, found by repeating until nothing is added.
    fn groups_of(&self, number: u8) -> BTreeSet<String> {
        let mut known = BTreeSet::from([user(number)]);
        loop {
            let above = self.groups.iter().filter(|(_, members)| !members.is_disjoint(&known));
            let more: Vec<String> =
                above.map(|(above, _)| group(*above)).filter(|above| !known.contains(above)).collect();
            if more.is_empty() {
                known.remove(&user(number));
                return known;
            }
            known.extend(more);
        }
    }
}

/// Applies a step to the directory. Returns the new state, and `true` if the step was possible.
fn apply(world: World, step: &Step) -> (World, bool) {
    let directory = &world.directory;
    let user_set = |number: &u8, change: PersonChange| directory.user_set(&user(*number), &change).is_ok();
    let group_set = |number: &u8, change: GroupChange| directory.group_set(&group(*number), &change).is_ok();
    let possible = match step {
        Step::UserAdd(number) => {
            let new = NewUser { short_name: Some(user(*number)), ..NewUser::new(&address(*number)) };
            directory.user_add(&new).is_ok()
        }
        Step::UserRemove(number) => directory.user_remove(&user(*number)).is_ok(),
        Step::AliasAdd(number, alias) => {
            user_set(number, PersonChange { addresses_add: vec![address(*alias)], ..PersonChange::default() })
        }
        Step::AliasRemove(number, alias) => {
            user_set(number, PersonChange { addresses_remove: vec![address(*alias)], ..PersonChange::default() })
        }
        Step::GroupAdd(number) => {
            directory.group_add(&NewGroup { name: group(*number), ..NewGroup::default() }).is_ok()
        }
        Step::GroupRemove(number) => directory.group_remove(&group(*number)).is_ok(),
        Step::MemberAdd(number, member) => {
            group_set(number, GroupChange { members_add: vec![member.clone()], ..GroupChange::default() })
        }
        Step::MemberRemove(number, member) => {
            group_set(number, GroupChange { members_remove: vec![member.clone()], ..GroupChange::default() })
        }
        Step::Rebuild => directory.index_rebuild().is_ok(),
        Step::Crash => return (world.crash(), true),
    };
    (world, possible)
}

fn compare(world: &World, model: &Model) {
    for number in 0..NAMES {
        let found = world.directory.person(&address(number)).expect("readable");
        let holder = found.map(|person| person.short_names[0].clone());
        assert_eq!(holder, model.holder(number).map(user), "holder of address {number} in {model:?}");
        let person = world.directory.person(&user(number)).expect("readable");
        assert_eq!(person.is_some(), model.users.contains_key(&number), "user {number}");
        let Some(person) = person else { continue };
        let identity = world.directory.identity(&person).expect("readable");
        let groups: BTreeSet<String> = identity.groups.iter().map(ToString::to_string).collect();
        assert_eq!(groups, model.groups_of(number), "groups of user {number} in {model:?}");
    }
    let total = world.directory.users(0, 1).expect("readable").total;
    assert_eq!(total, model.users.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_changes_match_the_model(steps in proptest::collection::vec(any_step(), 1..40)) {
        let mut world = World::new("domain acme.test");
        let mut model = Model::default();
        for step in &steps {
            let expected = model.apply(step);
            let (after, possible) = apply(world, step);
            world = after;
            prop_assert_eq!(possible, expected, "{:?} in {:?}", step, model);
            compare(&world, &model);
        }
    }
}
