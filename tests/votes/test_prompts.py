import pytest

from app.votes.prompts import key_text, prompt_key


def test_a_key_is_the_same_everywhere_and_for_ever() -> None:
    assert prompt_key("Why is the sky blue?") == prompt_key("  Why is the sky blue?\n") == 714425792884619884
    assert prompt_key("為什麼天空是藍色的?") != prompt_key("Why is the sky blue?")
    assert prompt_key("\ud800") == prompt_key("\ud800")


@pytest.mark.parametrize("blank", ["", "  ", "\n\t"])
def test_blank_text_is_no_prompt(blank: str) -> None:
    assert prompt_key(blank) is None


@pytest.mark.parametrize("prompt", ["81", "Say 1", "x" * 1_000_000])
def test_a_written_key_is_its_own_key(prompt: str) -> None:
    key = prompt_key(prompt)
    assert key is not None
    assert prompt_key(key_text(key)) == key
    assert -(2**63) <= key < 2**63


def test_texts_that_only_resemble_a_written_key_are_prompts() -> None:
    text = key_text(7)
    assert prompt_key(text) == 7
    for other in (text.upper(), f"{text}.0", "prompt:", "prompt:-", "prompt:--7", "prompt:٧", f"prompt:{2**63}"):
        assert prompt_key(other) not in (7, -7, 2**63, None)
