"""Lines that say a loss in a sentence, in the form that `plain_text` reads: places, then names and numbers.

`Loss at epoch 9 and iteration 500 is 0.18` becomes `epoch 9, iteration 500, Loss: 0.18`, and
`avg loss so far is 0.02` becomes `avg loss: 0.02`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_NOT_MORE = r"(?![\w.,]|\s?%|\s(?:times|lower|higher|less|more|better|worse|below|above)\b)"
_VALUE = rf"(?=[-+]?(?:[\d.,]{{1,40}}(?:[eE][-+]?\d{{1,4}})?|nan|NaN|inf){_NOT_MORE})"
"""A number that is no difference from another and no share of it."""
_LOSS = r"(?<![\w/])(?:[A-Za-z_]{1,20} ){0,3}[\w/]{0,20}(?i:loss|cost)(?:es)?"
_ASIDE = r"(?: \([^()]{0,40}\))?"
_WORD = r"(?i:global |training )?(?i:step|iteration|iter|epoch|batch|update)s?"
_COUNT = r"\d[\d,]{0,14}(?:\s?/\s?\d[\d,]{0,14})?"
_PLACE = rf"(?:{_WORD}[ :#=]{{1,3}}\(?{_COUNT}\)?|{_COUNT}(?:st|nd|rd|th)? {_WORD})"
_SAYS = r"\s{0,3}(?:[:=,-]|(?:is|was)\b:?)?\s{0,3}"
_AT = re.compile(
    rf"(?P<name>{_LOSS}){_ASIDE} (?:at|after|for|in|on) (?:the )?(?P<first>{_PLACE})"
    rf"(?:(?:,? and|,|,? of|,? in|,? at) (?:the )?(?P<second>{_PLACE}))?{_SAYS}{_VALUE}"
)
_SCORE = re.compile(rf"(?<![\w/])(?<![A-Za-z_] )Score (?:at|after) (?P<first>{_PLACE}){_SAYS}{_VALUE}")
"""What Deeplearning4j's listener calls the loss: `Score at iteration 100 is 1.13`."""
_REVERSED = re.compile(rf"^(?P<count>{_COUNT})(?:st|nd|rd|th)? (?P<word>{_WORD})$")
_IS = re.compile(
    rf"((?i:loss|cost)(?:es)?){_ASIDE}(?: (?:so far|until now|now|currently|value))?"
    rf" (?:is|was|are|equals|of)(?:\s?[:=])?\s{{1,3}}(?:about )?{_VALUE}"
)
_NOT_A_NUMBER = re.compile(r"(?i:(?:is|was|of)\s?[:=]?\s{1,3}(?:nan|inf))")
_PLACED = re.compile(rf"\b(?:{_PLACE})", re.IGNORECASE)
_NTH = re.compile(r"\b(\d{1,12})(?:st|nd|rd|th) ((?i:epoch|step|iteration|iter|batch|update))\b")
_COUNT_FIRST = re.compile(
    r"(?<![\w.,/-])(?<!\d:)(\d{1,9})-?((?i:epoch))(?![\w/-])|(?<=[:\s])(?:\d{1,12}-)?(\d{1,12})((?i:batch|iter|step))(?=:)"
)
"""A count right before its word: ESPnet's `8epoch:train:376-750batch:`, and `0-epoch (4/178643)`."""
_TAGGED_COUNT = re.compile(
    r"\[\s{0,3}((?i:train(?:ing)?|valid(?:ation)?|val|test|eval))\s{0,3}\|\s{0,3}(\d{1,9}/\d{1,9})\s{0,3}\]"
)
"""An epoch beside a tag: `[ Valid | 001/100 ] loss = 2.5`."""
_NUMBERED = re.compile(r"\b((?i:epoch|step|iter|iteration|batch|round)) ?#(?=\d)")
_LOGGED = re.compile(r"^[IWEF]\d{4} [\d:.]{8,15}\s{1,9}\d{1,18} [\w./-]{1,60}:\d{1,6}\] (?=\[\d)")
"""What absl writes before a line that begins with its step: `I1002 21:38:13.4 139 writer.py:35] [400]`."""
_AVERAGED = re.compile(r"^(\s{0,9}\d{1,12}): ([-\d.]{1,20}|-?nan), ([-\d.]{1,20}|-?nan) avg(?: loss)?,")
"""Darknet's line: `2131: 0.62, 0.54 avg loss, 0.001 rate`."""
_DIGITS_OR_DASH = frozenset("0123456789-")
_BEGINS = re.compile(
    r"^\s{0,8}(\d{1,12}/\d{1,12}),? (?:in|of) (?:the )?"
    r"(?:(?i:epoch) (\d{1,9})|(\d{1,9})(?:st|nd|rd|th)? (?i:epoch))\b"
)
_DRAWN = re.compile(
    r"^[^|]{0,200}\|[^|]{0,400}\|\s{0,4}[\d?]{1,12}/[\d?]{1,12}\s{0,4}\[[^\]]{0,200}\](?:\x1b?\[A)*(?=\s{0,40}\S)"
)
_ARROW = re.compile(r"(?<=[A-Za-z_)\]])\s{0,3}(?:→|⇒|[-=]{1,2}>)\s{0,3}(?=[-+]?(?:[\d.]|nan|inf))")
_THEN_PLACE = re.compile(
    r"^(\s{0,12}[A-Za-z_ ]{0,24}[Ll]oss:\s{0,6}[-+\d.naife]{1,24})\s{1,6}"
    r"\[\s{0,9}(\d{1,12})\s?/\s?(\d{1,12})\]\s*$"
)
"""PyTorch's quickstart: `loss: 2.303494  [   64/60000]`."""
_TOTAL_OF_LOSSES = re.compile(r"(?<=[\s,;{(|'\"])[Tt]otal(?=['\"]?\s{0,3}[:=]?\s{0,3}[\d.])")
_TOTAL = re.compile(
    r"(?<=[\s\])|,;])(?i:total)(?=\s?[:=]\s{0,4}\d{1,12}\.\d{1,20}(?:[eE][-+]?\d{1,3})?\s{0,8}$)"
)
_ITERATION = re.compile(r"\b(?i:iter|iters|iteration|step|batch)\b[ :=#]{1,3}\d")
_EPOCH = re.compile(r"\b(?i:epoch|ep)\b[ :=#\[]{1,3}\d")
_NAMED = re.compile(r"([A-Za-z_][\w/.-]{0,40})\s{0,3}[:=]\s{0,4}[-+\d.]")
_BESIDE = frozenset(
    [
        "epoch",
        "epochs",
        "iter",
        "iters",
        "iteration",
        "step",
        "batch",
        "lr",
        "learning_rate",
        "total",
        "global_step",
    ]
)
_ENGLISH = {
    "训练": "train ", "訓練": "train ", "验证": "val ", "驗證": "val ", "检验": "val ", "検証": "val ",
    "测试": "test ", "測試": "test ", "損失": "loss ", "损失": "loss ", "손실": "loss ", "학습": "train ",
    "훈련": "train ", "검증": "val ", "потери": "loss", "обучение": "train", "валидация": "val",
    "эпоха": "epoch", "エポック": "epoch ", "에포크": "epoch ", "轮次": "epoch ", "步数": "step ",
    "шаг": "step",
    "época": "epoch", "épocas": "epoch", "époque": "epoch", "étape": "step", "iteración": "iteration",
    "iteração": "iteration", "pérdida": "loss", "validación": "val", "validação": "val",
}  # fmt: skip
"""Words of other scripts for what a line names."""
_FOREIGN = re.compile("|".join(sorted(_ENGLISH, key=len, reverse=True)), re.IGNORECASE)
_WIDE_SIGNS = str.maketrans("：，（）［］｜＝／．％", ":,()[]|=/.%")
_UNKNOWN = re.compile("[\u3040-\u9fff\uac00-\ud7af]+")
"""Chinese, Japanese and Korean words that `_ENGLISH` does not have: a name does not go on over them."""
_OPENS = re.compile(r"((?i:epoch|step|iter|iteration)\s?[:=]\s?)\d")
_EPISODES = re.compile(r"\bep(?=\s?[:=])")


_TAG_WITH_MORE = re.compile(
    r"\[[A-Za-z]{1,20}[-_](?i:val|valid|validation|eval|test|dev)(?![A-Za-z])[^\[\]]{0,40}\]"
)
_TWO_TITLES = re.compile(r"^\s{0,20}(?i:train(?:ing)?):\s{20,200}((?i:test(?:ing)?|valid(?:ation)?)):\s*$")
_INDENT = 4
"""Below `Training:  ...  Testing:`, lines of the second column begin at most so much before its title."""
_BARE_TRAINED = re.compile(r"(?<![\w/.-])(?i:(train(?:ing)?)(?=\s?[=:]\s{0,3}\d{1,9}\.\d))")
_BARE_HELD = re.compile(
    r"(?<![\w/.-])(?i:(val|valid|validation|dev|eval|test|held-?out)(?=\s?[=:]\s{0,3}\d{1,9}\.\d))"
)
"""`train=2.41 val=2.52`: what is measured is not named."""
_MEASURED = ("acc", "f1", "auc", "score", "reward", "bleu", "iou", "map", "ppl", "perplex", "error", "time")


def separate(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines; one in which the name that it begins with comes again right after a number is several.

    >>> [*separate(["epoch: 1/9, loss: 2.5epoch: 2/9, loss: 2.25", "epoch: 3/9, loss: 2.0"])]
    ['epoch: 1/9, loss: 2.5', 'epoch: 2/9, loss: 2.25', 'epoch: 3/9, loss: 2.0']
    """
    column = 0  # where a screen of two columns has what is held out
    for line in lines:
        if ":" in line and (titles := _TWO_TITLES.match(line)):
            column = titles.start(1) - _INDENT
        elif column and line[:column].isspace():
            line = f"[Val] {line.lstrip()}"
        match = _OPENS.match(line)
        if match and line.find(match[1], match.end()) > 0:
            yield from re.split(rf"(?<=\d)(?={re.escape(match[1])}\d)", line)
        else:
            yield line


def in_pairs(line: str) -> str:
    """Return a line with each sentence about a loss as places and a name beside its number.

    >>> in_pairs("Loss at epoch 9 and iteration 500 is 0.187"), in_pairs("loss after 10 epochs: 0.3")
    ('epoch 9, iteration 500, Loss: 0.187', 'epochs 10, loss: 0.3')
    >>> in_pairs("Epoch 1, Step 25, avg loss so far is 0.0219")
    'Epoch 1, Step 25, avg loss: 0.0219'
    >>> in_pairs("56/10105 in 0 epoch finished, Loss is 1.43")
    'epoch 0, iteration 56/10105, finished, Loss: 1.43'
    >>> in_pairs("Score at iteration 100 is 1.13"), in_pairs("[step 3] loss → 2.5")
    ('iteration 100, loss: 1.13', '[step 3] loss: 2.5')
    >>> in_pairs("[ Valid | 001/100 ] loss = 2.5"), in_pairs("Epoch #3: loss=2.5")
    ('[Valid] epoch 001/100 loss = 2.5', 'Epoch 3: loss=2.5')
    >>> in_pairs(" 21: 0.62, 0.54 avg loss, 0.001000 rate")
    ' 21: loss: 0.62, avg loss: 0.54, 0.001000 rate'
    >>> in_pairs("8epoch:train:376-750batch: loss=1.5"), in_pairs("0-epoch (4/99): loss 2.5")
    ('epoch 8:train:batch 750: loss=1.5', 'epoch 0 (4/99): loss 2.5')
    >>> in_pairs("当前Batch：10/603 | 当前损失值：2.5")
    ' Batch:10/603 |  loss  :2.5'
    >>> in_pairs("[Losses: x 0.27, conf 4.3, total 15.1]")
    '[Losses: x 0.27, conf 4.3, total_loss 15.1]'
    """
    if is_foreign(line):
        line = _FOREIGN.sub(lambda match: _ENGLISH[match[0].lower()], line).translate(_WIDE_SIGNS)
        line = _UNKNOWN.sub(" ", line)
    if "|" in line[:240]:
        line = _without_drawing(line)
    if "epch" in line:  # LeRobot: beside an epoch, `ep` counts episodes
        line = _EPISODES.sub("episodes", line).replace("epch", "epoch")
    if "th " in line or "st " in line or "nd " in line or "rd " in line:
        line = _NTH.sub(r"\2 \1", line)
    if "epoch" in line and line[line.index("epoch") - 1] in _DIGITS_OR_DASH:
        line = _COUNT_FIRST.sub(lambda match: f"{match[2] or match[4]} {match[1] or match[3]}", line)
    if "epoch" in line and line.lstrip()[:1].isdigit() and (match := _BEGINS.match(line)):
        line = f"epoch {match[2] or match[3]}, iteration {match[1]},{line[match.end() :]}"
    if "[" in line and "|" in line:
        line = _TAGGED_COUNT.sub(r"[\1] epoch \2", line)
    if "#" in line:
        line = _NUMBERED.sub(r"\1 ", line)
    if " avg" in line:
        line = _AVERAGED.sub(r"\1: loss: \2, avg loss: \3,", line)
    if "] [" in line and line[:1] in "IWEF":
        line = _LOGGED.sub("", line)
    if "Score" in line:
        line = _SCORE.sub(lambda match: f"{_place(match['first'])}, loss: ", line)
    line = line.replace("'s ", " ")  # LightGBM: `valid_1's binary_logloss: 0.3`
    lower = line.lower()
    if "=" in line or ":" in line:
        line = _bare_losses(line, lower)
    if "loss" in lower or "cost" in lower:
        line = _loss_beside(line) if "improv" not in lower else line
    elif "total" in lower and _is_total_alone(line):
        line = _TOTAL.sub("total cost", line)
    return _by_signs(line)


def _bare_losses(line: str, lower: str) -> str:
    """Return a line in which a loss of training and a held-out one are named, if it names no measure at all.

    >>> _bare_losses("epoch 1/9 train=2.41 heldout=2.52", "epoch 1/9 train=2.41 heldout=2.52")
    'epoch 1/9 train loss=2.41 heldout loss=2.52'
    >>> _bare_losses("epoch 1 acc: train=0.41 val=0.5", "epoch 1 acc: train=0.41 val=0.5")
    'epoch 1 acc: train=0.41 val=0.5'
    """
    if "train" not in lower or "loss" in lower or not _PLACED.search(line):
        return line
    if any(word in lower for word in _MEASURED) or not (
        _BARE_TRAINED.search(line) and _BARE_HELD.search(line)
    ):
        return line
    return _BARE_HELD.sub(r"\1 loss", _BARE_TRAINED.sub(r"\1 loss", line))


def _by_signs(line: str) -> str:
    """Return a line in which no arrow stands for a colon, and a place or a total is named as one."""
    if "]" in line and (match := _THEN_PLACE.match(line)):
        return f"batch {match[2]}/{match[3]}, {match[1].strip()}"
    if "→" in line or "->" in line or "=>" in line or "⇒" in line:
        line = _ARROW.sub(": ", line)
    if "[" in line and "oss" in line:
        line = _TAG_WITH_MORE.sub("[Val]", line)
    if "Losses" in line and "otal" in line:
        line = _TOTAL_OF_LOSSES.sub("total_loss", line)
    return line


def is_foreign(line: str) -> bool:
    """Return whether a line names something in a word of another script.

    >>> is_foreign("Эпоха 3/10"), is_foreign("epoch 3/10")
    (True, False)
    """
    return not line.isascii() and _FOREIGN.search(line) is not None


def _loss_beside(line: str) -> str:
    """Return a line whose losses stand beside their numbers."""
    if " at " in line or " after " in line or " for " in line or " in " in line or " on " in line:
        line = _AT.sub(_places_first, line)
    if not any(word in line for word in (" is", " was ", " are ", " equals ", " of ")):
        return line
    if _NOT_A_NUMBER.search(line) and not _PLACED.search(line):
        return line  # "Loss is nan, stopping training" says it of the records before
    return _IS.sub(r"\1: ", line)


def _places_first(match: re.Match[str]) -> str:
    places = [_place(match[name]) for name in ("first", "second") if match[name]]
    return f"{', '.join(places)}, {match['name']}: "


def _place(text: str) -> str:
    """Return a place with its word first.

    >>> _place("10 epochs"), _place("iteration 500")
    ('epochs 10', 'iteration 500')
    """
    match = _REVERSED.match(text)
    return f"{match['word']} {match['count']}" if match else text


def _without_drawing(line: str) -> str:
    """Return a line without the bar drawn before it, if what follows names its place and the bar none.

    >>> _without_drawing("Validation: |     | 0/? [00:00<?, ?it/s][12:00:01] Epoch 3: loss 2.5")
    '[12:00:01] Epoch 3: loss 2.5'
    """
    match = _DRAWN.match(line)
    if not match or _PLACED.search(line[: line.index("|")]):
        return line
    return line[match.end() :] if _PLACED.search(line, match.end()) else line


def _is_total_alone(line: str) -> bool:
    """Return whether a line has a total beside an epoch and iteration and no other quantity: that is a loss.

    >>> _is_total_alone("[epoch: 2/9, iter: 100/1794] total: 1.82")
    True
    >>> _is_total_alone("iter: 1 data: 0.1 total: 0.3")
    False
    """
    names = _NAMED.findall(line)
    if not _ITERATION.search(line) or not _EPOCH.search(line):
        return False
    return all(name.lower() in _BESIDE for name in names)
