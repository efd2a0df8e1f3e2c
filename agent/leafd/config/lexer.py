"""The words of nats-server's configuration language: one scanner that turns text into keys and scalar values with
their places.

Here: characters. Not here: maps, arrays, variables, includes (tree.py), and the meaning of any key
(schema/).

The language was written for people who know no rules, so it has many. Those that surprise:
- A bare word ends at white space, `,` `;` `]` `}` or a `'` (which is swallowed). A `#` inside a word is part of it,
  so URLs and passwords work.
- A word that begins with digits is a number only if it ends as one: 127.0.0.1:4222, 10s and 3f are strings. But 2m is
  2,000,000 (K, M, G,
  T, P and E are decimal multipliers; KB, Ki and KiB binary ones), so the duration of two minutes needs quotes: "2m".
- The end of an array is not among the characters that end a whole number in the reference: `[1,2]` without a blank
  before the bracket is
  an error there. Here the bracket ends the number; what the reference accepts reads the same.
- `$2a$10$...` (bcrypt) is a string though it begins like a variable; the reference knows only 2a, we take 2b, 2x and
  2y too.
- A block `( ... )` ends at a `)` that stands alone on its line; all before it, new lines too, is the string.
- The escapes that only JSON has (\\u003e, \\/, \\b, \\f) are errors in the reference. Here they are read: Go writes
  each `>` of a subject so, and declarations include the files of the `nats` command line.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from leafd.errors import ConfigError
from leafd.records import dataclass

BLANKS: Final = " \t"
NEW_LINES: Final = "\n\r"
SEPARATORS: Final = "=:"
_WORD_ENDS: Final = " \t\n\r;,]}"
_BOOLEANS: Final = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f"}
_BCRYPT_STARTS: Final = ("2a$", "2b$", "2x$", "2y$")
_MULTIPLIER_LETTERS: Final = "kmgtpe"
_DATE_FORM: Final = "0000-00-00T00:00:00Z"
_DIGITS_MAX: Final = 100
_INTEGER_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Variable:
    """A reference to be looked up by tree.py."""

    name: str


Scalar = str | int | float | bool | datetime | Variable


class Scanner:
    """A cursor over one text. Every method that consumes moves it; nothing is read twice."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.position = 0
        self._counted_to = 0
        self._line = 1
        self._line_start = 0

    # ---- the cursor

    def where(self, position: int | None = None) -> Where:
        """The place of a position not before any that was asked for on an earlier line (lines are counted once)."""
        at = self.position if position is None else position
        if at < self._counted_to:
            before = self.text[:at]
            return Where(self.file, before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1)
        lines = self.text.count("\n", self._counted_to, at)
        if lines:
            self._line += lines
            self._line_start = self.text.rfind("\n", self._counted_to, at) + 1
        self._counted_to = at
        return Where(self.file, self._line, at - self._line_start + 1)

    def fail(self, text: str, position: int | None = None) -> ConfigError:
        """The error to raise for what stands at the position."""
        return ConfigError(f"{self.where(position)}: {text}")

    def peek(self) -> str:
        """The next character, "" at the end."""
        return self.text[self.position : self.position + 1]

    def take(self) -> str:
        """The next character, consumed."""
        char = self.peek()
        self.position += len(char)
        return char

    def skip_blanks(self) -> None:
        """Blanks and tabs."""
        while self.position < len(self.text) and self.text[self.position] in BLANKS:
            self.position += 1

    def skip_space(self) -> None:
        """White space of any kind, new lines too."""
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

    def skip_comment(self) -> bool:
        """A comment up to its new line, if one begins here."""
        if self.peek() != "#" and not self.text.startswith("//", self.position):
            return False
        while self.position < len(self.text) and self.text[self.position] not in NEW_LINES:
            self.position += 1
        return True

    # ---- keys

    def read_key(self) -> tuple[str, Where, bool]:
        """A key, its place, and whether it was in quotes (then it is no keyword). The cursor stands behind it."""
        start = self.position
        quote = self.peek()
        if quote in ('"', "'"):
            end = self.text.find(quote, start + 1)
            if end < 0:
                raise self.fail(f"the quoted key that begins here is never closed: add a {quote}", start)
            self.position = end + 1
            return self.text[start + 1 : end], self.where(start), True
        while self.position < len(self.text):
            char = self.text[self.position]
            if char.isspace() or char in SEPARATORS:
                break
            self.position += 1
        return self.text[start : self.position], self.where(start), False

    def read_include(self) -> str:
        """The file name behind the keyword include."""
        self.skip_blanks()
        start = self.position
        first = self.peek()
        if first in ('"', "'") and first:
            end = self.text.find(first, start + 1)
            if end < 0:
                raise self.fail(f"the include's quoted file name is never closed: add a {first}", start)
            self.position = end + 1
            return self.text[start + 1 : end]
        if first == "" or first in NEW_LINES or first in "[{(\\-" or first.isdigit():
            raise self.fail('include needs a file name here; put one that begins with a digit or "-" in quotes', start)
        while self.position < len(self.text) and self.text[self.position] not in " \t\n\r;}'":
            self.position += 1
        name = self.text[start : self.position]
        if self.peek() == "'":
            self.position += 1
        return name

    # ---- scalar values

    def read_scalar(self) -> Scalar:
        """A value that is neither map nor array; the cursor stands on its first character."""
        char = self.peek()
        if char == "'":
            return self._single_quoted()
        if char == '"':
            return self._word(quoted=True)
        if char == "(":
            return self._block()
        if char == "-":
            return self._negative()
        if char.isdigit():
            return self._digits()
        if char == ".":
            raise self.fail("a fraction must begin with a digit: write 0.5, not .5")
        return self._word(quoted=False)

    def _single_quoted(self) -> str:
        start = self.position
        end = self.text.find("'", start + 1)
        if end < 0:
            raise self.fail("the string that begins here is never closed: add a '", start)
        self.position = end + 1
        return self.text[start + 1 : end]

    def _word(self, *, quoted: bool, start: int | None = None) -> Scalar:
        """A bare word or a string in double quotes: both know escapes."""
        begin = self.position if start is None else start
        if quoted:
            self.position += 1
        plain_from = self.position if start is None else start
        parts: list[str] = []
        while True:
            char = self.peek()
            if char == "\\":
                parts.append(self.text[plain_from : self.position])
                self.position += 1
                parts.append(self._escape())
                plain_from = self.position
            elif quoted and char == '"':
                text = "".join(parts) + self.text[plain_from : self.position]
                self.position += 1
                return text
            elif quoted and char == "":
                raise self.fail('the string that begins here is never closed: add a "', begin)
            elif not quoted and (char == "" or char in _WORD_ENDS or char == "'"):
                word = "".join(parts) + self.text[plain_from : self.position]
                if char == "'":
                    self.position += 1
                    return word
                return word if parts else _meaning(word)
            else:
                self.position += 1

    def _escape(self) -> str:
        char = self.take()
        if char in _ESCAPES and char:
            return _ESCAPES[char]
        if char == "x":
            return self._hexadecimal(1).decode("utf-8", "surrogateescape")
        if char == "u":
            units = self._hexadecimal(2)
            if 0xD8 <= units[0] < 0xDC and self.text.startswith("\\u", self.position):
                self.position += 2
                units += self._hexadecimal(2)
            return units.decode("utf-16-be", "replace")
        raise self.fail(
            rf"\{char} is no escape: only \xXX, \t, \n, \r, \" and \\ are; use single quotes for a literal \ ",
            self.position - 1,
        )

    def _hexadecimal(self, count: int) -> bytes:
        """So many bytes of an escape, consumed."""
        digits = self.text[self.position : self.position + 2 * count]
        try:
            found = bytes.fromhex(digits)
        except ValueError:
            found = b""
        if len(found) != count or not digits.isalnum():
            letter, needed = ("x", "two") if count == 1 else ("u", "four")
            raise self.fail(rf"\{letter} needs {needed} hexadecimal digits, not {digits!r}")
        self.position += 2 * count
        return found

    def _block(self) -> str:
        start = self.position
        self.position += 1
        at = self.text.find("\n)", start)
        while at >= 0:
            after = self.text[at + 2 : at + 3]
            if after in ("", "\n"):
                self.position = at + 2
                return self.text[start + 1 : at + 1]
            at = self.text.find("\n)", at + 1)
        raise self.fail("the block that begins here is never closed: put a ) alone on a line", start)

    def _negative(self) -> Scalar:
        start = self.position
        self.position += 1
        if not self.peek().isdigit():
            raise self.fail(
                "a digit must follow the minus sign; put quotes around a string that begins with one", start
            )
        while self.peek().isdigit():
            self.position += 1
        if self.peek() == ".":
            return self._fraction(start)
        if self.peek().lower() in _MULTIPLIER_LETTERS and self.peek():
            return self._multiplied(start)
        return self._integer(start)

    def _digits(self) -> Scalar:
        start = self.position
        while self.peek().isdigit():
            self.position += 1
        char = self.peek()
        if char == "-":
            return self._date(start)
        if char == ".":
            return self._fraction(start)
        if char and char.lower() in _MULTIPLIER_LETTERS:
            return self._multiplied(start)
        if char == "" or char in _WORD_ENDS:
            return self._integer(start)
        return self._word(quoted=False, start=start)

    def _multiplied(self, start: int) -> Scalar:
        self.position += 1
        while self.peek() and self.peek() in "bBiI":
            self.position += 1
        char = self.peek()
        if char == "" or char in _WORD_ENDS or char.isdigit():
            return self._integer(start)
        return self._word(quoted=False, start=start)

    def _integer(self, start: int) -> int:
        word = self.text[start : self.position]
        digits = word.rstrip("bBiIkKmMgGtTpPeE")
        suffix = word[len(digits) :].lower()
        if len(digits) > _DIGITS_MAX or not digits.isascii():
            raise self.fail(f"{word[:_DIGITS_MAX]} is no number of 64 bits: use a smaller one, in digits 0 to 9", start)
        number = int(digits)
        if suffix:
            power = _MULTIPLIER_LETTERS.index(suffix[0]) + 1
            if suffix[1:] not in ("", "b", "i", "ib"):
                raise self.fail(
                    f"{word} has no known unit: use K, M, G, T (thousands) or KB, MB, GB, TB (powers of 1024)", start
                )
            number *= (1024 if len(suffix) > 1 else 1000) ** power
        if not -_INTEGER_MAX - 1 <= number <= _INTEGER_MAX:
            raise self.fail(f"{word} does not fit in 64 bits: use a smaller number", start)
        return number

    def _fraction(self, start: int) -> Scalar:
        self.position += 1
        if not self.peek().isdigit():
            raise self.fail("a digit must follow the decimal point; put quotes around a string", start)
        while self.peek().isdigit():
            self.position += 1
        if self.peek() != ".":
            word = self.text[start : self.position]
            if not word.isascii():
                raise self.fail(f"{word} is no number: use the digits 0 to 9", start)
            return float(word)
        while self.peek() and (self.peek().isdigit() or self.peek() in ".:-"):
            self.position += 1
        return self.text[start : self.position]

    def _date(self, start: int) -> datetime:
        word = self.text[start : start + len(_DATE_FORM)]
        fits = len(word) == len(_DATE_FORM) and all(
            char.isdigit() if form == "0" else char == form for char, form in zip(word, _DATE_FORM, strict=True)
        )
        try:
            moment = datetime.strptime(word, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) if fits else None
        except ValueError:
            moment = None
        if moment is None:
            raise self.fail(
                "a date is written 2006-01-02T15:04:05Z; put quotes around any other word with "
                "a minus sign behind digits",
                start,
            )
        self.position = start + len(_DATE_FORM)
        return moment


def _meaning(word: str) -> Scalar:
    if word.lower() in _BOOLEANS:
        return _BOOLEANS[word.lower()]
    if word.startswith("$"):
        return word if word[1:].startswith(_BCRYPT_STARTS) else Variable(word[1:])
    return word
