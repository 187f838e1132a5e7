"""Run the commands of `action.yml`, write the job's summary and outputs, and return its exit code."""

import os
import shlex
import subprocess
import sys

LEVELS = ("all right", "look", "stop", "error")


def commands() -> list[list[str]]:
    """Return the commands that the inputs ask for."""
    wanted = {name: shlex.split(os.environ.get(name.upper(), "")) for name in ("check", "audit", "compare")}
    lines = [["check", *wanted["check"]]] if wanted["check"] else []
    lines += [["audit", folder, "--newest"] for folder in wanted["audit"]]
    return [*lines, *([["compare", *wanted["compare"]]] if wanted["compare"] else [])]


def judged(words: list[str]) -> tuple[str, str, str]:
    """Return a command's level, its first line and all that it printed."""
    done = subprocess.run(["toposcope", *words], capture_output=True, text=True, check=False)
    printed = (done.stdout or done.stderr).strip()
    first = printed.splitlines()[0] if printed else f"toposcope {words[0]} printed nothing"
    if done.returncode not in (0, 1):
        return "error", (done.stderr.strip() or first).splitlines()[-1], printed
    named = next((level for level in LEVELS if first.startswith(f"{level}: ")), None)
    return named or LEVELS[done.returncode], first, printed


def write(variable: str, text: str) -> None:
    """Append to the file that the job names in a variable, if it does."""
    if path := os.environ.get(variable):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


def main() -> int:
    """Judge; return 1 if the gravest level fails the job."""
    fail_on = os.environ.get("FAIL_ON", "stop")
    if fail_on not in ("look", "stop", "never"):
        print(f"fail-on {fail_on!r}: use stop, look or never", file=sys.stderr)
        return 2
    lines = commands()
    if not lines:
        print("nothing to judge: give check, audit or compare", file=sys.stderr)
        return 2
    answers = [judged(words) for words in lines]
    for words, (_, _, printed) in zip(lines, answers, strict=True):
        print(f"$ toposcope {shlex.join(words)}\n{printed}\n")
    level, sentence, _ = max(answers, key=lambda answer: LEVELS.index(answer[0]))
    write("GITHUB_OUTPUT", f"level={level}\nsentence={sentence}\n")
    blocks = [f"```console\n$ toposcope {shlex.join(words)}\n{printed}\n```\n"
              for words, (_, _, printed) in zip(lines, answers, strict=True)]  # fmt: skip
    write("GITHUB_STEP_SUMMARY", f"**{sentence}**\n\n" + "\n".join(blocks))
    if level == "error":
        return 2
    return int(fail_on != "never" and LEVELS.index(level) >= LEVELS.index(fail_on))


if __name__ == "__main__":
    sys.exit(main())
