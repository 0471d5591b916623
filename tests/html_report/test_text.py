"""Text from files in pages: printable, and without piles of combining characters."""

from __future__ import annotations

from sbformat.html_report.page import allow_breaks, escape_text
from tests.helpers.many_cases import check_each


@check_each(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("e\u0301 \u0915\u094d\u0930\u093f", "e\u0301 \u0915\u094d\u0930\u093f"),
        ("Z" + "\u0334" * 5 + "a\u0334", "Z" + "\u0334" * 3 + "\\u0334\\u0334a\u0334"),
        ("\u0334" * 4, "\u0334" * 3 + "\\u0334"),
        ("x" * 3000, "x" * 2000 + "\u2026"),
    ],
)
def test_text_from_a_file_is_printable(text: str, expected: str) -> None:
    assert escape_text(text) == expected


def test_breaks_are_allowed_in_escaped_text() -> None:
    assert str(allow_breaks("<a>.b_c\u202e")) == "&lt;a&gt;.<wbr>b_<wbr>c\\u202e"
    assert str(allow_breaks("a/best_model.zip")) == "a/<wbr>best_<wbr>model.zip"
    assert str(allow_breaks("CartPole-v1 ActorCriticPolicy")) == "CartPole-v1 Actor<wbr>Critic<wbr>Policy"
