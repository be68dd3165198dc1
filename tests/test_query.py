from __future__ import annotations

import sqlite3

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrubjay.errors import BadQuery
from scrubjay.query import TOKENIZER, Query, Term, expression, fold, mark, matches, parse_query, sieve, spread
from tests.support.tables import every_row


def _terms(*terms: str) -> tuple[Term, ...]:
    return tuple(Term(tuple(term.rstrip("*").split()), prefix=term.endswith("*")) for term in terms)


@every_row(
    ("raw", "meant"),
    [
        ("error", Query(_terms("error"))),
        ("Error TIMEOUT error", Query(_terms("error", "timeout"))),
        ('"connection refused" retry', Query(_terms("connection refused", "retry"))),
        ("conn*", Query(_terms("conn*"))),
        ('"connection ref"*', Query(_terms("connection ref*"))),
        ("error -debug", Query(_terms("error"), without=_terms("debug"))),
        ('error -"not found"', Query(_terms("error"), without=_terms("not found"))),
        ("src/foo_bar.py", Query(_terms("src foo bar py"))),
        ("worker-6", Query(_terms("worker 6"))),
        ("pod:builder error", Query(_terms("error"), pods=("builder",))),
        ("pod:a pod:b x", Query(_terms("x"), pods=("a", "b"))),
        ("typed: make test", Query(_terms("make", "test"), kind="typed")),
        ("shown:make", Query(_terms("make"), kind="shown")),
        ('"typed: make"', Query(_terms("typed make"))),
        ("naïve ÉCOLE", Query(_terms("naïve", "école"))),
        ("端末の", Query(_terms("端 末 の"))),
        ('say "unfinished phrase', Query(_terms("say", "unfinished phrase"))),
        ("a OR b", Query(_terms("a", "or", "b"))),
        ("NEAR(a b)", Query(_terms("near a", "b"))),
    ],
)
def test_a_query_means_what_it_seems_to(raw: str, meant: Query | None) -> None:
    if meant is None:
        with pytest.raises(BadQuery):
            parse_query(raw)
    else:
        assert parse_query(raw) == meant


@every_row("raw", ["", "   ", '""', "***", "-", "-debug", "pod:x", "typed:", "---", "│ ─ …", "\x00"])
def test_a_query_without_a_word_is_refused_with_a_hint(raw: str) -> None:
    with pytest.raises(BadQuery) as caught:
        parse_query(raw)

    assert caught.value.hint is not None
    assert repr(raw) in str(caught.value)


@every_row(
    ("text", "query", "marked"),
    [
        ("an error here", "error", ["error"]),
        ("Error, ERROR and errors", "error", ["Error", "ERROR"]),
        ("Error, ERROR and errors", "err*", ["Error", "ERROR", "errors"]),
        ("at src/foo_bar.py:12", "foo_bar", ["foo_bar"]),
        ("at src/foo_bar.py:12", "foo_bar.py", ["foo_bar.py"]),
        ("at src/foo_bar.py:12", "bar", ["bar"]),
        ("at src/foo_bar.py:12", "foo*", ["foo"]),
        ("at src/foo_bar.py:12", "foo_ba*", ["foo_bar"]),
        ("at src/foo_bar.py:12", "src/foo*", ["src/foo"]),
        ("connection was refused; connection refused", '"connection refused"', ["connection refused"]),
        ("a b a b c", '"a b" "b c"', ["a b", "a b c"]),
        ("die Größe der Straße", "grosse straße", ["Straße"]),
        ("die Größe der Straße", "große", ["Größe"]),
        ("cafe\u0301 au lait", "café", ["cafe\u0301"]),
        ("日本語の端末です", "端末", ["端末"]),
        ("nothing of it", "else", []),
    ],
)
def test_what_was_found_is_marked(text: str, query: str, marked: list[str]) -> None:
    assert [text[start:end] for start, end in mark(text, parse_query(query))] == marked


def test_rows_with_an_excluded_word_do_not_match() -> None:
    query = parse_query('error -"not found"')

    assert matches("error: file not there", query)
    assert not matches("error: file not found", query)
    assert not matches("file found", query)


_LETTERS = st.sampled_from("aAbBéßç\u03a3\u03c3_01 .-/*\"':()│日本한글\u0301\t😀🤖\ue0b0\uff58")


@given(st.text(_LETTERS, max_size=40), st.text(_LETTERS, max_size=12))
@example("İstanbul", "istanbul")
@example("ΣΑΣ", "σας")
def test_fts5_finds_what_we_mark(text: str, raw: str) -> None:
    try:
        query = parse_query(raw)
    except BadQuery:
        return
    connection = sqlite3.connect(":memory:")
    connection.execute(f'CREATE VIRTUAL TABLE row USING fts5(text, content="", tokenize="{TOKENIZER}")')
    connection.execute("INSERT INTO row (rowid, text) VALUES (1, ?)", (spread(text),))
    wanted = expression(query.terms, query.without)
    found = connection.execute("SELECT rowid FROM row WHERE row MATCH ?", (wanted,)).fetchall()
    connection.close()

    assert bool(found) == matches(text, query)
    if found:
        assert mark(text, query)


@given(st.text(max_size=100))
def test_any_text_is_a_query_that_fts5_takes_or_a_bad_one(raw: str) -> None:
    try:
        query = parse_query(raw)
    except BadQuery:
        return
    connection = sqlite3.connect(":memory:")
    connection.execute(f'CREATE VIRTUAL TABLE row USING fts5(text, content="", tokenize="{TOKENIZER}")')

    connection.execute("SELECT rowid FROM row WHERE row MATCH ?", (expression(query.terms, query.without),))
    connection.close()


@given(st.text(max_size=60), st.text(max_size=20))
def test_marks_are_in_order_within_the_text_and_apart(text: str, raw: str) -> None:
    try:
        marks = mark(text, parse_query(raw))
    except BadQuery:
        return

    edges = [edge for pair in marks for edge in pair]
    assert edges == sorted(edges)
    assert len(set(edges)) == len(edges)
    assert all(0 <= edge <= len(text) for edge in edges)


@given(st.text())
def test_folding_keeps_lines(text: str) -> None:
    assert fold(text).count("\n") == text.count("\n")
    assert spread(text).count("\n") == text.count("\n")


@given(st.text(_LETTERS, max_size=40), st.text(_LETTERS, max_size=12))
@example("a文b", "文")
@example("文foo", "foo")
@example("foo_bar", "bar")
def test_the_sieve_lets_through_what_matches(text: str, raw: str) -> None:
    try:
        query = parse_query(raw)
    except BadQuery:
        return
    if matches(text, query):
        assert all(word in fold(text) and pattern.search(fold(text)) for word, pattern in sieve(query))
