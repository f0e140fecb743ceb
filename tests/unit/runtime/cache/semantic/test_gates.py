"""Which questions the semantic tier leaves alone."""

import pytest

from ferry_runtime.cache.semantic.gates import MAX_CHARACTERS, Skip, skip_reason


@pytest.mark.parametrize(
    "text",
    [
        "How do I reset my password?",
        "What is the capital of France?",
        "whats the wifi password for guests",
        "Is £250 enough for a 2-day trip to Zürich?",
        "Can I cancel (and get a refund) before 3pm?",
    ],
)
def test_english_prose_is_let_in(text: str) -> None:
    assert skip_reason(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Wie setze ich mein Passwort zurück?",
        "Wo ist der Bahnhof und wann kommt die Bahn?",
        "Comment puis-je réinitialiser mon mot de passe ?",
        "¿Cómo puedo restablecer mi contraseña?",
        "Come posso reimpostare la password?",
        "Как сбросить пароль?",
        "如何重置密码",
        "كيف أعيد تعيين كلمة المرور؟",
        "",
        "123 456",
    ],
)
def test_what_is_not_recognised_as_english_stays_out(text: str) -> None:
    assert skip_reason(text) is Skip.NOT_ENGLISH


@pytest.mark.parametrize(
    "text",
    [
        "What does this do? ```print(1)```",
        "Why does foo.bar(1) fail in the loop?",
        "How do I fix `if (a == b) { return; }`?",
        "def main(): is this the right way to do it?",
        "SELECT name FROM users is what I have, how do I sort it?",
        "What is <div class='a'> for in the page?",
        "What is in /etc/nginx/sites and how do I change it?",
    ],
)
def test_code_stays_out(text: str) -> None:
    assert skip_reason(text) is Skip.CODE


def test_what_no_window_holds_stays_out() -> None:
    assert skip_reason("how do I " * MAX_CHARACTERS) is Skip.TOO_LONG
