"""A module beside the notebook that is named like an installed one is the one that travels."""

import subprocess
import sys
import textwrap


def test_the_module_beside_the_script_wins_over_an_installed_one_of_the_same_name(tmp_path):
    (tmp_path / "pluggy.py").write_text("def answer():\n    return 'mine'\n")  # pytest brings a package of this name
    script = textwrap.dedent(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import json, pluggy
        from agentlab.portable import Dump, reference
        print(json.dumps(reference(pluggy.answer, Dump())))
        """
    )
    ref = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    loading = textwrap.dedent(
        """
        import json, sys
        from agentlab.portable import load
        print(load(json.loads(sys.argv[1]), lambda digest: b"")())
        """
    )
    out = subprocess.run([sys.executable, "-c", loading, ref], capture_output=True, text=True, cwd="/")
    assert out.stdout.strip() == "mine", out.stderr
