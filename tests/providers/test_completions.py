"""A script is read step by step, and a bad one says where it goes wrong."""

import pytest
from completions import (
    BadScript,
    Call,
    Completion,
    Cut,
    Drop,
    Eof,
    Finish,
    Frame,
    KeepAlive,
    Nothing,
    Raw,
    Reasoning,
    Silence,
    Status,
    StreamError,
    Text,
    Tokens,
    parse,
)


@pytest.mark.parametrize(
    ("script", "completions"),
    [
        ('T"x" R"y" D()', [(Text("x"), Reasoning("y"), Nothing())]),
        (r'T"\"\n\u00e9" T' + r"'\n'", [(Text('"\né'), Text("\\n"))]),
        ('T"-" x 3, T" end" F(stop)', [(*3 * [Text("-")], Text(" end"), Finish("stop"))]),
        (
            """C(0,"a","query",'{"q": "x, y)"}') C( 1 , - , - , "" ) C(-,"","n",-) F(null)""",
            [
                (
                    Call(0, "a", "query", '{"q": "x, y)"}'),
                    Call(1, None, None, ""),
                    Call(None, "", "n", None),
                    Finish(None),
                )
            ],
        ),
        ("U(12,3) U(-,0) KA", [(Tokens(12, 3), Tokens(None, 0), KeepAlive())]),
        ('~5s ~0.2s T"x" || F(stop)', [(Silence(5), Silence(0.2), Text("x")), (Finish("stop"),)]),
        (
            """RAW"\\r\\n" JSON'{"a": 1}' !eof || !cut||!drop""",
            [(Raw(b"\r\n"), Frame('{"a": 1}'), Eof()), (Cut(),), (Drop(),)],
        ),
        ('T"x" !error("bad")', [(Text("x"), StreamError("bad"))]),
        ("~1s !500", [(Silence(1), Status(500))]),
        ("!429(ra=2)", [(Status(429, retry_after="2"),)]),
        ("!429(quota, ra=-5)", [(Status(429, "quota", "-5"),)]),
        ('!400(context, text="too long")', [(Status(400, "context", None, "too long"),)]),
        ("!429(ms=1500, delay=3.5s)", [(Status(429, retry_after_ms="1500", delay="3.5s"),)]),
        ('!503(ra="soon, or later")', [(Status(503, retry_after="soon, or later"),)]),
    ],
)
def test_a_script_is_read_step_by_step(script: str, completions: list[Completion]) -> None:
    assert parse(script) == completions


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "A completion has no steps."),
        ('T"x" ||', "A completion has no steps."),
        ('|| T"x"', "A completion has no steps."),
        ('T"x" Q"y"', "one of the steps T, R, .* expected at 5"),
        ("T x", "a text in quotes expected at 2"),
        ('T"x', "a text in quotes expected at 1"),
        (r'T"\q"', "a text with JSON's escapes expected at 1"),
        ('C(0,"a")', ", expected at 7"),
        ("F()", "a reason or null expected at 2"),
        ("U(1)", ", expected at 3"),
        ("~5", "seconds expected at 1"),
        ("!boom", "a status, eof, cut, drop or error expected at 1"),
        ("!429(ra)", "context, quota, ra=, ms=, delay= or text= expected at 5"),
        ('!eof T"x"', r"Nothing can follow Eof\(\)."),
        ("!500 !500", r"Nothing can follow Status\(code=500"),
        ('T"x" !500', r"Only silences can stand before Status\(code=500"),
    ],
)
def test_a_bad_script_says_where(script: str, message: str) -> None:
    with pytest.raises(BadScript, match=message):
        parse(script)
