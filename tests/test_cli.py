"The command line: help with examples, JSON for machines, exit status 0, 1 or 2, one line on an error"
import json, re, shlex, subprocess, sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sci_rag.cli import app, main
from sci_rag.db import list_corpora

PAPERS = {"ash.md": "# Ash of rice straw in a boiler\n\nRice straw holds 14 percent ash, most of it silica, which fuses late in the furnace.\n",
          "hulls.md": "# Almond hulls as feed\n\nAlmond hulls are fed to dairy cows in winter, and the shells are burnt for heat.\n",
          "memo.txt": "The straw contract with the mill is confidential until spring, said the owner of it.\n"}


def leaves(c, path=()):
    return [x for n, s in c.commands.items() for x in leaves(s, (*path, n))] if hasattr(c, "commands") else [(path, c)]


LEAVES = leaves(get_command(app))


@pytest.fixture
def papers(tmp_path):
    for name, text in PAPERS.items(): (tmp_path / name).write_text(text)
    licences = {"ash.md": "CC BY 4.0", "hulls.md": "public domain", "memo.txt": "all rights reserved"}
    (tmp_path / "manifest.jsonl").write_text("".join(json.dumps(dict(path=p, license=l)) + "\n" for p, l in licences.items()))
    return tmp_path


def run(capsys, *args):
    "(exit status, standard output, standard error) of a command in this process"
    try: main([str(a) for a in args]); code = 0
    except SystemExit as e: code = e.code or 0
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture
def made(capsys, corpus_name, papers):
    assert run(capsys, "ingest", papers, "-c", corpus_name, "--embedder", "hashing")[0] == 0
    return corpus_name


@pytest.mark.parametrize("path,command", LEAVES, ids=[" ".join(p) for p, _ in LEAVES])
def test_help_shows_an_example_that_parses(path, command):
    "The example is a command line of that very command, with options it has"
    r = CliRunner().invoke(app, [*path, "--help"])
    assert r.exit_code == 0 and "Example: sci-rag " + " ".join(path) in " ".join(r.output.split())
    words = shlex.split(command.epilog.removeprefix("Example: sci-rag "))[len(path):]
    known = {o for p in command.params for o in p.opts}
    assert {w for w in words if w.startswith("-")} <= known


def test_every_command_speaks_json():
    "Those that print a result; JupyterLab has none"
    assert not [p for p, c in LEAVES if "--json" not in {o for q in c.params for o in q.opts} and p[0] not in ("lab", "serve", "mcp")]


def test_a_round(capsys, made, papers):
    "Every corpus command as text and as JSON"
    say = lambda *a: run(capsys, *a, "--json")
    code, out, _ = say("search", "ash of straw", "-c", made, "-s", "bm25")
    found = json.loads(out)
    assert code == 0 and found["status"] == "success" and found["hits"][0]["title"] == "Ash of rice straw in a boiler"
    assert made in json.loads(say("corpus", "list")[1]) and made in run(capsys, "corpus", "list")[1]
    shown = json.loads(say("corpus", "show", "-c", made)[1])
    assert len(shown["documents"]) == 3 and shown["fingerprint"]["documents"] == 3
    assert json.loads(say("corpus", "lint", papers)[1]) == []
    assert json.loads(say("corpus", "duplicates", "-c", made)[1]) == []
    assert json.loads(say("corpus", "repair", "-c", made)[1]) == {"counted": 0, "compared": 0, "orphans": 0}
    assert {r["check"] for r in json.loads(say("doctor", "-c", made, "--embedder", "hashing")[1])} > {"database", "duplicates"}
    plan = json.loads(say("embed", "reindex", "-c", made, "--embedder", "hashing")[1])
    assert plan["texts"] == 0 and not plan["done"] and plan["representations"][0]["passages"] == 3
    id = next(d["id"] for d in shown["documents"] if d["source_ref"] == "memo.txt")
    gone = json.loads(say("corpus", "delete", id, "-c", made)[1])["deleted"]
    assert gone["documents"] == 1 and gone["passages"] == 1 and gone["vectors"] == 1
    assert json.loads(say("corpus", "drop", "-c", made, "--yes")[1]) == {"dropped": made} and made not in list_corpora()


def test_rights_on_the_command_line(capsys, made):
    code, out, _ = run(capsys, "search", "straw contract", "-c", made, "-s", "bm25", "--license", "public", "--license", "open_commercial", "--json")
    assert code == 0 and {h["license_class"] for h in json.loads(out)["hits"]} <= {"public", "open_commercial"}


def test_versions_on_the_command_line(capsys, made, tmp_path):
    body = " ".join(f"Rice straw of field {i} was cut, dried, milled and burnt in a grate boiler, and its ash was weighed by two people." for i in "abcdefgh")
    for name, kind in (("pre.md", "Preprint"), ("art.md", "Article")):
        (tmp_path / name).write_text(f"# Ash from a grate boiler over one winter\n\n{kind}\n\n{body}\n")
        assert run(capsys, "ingest", tmp_path / name, "-c", made, "--embedder", "hashing")[0] == 0
    code, out, _ = run(capsys, "corpus", "duplicates", "-c", made)
    assert code == 0 and "1 works in 2 versions" in out and "title" in out
    hits = lambda *a: [h["title"] for h in json.loads(run(capsys, "search", "grate boiler winter", "-c", made, "-s", "bm25", "--json", *a)[1])["hits"]]
    assert hits().count("Ash from a grate boiler over one winter") == 1 and hits("--all-versions").count("Ash from a grate boiler over one winter") == 2


def test_reindex_on_the_command_line(capsys, made, monkeypatch):
    "A dry run first; then --run; the old model is refused afterwards with a message that names both"
    from sci_rag import embed
    monkeypatch.setattr(embed, "get_embedder", lambda spec=None, settings=None: embed.HashingEmbedder(dim=96) if spec == "wide" else embed.HashingEmbedder())
    code, out, _ = run(capsys, "embed", "reindex", "-c", made, "--embedder", "wide")
    assert code == 0 and "3 texts to encode" in out and "add --run to do it" in out
    assert run(capsys, "search", "ash", "-c", made, "-s", "vector")[0] == 0
    code, out, _ = run(capsys, "embed", "reindex", "-c", made, "--embedder", "wide", "--run")
    assert code == 0 and "3 texts encoded" in out
    code, _, err = run(capsys, "search", "ash", "-c", made, "-s", "vector")
    assert code == 1 and "64 dimensions" in err and "96 dimensions" in err and err.count("\n") == 1
    assert run(capsys, "search", "ash", "-c", made, "-s", "vector", "--embedder", "wide")[0] == 0


wrong = {
    2: [["search", "ash", "-s", "bm52"], ["search", " "], ["search", "ash", "--limt", "5"], ["search", "ash", "-n", "0"], ["search", "ash", "--license", "publik"],
        ["ingest", "nowhere/"], ["corpus", "lint", "nowhere.jsonl"], ["embed", "reindex", "--batch", "0"], ["nonsense"]],
    1: [["corpus", "delete", "nobody"], ["search", "ash", "--embedder", "/no/such/model", "-s", "vector"], ["doctor", "--url", "postgresql://127.0.0.1:9/x"],
        ["corpus", "list", "--url", "postgresql://127.0.0.1:9/x"], ["corpus", "show", "--url", "mysql://h/x"]],
}


@pytest.mark.parametrize("code,args", [(c, a) for c, many in wrong.items() for a in many], ids=lambda v: str(v))
def test_exit_status(capsys, made, code, args):
    where = ["-c", made] if args[0] in ("search", "doctor", "embed") or args[:2] in (["corpus", "delete"], ["corpus", "show"]) else []
    got, out, err = run(capsys, *args, *where)
    assert got == code and "Traceback" not in out + err and (err.strip() or args[0] == "doctor" or "vector error" in out)


@pytest.mark.parametrize("args", [["search", "ash"], ["corpus", "show"], ["corpus", "delete", "x"], ["corpus", "drop", "--yes"], ["corpus", "duplicates"],
                                  ["corpus", "repair"], ["embed", "reindex"], ["doctor"]], ids=" ".join)
def test_looking_at_a_corpus_does_not_make_it(capsys, corpus_name, args):
    code, out, err = run(capsys, *args, "-c", corpus_name, *(["--embedder", "hashing"] if args[0] in ("doctor", "search", "embed") else []))
    assert code == (0 if args == ["doctor"] else 1) and corpus_name not in list_corpora()
    assert f"there is no corpus '{corpus_name}'" in out + err


def test_a_failed_document_is_exit_status_1(capsys, corpus_name, papers):
    (papers / "manifest.jsonl").unlink(); (papers / "bad.pdf").write_bytes(b"%PDF-1.4 truncated")
    code, out, _ = run(capsys, "ingest", papers, "-c", corpus_name, "--embedder", "hashing", "--json")
    assert code == 1 and {r["status"] for r in json.loads(out)} == {"added", "failed"}


def test_lint_tells_everything_at_once(capsys, papers):
    (papers / "manifest.jsonl").write_text('{"path": "ash.md", "licence": "x"}\n{"path": "../out.md"}\nnot json\n{"path": "hulls.md", "license": "ask me"}\n')
    code, out, _ = run(capsys, "corpus", "lint", papers / "manifest.jsonl", "--json")
    found = json.loads(out)
    assert code == 1 and [p["line"] for p in found] == sorted(p["line"] for p in found) and {p["line"] for p in found} == {1, 2, 3, 4}
    (papers / "manifest.jsonl").write_text('{"path": "hulls.md", "license": "ask me"}\n')
    assert run(capsys, "corpus", "lint", papers)[0] == 0, "warnings alone are no failure"


def test_drop_asks(capsys, made, monkeypatch):
    r = CliRunner().invoke(app, ["corpus", "drop", "-c", made], input="n\n")
    assert r.exit_code == 1 and made in list_corpora()


def test_as_a_shell_sees_it(made):
    r = subprocess.run([sys.executable, "-c", "from sci_rag.cli import main; main()", "corpus", "delete", "nobody", "-c", made], capture_output=True, text=True)
    assert r.returncode == 1 and r.stdout == "" and r.stderr.startswith("sci-rag: no document 'nobody'") and r.stderr.count("\n") == 1
