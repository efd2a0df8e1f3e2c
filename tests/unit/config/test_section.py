"""Blocks of the configuration: how a value becomes a field, what is told of values that do not fit."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from leafd.config.schema.section import Invalid, Problem, Reader, Section, Support, later, option


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"no number: {value!r}")
    return value


def _doubled(value: object) -> object:
    return value * 2 if isinstance(value, int) else value


Number = Annotated[int, Reader(_number)]


class Wheel(Section):
    spokes: Number = option(3, "Spokes.", aliases=("rods",), ge=1, le=9)
    flat: Number | None = option(None, gt=0)

    def check(self) -> None:
        if self.flat == self.spokes:
            raise ValueError("flat is as many as spokes")


class Cart(Section):
    front: Wheel = option(Wheel)
    spare: Wheel | None = option(None)
    rear: tuple[Wheel, ...] = option(())
    named: dict[str, Wheel] = option({})
    twice: Annotated[Number, Reader(_doubled)] = option(0)
    anything: Any = later("not today", refuse=False)


def problems(section: type[Section], **values: object) -> list[Problem]:
    with pytest.raises(Invalid) as caught:
        section(**values)
    return list(caught.value.problems)


def test_what_is_not_given_has_its_default() -> None:
    """A block without a key is its defaults, and knows that nothing was given."""
    cart = Cart()
    assert (3, None, (), {}) == (cart.front.spokes, cart.spare, cart.rear, cart.named)
    assert frozenset() == cart.given
    assert {"twice"} == Cart(twice=0).given
    assert Cart() == Cart(twice=0)
    assert Cart() != Wheel()


def test_values_become_what_their_annotation_says() -> None:
    """Blocks, lists and maps of blocks, and what a reader makes of a value; the outer reader comes first."""
    rear = [{"spokes": 5}, Wheel(spokes=6)]
    given: dict[str, Any] = {"front": {"spokes": 4}, "spare": None, "rear": rear, "named": {"a": {}}, "twice": 4}
    cart = Cart(**given)
    assert (4, [5, 6], 3) == (cart.front.spokes, [one.spokes for one in cart.rear], cart.named["a"].spokes)
    assert (8, None) == (cart.twice, cart.spare)


def test_every_problem_is_told_with_its_place() -> None:
    """One reading finds all that is wrong, however deep."""
    assert [
        Problem(("front", "spokes"), "must be less than or equal to 9, not 10"),
        Problem(("rear", 1, "spokes"), "no number: True"),
        Problem(("named", "a", "flat"), "must be greater than 0, not 0"),
        Problem(("named", "b"), "flat is as many as spokes"),
        Problem(("twice",), "no number: None"),
    ] == problems(
        Cart,
        front={"spokes": 10},
        rear=[{}, {"spokes": True}],
        named={"a": {"flat": 0}, "b": {"flat": 3}},
        twice=None,
    )
    assert [Problem(("spokes",), "must be greater than or equal to 1, not 0")] == problems(Wheel, spokes=0)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("front", 3, "a map in braces is expected, not a number"),
        ("front", None, "a map in braces is expected, not nothing"),
        ("rear", {"spokes": 1}, "a list is expected, not a map in braces"),
        ("named", [], "a map in braces is expected, not a list"),
        ("top", 1, "unknown field"),
        ("self", 1, "unknown field"),
    ],
)
def test_what_is_no_block_list_or_map_is_refused(key: str, value: object, text: str) -> None:
    """A value of another kind than the annotation's, and a key that there is not, are problems and no exceptions."""
    assert [Problem((key,), text)] == problems(Cart, **{key: value})


def test_copies_are_read_or_taken_as_they_are() -> None:
    """overridden() reads and checks what it is given and nothing else; replaced() takes values that were read."""
    cart = Cart(twice=4)
    assert (8, 5) == (cart.overridden(front={"spokes": 5}).twice, cart.overridden(front={"spokes": 5}).front.spokes)
    assert (10, 5, 8) == (cart.overridden(twice=5).twice, cart.replaced(twice=5).twice, cart.twice)
    with pytest.raises(Invalid, match="as many as"):
        Wheel(flat=4).overridden(spokes=4)


def test_spellings_and_what_is_not_served() -> None:
    """A block knows every spelling of its keys, and what the build does with each."""
    assert {"spokes": "spokes", "rods": "spokes", "flat": "flat"} == Wheel.spellings
    assert (Support.IGNORED, "not today") == (Cart.options["anything"].support, Cart.options["anything"].why)
