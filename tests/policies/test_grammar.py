"""The short form and its inverse."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab.definition import PolicySpec
from agentlab.errors import BadDefinition, UnknownName, UserError
from agentlab.policies import parse_policy, policy_text, validate

POSITIVE = st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False)
COUNT = st.integers(min_value=1, max_value=10**20)


def optional(**fields):
    return st.fixed_dictionaries({}, optional=fields)


LEAVES = st.one_of(
    st.sampled_from(["never", "default", "milestones", "before_effect", "after_effect", "on_pause"]).map(PolicySpec),
    st.builds(lambda k, n: PolicySpec(k, {"n": n}), st.sampled_from(["every_events", "every_steps"]), COUNT),
    POSITIVE.map(lambda t: PolicySpec("seconds", {"t": t})),
    st.builds(PolicySpec, st.sampled_from(["young", "daly"]),
              optional(mtbf_s=POSITIVE, cost_s=POSITIVE, prior_mtbf_s=POSITIVE, work_s=POSITIVE)),
    st.builds(lambda name, at, more: PolicySpec("deadline", {name: at, **more}), st.sampled_from(["at_s", "period_s"]),
              st.floats(min_value=1.5, max_value=1e300), optional(margin_s=st.floats(0, 1), since=st.sampled_from(["start", "wake"]))),
    optional(n=COUNT, bytes=COUNT).filter(bool).map(lambda a: PolicySpec("unsnapshotted", a)),
    st.lists(st.floats(0, 1, exclude_min=True), min_size=1, max_size=4).map(lambda t: PolicySpec("budget", {"thresholds": t})),
)  # fmt: skip
SPECS = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda kind, parts: PolicySpec(kind, parts=tuple(parts)),
        st.sampled_from(["any", "all"]),
        st.lists(inner, min_size=2, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(SPECS)
def test_text_is_the_inverse_of_parsing(spec):
    text = policy_text(spec)
    assert parse_policy(text) == spec
    assert policy_text(parse_policy(text)) == text
    assert parse_policy(" " + text.replace("+", " + ").replace("e + ", "e+")) == spec


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.text(alphabet="every=5steps+&()abc:,.-0 daly=mtbf", max_size=30))
def test_any_text_is_a_policy_or_a_clear_refusal(text):
    try:
        spec = parse_policy(text)
    except UserError as error:
        assert str(error)
    else:
        assert validate(spec) is spec


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("every=5", "every=5"),
        ("every-events = 5", "every=5"),
        ("every_steps=1", "steps=1"),
        ("seconds=30.0", "seconds=30"),
        ("seconds=1e+3+never", "seconds=1000+never"),
        ("young=mtbf:60", "young=60"),
        ("daly=cost:2,mtbf:60", "daly=mtbf:60,cost:2"),
        ("deadline=at:3600", "deadline=3600"),
        ("before-effect+after_effect", "before-effect+after-effect"),
        ("every=5&steps=1+never", "every=5&steps=1+never"),
        ("(every=5)&(steps=1+never)", "every=5&(steps=1+never)"),
    ],
)
def test_short_forms(text, short):
    assert policy_text(parse_policy(text)) == short


@pytest.mark.parametrize(
    "text",
    ["", "+", "every=", "every", "every=0", "every=-1", "every=5.5", "seconds=nan", "seconds=inf", "every=5+", "(every=5",
     "every=5)", "milestones=3", "daly=60,70", "unsnapshotted", "deadline=10,margin:10", "budget=", "budget=2", "(" * 99],
)  # fmt: skip
def test_wrong_numbers_and_brackets_are_refused(text):
    with pytest.raises(BadDefinition):
        parse_policy(text)


def test_unknown_names_give_near_ones():
    with pytest.raises(UnknownName, match="milestones"):
        parse_policy("milestone")
    with pytest.raises(UnknownName, match="mtbf"):
        parse_policy("daly=mtb:3")


def test_and_binds_more_tightly_than_plus():
    spec = parse_policy("never+every=5&steps=1")
    assert spec.kind == "any" and spec.parts[1].kind == "all"
