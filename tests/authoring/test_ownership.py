"""Dumps are signed with a key of this user; what another one signed is not run unawares."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentlab.errors import NotTrusted, UserError
from agentlab.harness.trust import require_trust, signed_text
from agentlab.log.blobs import BlobFolder
from agentlab.portable import sign, trusted


def test_a_signature_is_ones_own(state_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not trusted(b"dump", "") and not state_folder.exists(), "asking makes no key"
    signature = sign(b"dump")
    assert trusted(b"dump", signature) and sign(b"dump") == signature
    assert not trusted(b"dumb", signature) and not trusted(b"dump", "") and not trusted(b"dump", "ä" + signature)
    monkeypatch.setenv("AGENTLAB_STATE_DIR", str(tmp_path / "another"))
    assert not trusted(b"dump", signature)
    assert sign(b"dump") != signature and not trusted(b"dump", signature)


def test_the_key_is_readable_to_its_owner_alone(state_folder: Path) -> None:
    previous = os.umask(0)
    try:
        sign(b"dump")
    finally:
        os.umask(previous)
    key = state_folder / "owner.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(state_folder.stat().st_mode) == 0o700
    assert os.listdir(state_folder) == ["owner.key"]


def test_processes_that_race_to_make_the_key_agree(state_folder: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    code = (
        "import sys, time, pathlib\nfrom agentlab.portable import sign\nprint('ready', flush=True)\n"
        "deadline = time.monotonic() + 200\n"
        f"while not pathlib.Path({str(go)!r}).exists():\n    assert time.monotonic() < deadline\n"
        "print(sign(b'dump'))"
    )
    racers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for racer in racers:
        assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
    go.touch()
    said = {racer.communicate(timeout=240)[0] for racer in racers}
    assert said == {sign(b"dump") + "\n"}
    assert os.listdir(state_folder) == ["owner.key"]


def test_a_damaged_key_is_said(state_folder: Path) -> None:
    state_folder.mkdir()
    (state_folder / "owner.key").write_bytes(b"short")
    with pytest.raises(UserError, match="owner.key is damaged"):
        sign(b"dump")
    assert not trusted(b"dump", "0" * 64)


def test_a_state_folder_that_is_a_file_is_said(state_folder: Path) -> None:
    state_folder.write_text("")
    with pytest.raises(UserError, match="AGENTLAB_STATE_DIR"):
        sign(b"dump")
    assert not trusted(b"dump", "0" * 64)


def test_waking_asks_for_trust(tmp_path: Path) -> None:
    blobs = BlobFolder(tmp_path / "blobs")
    digest = blobs.put(b"dump")
    definition = {"tools": [{"ref": {"kind": "dump", "blob": digest}}]}
    signature = sign(signed_text(definition, digest))
    own = {"definition": definition, "input": {"dump": digest, "signature": signature}}
    assert require_trust(own, blobs, False) == digest
    forged: list[dict[str, Any]] = [
        {**own, "input": {"dump": digest, "signature": "0" * 64}},
        {**own, "input": {"dump": digest}},
        {**own, "input": {"dump": blobs.put(b"other"), "signature": signature}},
        {**own, "definition": {"tools": [{"ref": {"kind": "dotted", "name": "os:abort"}}]}},
    ]
    for started in forged:
        with pytest.raises(NotTrusted, match="--trust"):
            require_trust(started, blobs, False)
        assert require_trust(started, blobs, True) == started["input"]["dump"]
