"""A second held-out corpus, written after the rules had been tried on the corpus and the first held-out set.

It was not tuned on: the guard halted 0.833 of the stuck runs and no sound one at first, and still does.
``robot_stuck`` is missed, since a tool whose name says *move* is taken to change the world, whatever it answers.
"""

from __future__ import annotations

import json

from agentlab.guard.case import Case, Tape, Template, generate
from agentlab.guard.heldout import PLANETS as _PLANETS
from agentlab.guard.heldout import around


def _robot_stuck(t: Tape, n: int) -> None:
    for _ in range(n):
        t.call(
            "arm.move",
            {"joint": 3, "angle": round(t.number(400, 500) / 10, 1)},
            "blocked at limit switch B, position unchanged",
        )


def _form_rejected(t: Tape, n: int) -> None:
    for i in range(n):
        value = {"selector": "#submit", "text": f"{t.one(*_PLANETS)}@{t.one('a', 'b', 'c')}{i}.example"}
        t.fail("page.fill_form", value, f'Validation failed: "{value["text"]}" is not an allowed domain', "ToolError")


def _three_screens(t: Tape, n: int) -> None:
    for _ in range(5):
        t.call("page.goto", {"url": "https://shop.example/cart"}, "Your cart is empty. Sign in to see saved items.")
        t.call("page.goto", {"url": "https://shop.example/login"}, "Already signed in. Redirected to account.")
        t.call(
            "page.goto", {"url": "https://shop.example/account"}, f"Welcome back! Last visit {t.clock()}. Go to cart."
        )


def _asks_again(t: Tape, n: int) -> None:
    for _ in range(n):
        t.call(
            "memory.recall",
            {"topic": "customer 88 preferences", "rationale": f"need {t.number()}"},
            "prefers e-mail; speaks Dutch",
        )
        t.call(t.one("calendar.view", "weather.now", "crm.note_list"), {"ref": t.fresh()}, f"entry {t.number()}")


def _quota_wall(t: Tape, n: int) -> None:
    for i in range(n):
        t.fail(
            "gpu.reserve",
            {"cards": t.number(1, 8), "hours": i + 1},
            f"project budget exhausted (ref {t.number():#x})",
            "Forbidden",
        )


def _missing_binary(t: Tape, n: int) -> None:
    for _ in range(n):
        flags = t.one("-v", "--verbose", "-q", "--json", "-vv", "--all")
        t.fail(
            "shell",
            {"script": f"ffprobe {flags} clip.mp4"},
            "exit status 127\n/bin/sh: 1: ffprobe: not found",
            "ExitStatus",
        )


def _etl_batches(t: Tape, n: int) -> None:
    for i in range(n):
        t.call("etl.load_partition", {"table": "clicks", "day": f"2030-02-{i + 1:02d}"}, "loaded")


def _training(t: Tape, n: int) -> None:
    for i in range(n):
        t.call(
            "shell", {"script": "sleep 120; tail -n 1 train.log"}, f"{t.clock()} step {i * 50} loss {3 / (i + 2):.4f}"
        )


def _container_starts(t: Tape, n: int) -> None:
    for _ in range(n):
        t.call(
            "container.inspect", {"name": "db"}, json.dumps({"Status": "starting", "ExitCode": 0, "Pid": t.number()})
        )
    t.call("container.inspect", {"name": "db"}, json.dumps({"Status": "healthy", "ExitCode": 0}))


def _type_errors_shrink(t: Tape, n: int) -> None:
    for i in range(n):
        t.call("apply_patch", {"patch": f"*** Update File: a{i % 3}.ts\n+ let q{i}: number"}, "Done!")
        t.fail(
            "shell",
            {"script": "npx tsc --noEmit"},
            f"exit status 2\nsrc/a.ts({40 - i},7): error TS2322: Type\nFound {n - i} errors",
            "ExitStatus",
        )


def _gallery(t: Tape, n: int) -> None:
    for i in range(n):
        t.call("page.click", {"selector": "button.next"}, f"photo {i + 1} of {n}: {t.one(*_PLANETS)}")


def _upload_retry(t: Tape, n: int) -> None:
    for k in range(t.number(2, 5)):
        t.fail("s3.put", {"key": "a.bin", "attempt": k}, "HTTP 503: Slow Down", "ServiceError")
    t.call("s3.put", {"key": "a.bin", "attempt": 9}, "etag 77")


TEMPLATES: tuple[tuple[str, bool, Template], ...] = (
    ("robot_stuck", True, _robot_stuck),
    ("form_rejected", True, _form_rejected),
    ("three_screens", True, _three_screens),
    ("asks_again", True, _asks_again),
    ("quota_wall", True, _quota_wall),
    ("missing_binary", True, _missing_binary),
    ("etl_batches", False, _etl_batches),
    ("training", False, _training),
    ("container_starts", False, _container_starts),
    ("type_errors_shrink", False, _type_errors_shrink),
    ("gallery", False, _gallery),
    ("upload_retry", False, _upload_retry),
)


def unseen(seed: int = 0, variations: int = 8) -> list[Case]:
    """The cases: as many stuck as sound."""
    return generate(TEMPLATES, around, seed, variations)
