"""Bad input: each one line with a reason, the others go in, and nothing hangs or is passed over in silence"""
import json, os, socket, subprocess, sys, textwrap, time, zipfile

import pytest

from made_documents import make
from sci_rag.core import ManifestError, SciRagError
from sci_rag.db import open_database
from sci_rag.embed import HashingEmbedder
from sci_rag.ingest import ingest


@pytest.fixture
def db(corpus_name):
    with open_database(name=corpus_name) as db: yield db


@pytest.fixture
def folder(tmp_path):
    "Two good documents"
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "good.md").write_text("# Good\n\nRice straw holds 14 percent ash, most of it silica.\n")
    (folder / "fine.txt").write_text("Almond hulls are fed to dairy cows in the winter months.\n")
    return folder


def rows(db, folder, **kwargs):
    "{path: (status, reason)}; the two good documents are in, nothing is named twice, every reason is one line without a path of this machine"
    started = time.monotonic()
    report = ingest(db, HashingEmbedder(), folder, **kwargs)
    assert time.monotonic() - started < 60
    assert report.df.path.is_unique and not report.df.reason.str.contains("\n").any()
    assert not report.df.reason.str.contains(str(folder), regex=False).any()
    found = {r.path: (r.status, r.reason) for r in report.df.itertuples()}
    assert found["good.md"][0] == "added" and found["fine.txt"][0] == "added"
    for path, (status, reason) in found.items(): assert status == "added" or len(reason) > 5, path
    assert db.fingerprint()["documents"] == sum(s == "added" for s, _ in found.values())
    return found


def pdf(path, text="Straw was burnt in the autumn of 2019.", encrypt=None):
    from fpdf import FPDF
    p = FPDF()
    p.add_page()
    p.set_font("Helvetica", size=12)
    if text: p.multi_cell(0, 6, text * 20)
    else: p.rect(10, 10, 100, 100, style="F")
    if encrypt: p.set_encryption(owner_password="o" + encrypt, user_password=encrypt)
    p.output(str(path))
    return path


@pytest.mark.parametrize("workers", [1, 2])
def test_documents_that_are_none(db, folder, workers):
    "In this process and in others: the same reasons"
    pdf(folder / "cut.pdf").write_bytes((folder / "cut.pdf").read_bytes()[:700])
    pdf(folder / "locked.pdf", encrypt="secret")
    pdf(folder / "scan.pdf", text="")
    (folder / "zero.pdf").write_bytes(b"")
    (folder / "zero.md").write_bytes(b"")
    (folder / "blank.txt").write_text("  \n\n \n")
    (folder / "no.docx").write_bytes(b"this is no archive")
    (folder / "other.docx").write_bytes(b"PK\x03\x04 broken")
    (folder / "binary.txt").write_bytes(bytes(range(256)) * 20)
    (folder / "image.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\x00" * 100)
    (folder / "page.pdf").write_text("<html>this is a web page</html>")
    found = rows(db, folder, workers=workers)
    words = {"cut.pdf": "cut off", "locked.pdf": "encrypted", "scan.pdf": "pictures|no text", "zero.pdf": "empty", "zero.md": "empty", "blank.txt": "no text", "no.docx": "not a DOCX",
             "other.docx": "not a DOCX", "binary.txt": "binary", "image.txt": "PNG", "page.pdf": "not a PDF"}
    for path, said in words.items():
        assert found[path][0] == "failed" and any(w in found[path][1] for w in said.split("|")), (path, found[path])
    assert len(found) == len(words) + 2


def test_five_files_of_which_three_are_bad(db, folder):
    "Truncated, empty, image-only: three failures and not ok; no document without a passage"
    pdf(folder / "cut.pdf").write_bytes((folder / "cut.pdf").read_bytes()[:700])
    pdf(folder / "scan.pdf", text="")
    (folder / "empty.md").write_text("")
    report = ingest(db, HashingEmbedder(), folder)
    assert report.counts == {"added": 2, "failed": 3} and not report.ok
    assert db.fetch("SELECT count(*) FROM documents d WHERE NOT EXISTS (SELECT 1 FROM passages WHERE document_id = d.id)") == [(0,)]
    again = ingest(db, HashingEmbedder(), folder)
    assert again.counts == {"unchanged": 2, "failed": 3}                  # a failure is tried again, and said again


def test_things_that_are_no_files(db, folder):
    "A pipe does not hang, a folder, a socket and links are named for what they are"
    os.mkfifo(folder / "pipe.txt")
    (folder / "x.pdf").mkdir()
    (folder / "x.pdf" / "inside.md").write_text("A document inside a folder that is called like a file.")
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(folder)                                                       # names of sockets are short
    try: server.bind("sock.txt")
    finally: os.chdir(here)
    (folder.parent / "secret.md").write_text("This text lies outside and must not get in.")
    (folder / "out.md").symlink_to(folder.parent / "secret.md")
    (folder / "outside").symlink_to(folder.parent)
    (folder / "self.md").symlink_to("self.md")
    (folder / "a.md").symlink_to("b.md")
    (folder / "b.md").symlink_to("a.md")
    (folder / "up").symlink_to(folder)
    (folder / "gone.md").symlink_to("nowhere.md")
    found = rows(db, folder)
    server.close()
    assert found.pop("x.pdf/inside.md")[0] == "added"
    words = {"pipe.txt": ("failed", "pipe"), "sock.txt": ("failed", "socket"), "x.pdf": ("skipped", "folder"), "out.md": ("skipped", "outside"), "outside": ("skipped", "outside"),
             "self.md": ("failed", "circle"), "a.md": ("failed", "circle"), "b.md": ("failed", "circle"), "up": ("skipped", "folder"), "gone.md": ("failed", "nowhere")}
    for path, (status, word) in words.items(): assert found[path][0] == status and word in found[path][1], (path, found[path])
    assert not db.fetch("SELECT 1 FROM documents WHERE text LIKE '%lies outside%'")


def test_hidden_and_unknown_files_are_counted_once(db, folder):
    (folder / "photo.png").write_bytes(b"\x89PNG")
    (folder / "data.parquet").write_bytes(b"PAR1")
    (folder / ".DS_Store").write_bytes(b"x")
    (folder / "~$open.docx").write_bytes(b"x")
    (folder / ".git").mkdir()
    for i in range(50): (folder / ".git" / f"{i}.md").write_text("not for reading")
    found = rows(db, folder)
    assert {k: v for k, v in found.items() if v[0] == "skipped"} == {".DS_Store": ("skipped", "hidden"), "~$open.docx": ("skipped", "hidden"), ".git": ("skipped", "hidden"),
                                                                    "data.parquet": ("skipped", "no parser for .parquet files"), "photo.png": ("skipped", "no parser for .png files")}
    assert ingest(db, HashingEmbedder(), folder).ok                       # left out on purpose is no failure


def test_too_large_is_refused_before_it_is_read(db, folder):
    "A sparse file of 2 GB costs neither time nor memory"
    with open(folder / "huge.txt", "wb") as f: f.truncate(2 << 30)
    started = time.monotonic()
    found = rows(db, folder)
    assert found["huge.txt"][0] == "failed" and "limit of 200 MB" in found["huge.txt"][1] and time.monotonic() - started < 20


def test_size_limit_is_a_setting(db, folder, monkeypatch):
    from sci_rag import core
    monkeypatch.setattr(core, "_cached", {"settings": core.Settings(data_dir=core.settings().data_dir, max_file_mb=1)})
    (folder / "long.txt").write_text("Straw is cut and baled. " * 60_000)
    assert "limit of 1 MB" in rows(db, folder)["long.txt"][1]


def archive(path, member, size, fill=b" "):
    "A small archive that unpacks to a lot"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        with z.open(member, "w", force_zip64=True) as f:
            for _ in range(size >> 20): f.write(fill * (1 << 20))


def test_zip_bombs(db, folder):
    archive(folder / "bomb.docx", "word/document.xml", 600 << 20)
    archive(folder / "bomb.xlsx", "xl/workbook.xml", 600 << 20)
    assert (folder / "bomb.docx").stat().st_size < 1_000_000
    found = rows(db, folder)
    for name in ("bomb.docx", "bomb.xlsx"): assert found[name][0] == "failed" and "unpacks to" in found[name][1]


def test_a_bomb_under_the_limit_is_opened_in_a_process_of_limited_memory(db, folder, monkeypatch):
    "400 MB of empty cells would be several gigabytes of objects; the caller does not grow"
    import resource, sci_rag.ingest as m
    monkeypatch.setattr(m, "MEMORY", 400 << 20)
    cell = b'<w:p><w:r><w:t>ash</w:t></w:r></w:p>'
    with zipfile.ZipFile(folder / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as z:
        with z.open("word/document.xml", "w") as f:
            f.write(b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>')
            for _ in range(100): f.write(cell * 20_000)
            f.write(b"</w:body></w:document>")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = rows(db, folder)
    assert found["bomb.docx"] == ("failed", "does not fit into memory") or "memory" in found["bomb.docx"][1]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_html_bomb(db, folder):
    (folder / "bomb.html").write_text("<table><tr><td>" * 20_000 + "ash" + "</td></tr></table>" * 20_000)
    status, reason = rows(db, folder)["bomb.html"]
    assert status == "added" or len(reason) > 10


def test_wrong_encodings_are_read_with_a_warning(db, folder):
    (folder / "latin.txt").write_bytes("Das Stroh wurde im Frühjahr für die Ställe benötigt, größere Mengen übrig.".encode("latin-1"))
    (folder / "utf16.txt").write_text("The straw was cut in March and baled in April of that year.", encoding="utf-16")
    found = rows(db, folder)
    assert found["latin.txt"][0] == "added" and "not UTF-8" in found["latin.txt"][1] and found["utf16.txt"][0] == "added"
    assert db.fetch("SELECT count(*) FROM documents WHERE text LIKE '%Frühjahr%' OR text LIKE '%baled in April%'") == [(2,)]


def test_name_that_is_no_text(db, folder):
    "Bytes that are no UTF-8, in two file names that differ in nothing else"
    for byte in (b"\xff", b"\xfe"): (open(os.fsencode(folder) + b"/n" + byte + b".md", "wb")).write(b"A document under an odd name, number " + str(byte[0]).encode())
    report = ingest(db, HashingEmbedder(), folder)
    assert report.counts == {"added": 4} and ingest(db, HashingEmbedder(), folder).counts == {"unchanged": 4}


def test_unreadable_files_and_folders(tmp_path):
    "Permissions do not bind root, so this runs as nobody where it can"
    if os.name != "posix": pytest.skip("permissions of POSIX")
    import tempfile
    from sci_rag.ingest import find_documents
    from sci_rag.prepare import Job, prepare_one
    from sci_rag.chunker import ChunkParams
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        for f in ("ok.md", "locked.md"): open(f"{name}/{f}", "w").write("A document that may or may not be read by others.")
        os.mkdir(f"{name}/dir"); os.chmod(f"{name}/locked.md", 0o000); os.chmod(f"{name}/dir", 0o000)
        root = os.geteuid() == 0
        if root: os.seteuid(65534)
        try:
            docs, rest = find_documents(name)
            found = {d.source_ref: prepare_one(Job(ChunkParams(), embedder=HashingEmbedder()), d) for d in docs}
        finally:
            if root: os.seteuid(0)
        os.chmod(f"{name}/dir", 0o755)
    assert [(r.path, r.status) for r in rest] == [("dir", "failed")] and "Permission denied" in rest[0].reason
    assert found["locked.md"].reason == "cannot be read: Permission denied" and not hasattr(found["ok.md"], "views") is False


def test_file_that_cannot_be_read_even_by_root(db, folder, monkeypatch):
    "An input/output error in the middle of reading"
    import builtins, io, pathlib
    real = pathlib.Path.read_bytes
    def broken(self):
        if self.name == "rotten.md": raise OSError(5, "Input/output error")
        return real(self)
    monkeypatch.setattr(pathlib.Path, "read_bytes", broken)
    (folder / "rotten.md").write_text("On a disk that has seen better days.")
    assert rows(db, folder, workers=1)["rotten.md"] == ("failed", "cannot be read: Input/output error")


def test_manifest_lines_whose_file_cannot_be_used(db, folder):
    "Outside, missing, a folder, a circle: one line each, with the line number; the others go in"
    (folder.parent / "secret.md").write_text("Not for this corpus.")
    (folder / "dir").mkdir()
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "link.md").symlink_to(folder.parent / "secret.md")
    paths = ["good.md", "../secret.md", "fine.txt", "missing.md", "dir", "loop.md", "link.md", str(folder.parent / "secret.md")]
    (folder / "manifest.jsonl").write_text("\n".join(json.dumps({"path": p, "license": "CC0"}) for p in paths))
    report = ingest(db, HashingEmbedder(), folder)
    assert set(report.df[report.df.status == "added"].path) == {"good.md", "fine.txt"} and len(report.failed) == 6
    for i, p in enumerate(paths, 1):
        if p not in ("good.md", "fine.txt"): assert f"line {i} of the manifest" in report.failed.set_index("path").reason[p]
    assert not db.fetch("SELECT 1 FROM documents WHERE text LIKE 'Not for%'")


@pytest.mark.parametrize("line", ['{"path": "good.md", "licence": "CC0"}', '{"path": ', '{"title": "no path"}', '{"path": "fine.txt", "license": "CC0"}'])
def test_other_mistakes_in_a_manifest_stop_everything(db, folder, line):
    "What a line says about rights cannot be guessed"
    (folder / "manifest.jsonl").write_text('{"path": "fine.txt"}\n{"path": "../x.md"}\n' + line)
    with pytest.raises(ManifestError, match="line 3"): ingest(db, HashingEmbedder(), folder)
    assert db.fingerprint()["documents"] == 0


def test_single_sources_that_are_none(db, tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "a.xyz").write_text("a format that nobody knows")
    assert "not a file" in ingest(db, HashingEmbedder(), tmp_path / "pipe.txt").failed.reason[0]
    assert "no parser" in ingest(db, HashingEmbedder(), tmp_path / "a.xyz").failed.reason[0]
    (tmp_path / "void").mkdir()
    with pytest.raises(SciRagError, match="holds no document"): ingest(db, HashingEmbedder(), tmp_path / "void")


PARSERS = textwrap.dedent("""
    import os, re, signal, sys, time
    from sci_rag import formats
    def hostile(path):
        "Stands in for a library that meets a file it cannot bear"
        what = path.read_text().split()[0]
        if what == 'crash': os.kill(os.getpid(), signal.SIGSEGV)
        if what == 'killed': os.kill(os.getpid(), signal.SIGKILL)
        if what == 'exit': os._exit(3)
        if what == 'leave': sys.exit(3)
        if what == 'loop':
            while True: pass
        if what == 'regex': re.match(r'(a+)+$', 'a' * 60 + 'b')     # holds the interpreter for ages
        if what == 'grow': x = bytearray(20 << 30)
        print('noise on standard output'); os.write(1, b'more noise')
        return real(path)
    real, formats.parse_csv = formats.parse_csv, hostile
""")


def test_a_worker_that_dies_takes_one_document_with_it(db, folder, tmp_path, monkeypatch):
    "Crash, kill, exit, endless loop, a regular expression that never ends, too much memory: in the worker, by a hook in its search path"
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(PARSERS)
    monkeypatch.setenv("PYTHONPATH", f"{hook}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(hook))
    kinds = "crash killed exit leave loop regex grow".split()
    for kind in kinds: (folder / f"{kind}.csv").write_text(f"{kind} site,ash\nColusa,14\nGlenn,15\n")
    for i in range(4): (folder / f"ok{i}.csv").write_text(f"site {i},ash\nColusa,{i}\nGlenn,15\n")
    found = rows(db, folder, workers=2, timeout=5)
    assert all(found[f"ok{i}.csv"][0] == "added" for i in range(4))
    words = dict(crash="SIGSEGV", killed="SIGKILL, most likely for want of memory", exit="exit status 3", leave="SystemExit", loop="longer than 5 seconds", regex="longer than 5 seconds", grow="memory")
    for kind, said in words.items(): assert found[f"{kind}.csv"][0] == "failed" and said in found[f"{kind}.csv"][1], (kind, found[f"{kind}.csv"])


def test_a_hang_without_workers_is_ended_too(db, folder, monkeypatch):
    from sci_rag import parse as p
    def loop(path):
        while True: sum(range(100))
    monkeypatch.setitem(p.PARSERS, "csv", loop)
    (folder / "a.csv").write_text("site,ash\nColusa,14\n")
    assert "longer than 1 second" in rows(db, folder, timeout=1)["a.csv"][1]


def test_a_far_cell_does_not_fill_the_memory(tmp_path):
    import openpyxl
    from sci_rag.parse import parse
    w = openpyxl.Workbook(); s = w.active
    s["A1"], s["B1"], s["A2"], s["B2"], s["XFD1048576"] = "site", "ash", "Colusa", 14.5, "far away"
    w.save(tmp_path/"far.xlsx")
    d = parse(tmp_path/"far.xlsx")
    assert "Colusa" in d.text and "far away" in d.text and sum(b.kind == "table" for b in d.blocks) >= 1
