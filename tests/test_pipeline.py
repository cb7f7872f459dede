"""The pipeline as a whole: processes, reruns, a cluster, and folders of the size that people have"""
import json, os, resource, signal, subprocess, sys, textwrap, time
from pathlib import Path

import psutil, pytest

from made_documents import SITES, content, make, make_folder
from sci_rag.chunker import ChunkParams
from sci_rag.db import open_database
from sci_rag.embed import HashingEmbedder, get_embedder
from sci_rag.ingest import DocumentInput, ingest


@pytest.fixture
def db(corpus_name):
    with open_database(name=corpus_name) as db: yield db


@pytest.fixture
def embedder(): return HashingEmbedder()


@pytest.fixture
def no_parsing(monkeypatch):
    "A switch: from now on nothing may be parsed or encoded"
    import sci_rag.ingest as m, sci_rag.prepare as p
    def forbid():
        def stop(*args, **kwargs): raise AssertionError("something was read or encoded")
        for module, name in ((p, "parse"), (p, "parse_text"), (m, "encode"), (m, "Pool")): monkeypatch.setattr(module, name, stop)
    return forbid


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_processes_change_nothing_but_the_time(corpus_name, embedder, tmp_path, workers):
    "The same rows and the same digest, in order, with any number of processes"
    folder = make_folder(tmp_path / "papers", 16, sections=2)
    with open_database(name=corpus_name) as db:
        report = ingest(db, embedder, folder, workers=workers)
        found = db.fetch("SELECT source_ref, content_hash, parser, array_agg(p.text ORDER BY ordinal), array_agg(p.embedding::text ORDER BY ordinal) FROM documents d JOIN passages p ON p.document_id = d.id GROUP BY d.id ORDER BY 1")
        assert report.counts == {"added": 16} and list(report.df.path) == sorted(report.df.path) and (report.df.chunks > 0).all()
        assert (report.df[report.df.path.str.endswith("pdf")].pages > 0).all() and (report.df.seconds > 0).all() and report.df.tables.sum() >= 14
    import hashlib
    digest = hashlib.sha256(json.dumps(found, default=str).encode()).hexdigest()
    assert test_processes_change_nothing_but_the_time.__dict__.setdefault("digest", digest) == digest


def test_few_small_files_start_no_process(db, embedder, tmp_path, monkeypatch):
    import sci_rag.ingest as m
    def stop(*args, **kwargs): raise AssertionError("a pool for one small file")
    monkeypatch.setattr(m, "Pool", stop)
    for i in range(8): make(tmp_path, i, "md")
    make(tmp_path, 9, "pdf")
    assert ingest(db, embedder, tmp_path).counts == {"added": 9}
    with pytest.raises(AssertionError): ingest(db, embedder, tmp_path, params=ChunkParams(target=40), workers=2)


def test_rerun_reads_bytes_only(db, embedder, tmp_path, no_parsing):
    folder = make_folder(tmp_path / "papers", 16, sections=1)
    first, before = ingest(db, embedder, folder), db.fingerprint()
    for f in folder.iterdir(): os.utime(f, (1, 1))                        # a touch changes nothing
    no_parsing()
    again = ingest(db, embedder, folder)
    assert again.counts == {"unchanged": 16} and db.fingerprint() == before and again.texts == 0
    columns = ["path", "document_id", "parser", "pages", "chunks", "tables", "dropped", "dropped_by_reason"]
    assert again.df[columns].equals(first.df[columns])                      # the report still knows what was found


def test_rerun_of_texts_reads_nothing(db, embedder, no_parsing):
    docs = [DocumentInput(id=f"d{i}", text=f"Lot {i} of the straw was burnt at 550 degrees.") for i in range(5)]
    ingest(db, embedder, docs)
    no_parsing()
    assert ingest(db, embedder, docs).counts == {"unchanged": 5}


@pytest.mark.parametrize("change, status", [(dict(title="Another title"), "reindexed"), (dict(license="CC0"), "updated"), (dict(meta={"k": 1}), "updated")])
def test_another_declaration_is_looked_at(db, embedder, tmp_path, change, status):
    (tmp_path / "a.md").write_text("# Ash\n\nRice straw holds 14 percent ash, most of it silica.\n")
    ingest(db, embedder, tmp_path)
    assert ingest(db, embedder, tmp_path, defaults=change).counts == {status: 1}
    assert ingest(db, embedder, tmp_path, defaults=change).counts == {"unchanged": 1}


def test_other_code_reads_again(db, embedder, tmp_path, monkeypatch, no_parsing):
    "What another version of the parsers would make of it, nobody knows before it has"
    import sci_rag.prepare as p
    (tmp_path / "a.md").write_text("# Ash\n\nRice straw holds 14 percent ash, most of it silica.\n")
    ingest(db, embedder, tmp_path)
    monkeypatch.setattr(p, "reader_version", lambda: "another")
    assert ingest(db, embedder, tmp_path).counts == {"unchanged": 1}
    no_parsing()
    assert ingest(db, embedder, tmp_path).counts == {"unchanged": 1}


def test_a_change_that_is_none_is_read_once(db, embedder, tmp_path, no_parsing):
    "Other bytes, the same text"
    (tmp_path / "a.md").write_text("# Ash\n\nRice straw holds 14 percent ash, most of it silica.\n")
    ingest(db, embedder, tmp_path)
    (tmp_path / "a.md").write_text("# Ash\n\n\n\nRice straw holds 14 percent ash,  most of it silica.\n")
    assert ingest(db, embedder, tmp_path).counts == {"unchanged": 1}
    no_parsing()
    assert ingest(db, embedder, tmp_path).counts == {"unchanged": 1}


def texts_of(db): return {r[0]: r[1] for r in db.fetch("SELECT source_ref, text FROM documents")}


@pytest.mark.parametrize("first", ["a.md", "z.md"])
def test_a_duplicate_outlives_what_it_duplicated(db, embedder, tmp_path, first):
    "m.md has the text of another file; when that one changes, whichever comes first, the text is still there"
    old, new = "Rice straw holds 14 percent ash, most of it silica.", "Rice straw holds 17 percent ash, most of it silica."
    (tmp_path / first).write_text(old)
    ingest(db, embedder, tmp_path)
    (tmp_path / "m.md").write_text(old)
    assert ingest(db, embedder, tmp_path).counts == {"duplicate": 1, "unchanged": 1}
    assert ingest(db, embedder, tmp_path).counts == {"duplicate": 1, "unchanged": 1}
    (tmp_path / first).write_text(new)
    assert ingest(db, embedder, tmp_path).counts == {"added": 1, "replaced": 1}
    assert texts_of(db) == {first: new, "m.md": old}
    (tmp_path / first).unlink()
    (tmp_path / "copy.md").write_text(old)
    assert ingest(db, embedder, tmp_path).counts == {"duplicate": 1, "unchanged": 1}
    (tmp_path / "m.md").unlink()                                           # and when it is gone, the copy takes its place
    assert ingest(db, embedder, tmp_path).counts == {"updated": 1} and "copy.md" in texts_of(db)


def test_a_file_that_becomes_a_copy_leaves_nothing_behind(db, embedder, tmp_path):
    (tmp_path / "a.md").write_text("Rice straw holds 14 percent ash, most of it silica.")
    (tmp_path / "b.md").write_text("Almond hulls are fed to dairy cows in the winter.")
    ingest(db, embedder, tmp_path)
    (tmp_path / "b.md").write_text((tmp_path / "a.md").read_text())
    report = ingest(db, embedder, tmp_path)
    assert report.counts == {"duplicate": 1, "unchanged": 1} and "former text was removed" in report.df.reason[1]
    assert list(texts_of(db)) == ["a.md"]


def test_deleted_documents_come_back(db, embedder, tmp_path):
    "What is remembered of a document goes with it"
    (tmp_path / "a.md").write_text("Rice straw holds 14 percent ash, most of it silica.")
    ingest(db, embedder, tmp_path)
    db.execute("DELETE FROM documents")
    assert ingest(db, embedder, tmp_path).counts == {"added": 1}


def test_corpus_of_an_older_schema_is_migrated(corpus_name, embedder, tmp_path):
    from sci_rag import db as dbm
    (tmp_path / "a.md").write_text("Rice straw holds 14 percent ash, most of it silica.")
    with open_database(name=corpus_name) as db:
        ingest(db, embedder, tmp_path)
        before = db.fingerprint()["digest"]
        n = dbm.migrations.index(dbm._migration_inputs)
        n = dbm.migrations.index(dbm._migration_inputs)
        db.execute("DROP TABLE ingest_inputs, document_signatures, document_duplicates, next_embeddings, token_vectors, token_projections")
        db.execute("DELETE FROM schema_version WHERE version > %s", [n])          # as it was before any of these tables
    with open_database(name=corpus_name) as db:
        assert db.fingerprint()["digest"] == before
        assert ingest(db, embedder, tmp_path).counts == {"unchanged": 1} and db.fetch("SELECT count(*) FROM ingest_inputs") == [(1,)]


def test_a_parser_of_ones_own_is_asked_each_time(db, embedder, tmp_path, monkeypatch):
    "Nobody knows when a function of a notebook changes; and a format can be given to another parser"
    from sci_rag import parse as p
    (tmp_path / "a.csv").write_text("site,ash\nColusa,14\nGlenn,15\n")
    assert ingest(db, embedder, tmp_path, workers=2).counts == {"added": 1}
    monkeypatch.setitem(p.SUFFIXES, ".csv", "text")
    assert ingest(db, embedder, tmp_path, workers=2).df.parser[0] == "text"
    monkeypatch.setitem(p.PARSERS, "mine", lambda path: p.parse_text("What I make of it is my own affair.", format="text", name=path.name))
    monkeypatch.setitem(p.SUFFIXES, ".csv", "mine")
    assert ingest(db, embedder, tmp_path, workers=2).counts == {"replaced": 1}
    monkeypatch.setitem(p.PARSERS, "mine", lambda path: p.parse_text("Now I see it in another light.", format="text", name=path.name))
    assert ingest(db, embedder, tmp_path).counts == {"replaced": 1}


def test_what_was_derived_goes_with_a_replaced_document(db, embedder, tmp_path):
    "Passages, term statistics and graph evidence of the old text"
    (tmp_path / "a.md").write_text("Rice straw holds 14 percent ash, most of it silica.")
    (tmp_path / "b.md").write_text("Almond hulls are fed to dairy cows in the winter.")
    ingest(db, embedder, tmp_path)
    db.execute("INSERT INTO kg_entities (name) VALUES ('straw'), ('silica')")
    db.execute("INSERT INTO kg_relationships (source_id, target_id, passage_id) SELECT 1, 2, id FROM passages")
    before = db.fingerprint()
    assert ingest(db, embedder, tmp_path).counts == {"unchanged": 2} and db.fingerprint() == before
    (tmp_path / "a.md").write_text("Rice straw holds 17 percent ash, most of it silica.")
    assert ingest(db, embedder, tmp_path).counts == {"replaced": 1, "unchanged": 1}
    after = db.fingerprint()
    assert after["digest"] != before["digest"] and after["passages"] == before["passages"] and after["relationships"] == 1
    assert not db.fetch("SELECT 1 FROM passages WHERE text LIKE '%14 percent%'") and not db.fetch("SELECT 1 FROM bm25_postings WHERE term = '14'")


def test_exit_status_of_the_command(corpus_name, tmp_path, capsys):
    "1 if anything failed, 0 otherwise"
    from sci_rag.cli import main
    (tmp_path / "a.md").write_text("Rice straw holds 14 percent ash, most of it silica.")
    (tmp_path / "photo.png").write_bytes(b"x")
    codes = []
    for bad in ([], ["empty.md"]):
        for name in bad: (tmp_path / name).write_text("")
        with pytest.raises(SystemExit) as e: main(["ingest", str(tmp_path), "--corpus", corpus_name, "--embedder", "hashing"])
        codes.append(e.value.code)
    assert codes == [0, 1] and "the file is empty" in capsys.readouterr().out


# Processes

NO_GUARD = textwrap.dedent("""
    import sys
    from sci_rag.db import open_database
    from sci_rag.embed import HashingEmbedder
    from sci_rag.ingest import ingest
    print("started")
    with open_database(name=sys.argv[1]) as db: print(ingest(db, HashingEmbedder(), sys.argv[2], workers=2).counts)
""")


def test_plain_script_without_a_guard(corpus_name, tmp_path):
    "A script that does not ask for __main__ runs once"
    folder = make_folder(tmp_path / "papers", 8, sections=1)
    (tmp_path / "script.py").write_text(NO_GUARD)
    done = subprocess.run([sys.executable, str(tmp_path / "script.py"), corpus_name, str(folder)], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:2] == ["started", "{'added': 8}"], done.stderr


def test_live_kernel(corpus_name, tmp_path):
    "In a Jupyter kernel, with a parser that only this notebook has"
    import nbformat
    from nbclient import NotebookClient
    folder = make_folder(tmp_path / "papers", 8, sections=1)
    (folder / "own.log").write_text("The furnace was lit at noon and went out in the evening.")
    cells = ["import sys, threading\nfrom sci_rag.db import open_database\nfrom sci_rag.embed import HashingEmbedder\nfrom sci_rag.ingest import ingest\nfrom sci_rag.parse import register_parser, parse_text",
             "@register_parser('log', '.log')\ndef read_log(path): return parse_text(path.read_text(), format='text', name=path.name)",
             f"db = open_database(name='{corpus_name}')\nreport = ingest(db, HashingEmbedder(), {str(folder)!r}, workers=2)\nprint(report.counts)\ndb.close()"]
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    NotebookClient(nb, timeout=120, kernel_name="python3").execute()
    assert "{'added': 9}" in "".join(o.get("text", "") for o in nb.cells[-1].outputs)


def test_workers_are_light(tmp_path):
    "No torch, pandas or matplotlib where documents are parsed and cut, with the tokenizer of the real encoder"
    from functools import partial
    from sci_rag.prepare import Job, can_cut, prepare_one
    from sci_rag.workers import Pool
    minilm = get_embedder("minilm")
    job = Job(ChunkParams(max_tokens=minilm.max_tokens), embedder=minilm)
    assert can_cut(job)
    folder = make_folder(tmp_path / "papers", 8, sections=1)
    with Pool(partial(prepare_one, job), 1) as pool:
        for _, a in pool.imap([DocumentInput(path=f) for f in sorted(folder.iterdir())]): assert a.value.views["chunk"], a
        process = psutil.Process(pool.all[0].proc.pid)
        maps = {Path(m.path).name for m in process.memory_maps()}
        assert not any("torch" in m for m in maps) and process.memory_info().rss < 400 << 20
    code = ("import sys, pickle; from functools import partial; from sci_rag.prepare import *; from sci_rag.embed import get_embedder; from sci_rag.chunker import ChunkParams; "
            "e = get_embedder('minilm'); [prepare_one(Job(ChunkParams(max_tokens=256), embedder=e), DocumentInput(path=p)) for p in sys.argv[1:]]; "
            "print(sorted({'torch', 'pandas', 'matplotlib', 'sentence_transformers', 'transformers', 'psycopg'} & set(sys.modules)))")
    assert subprocess.run([sys.executable, "-c", code, *map(str, folder.iterdir())], capture_output=True, text=True).stdout == "[]\n"


SLEEPY = textwrap.dedent("""
    import sys
    from sci_rag.workers import Pool
    import time
    with Pool(time.sleep, 3) as pool:
        for _ in range(3): pool.threads.submit(pool, 600)
        time.sleep(.5)
        while not all(w.proc for w in pool.all): time.sleep(.05)
        print(*(w.proc.pid for w in pool.all), flush=True)
        time.sleep(600)
""")


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_no_orphans(how):
    "However the caller ends, busy workers end with it"
    p = subprocess.Popen([sys.executable, "-c", SLEEPY], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    workers = [psutil.Process(int(pid)) for pid in p.stdout.readline().split()]
    assert len(workers) == 3 and all(w.is_running() for w in workers)
    p.send_signal(getattr(signal, how))
    p.wait(30)
    gone, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive


def test_killed_ingest_leaves_no_worker(corpus_name, tmp_path):
    "SIGKILL of a running ingest: its readers are gone, nothing is stored by halves, a rerun completes"
    folder = make_folder(tmp_path / "papers", 40, sections=1)
    with open_database(name=corpus_name) as db:
        p = subprocess.Popen([sys.executable, "-c", NO_GUARD.replace("workers=2", "workers=2, group_size=2"), corpus_name, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.time() + 60
        while db.fetch("SELECT count(*) FROM documents")[0][0] < 3:
            assert p.poll() is None and time.time() < deadline
            time.sleep(.01)
        workers = [w for w in psutil.Process(p.pid).children() if "sci_rag.workers" in " ".join(w.cmdline())]
        p.kill(); p.wait()
        assert workers and not psutil.wait_procs(workers, timeout=10)[1]
        assert not db.fetch("SELECT id FROM documents d WHERE NOT EXISTS (SELECT 1 FROM passages WHERE document_id = d.id)")
        counts = ingest(db, HashingEmbedder(), folder).counts
        assert sum(counts.values()) == 40 and set(counts) <= {"added", "unchanged"} and db.fingerprint()["documents"] == 40


def test_an_error_in_the_caller_leaves_no_worker(db, embedder, tmp_path, monkeypatch):
    "An interrupted ingest in a notebook: the kernel lives on, its workers do not"
    import sci_rag.ingest as m
    def stop(*args): raise KeyboardInterrupt
    monkeypatch.setattr(m, "encode", stop)
    folder = make_folder(tmp_path / "papers", 8, sections=1)
    with pytest.raises(KeyboardInterrupt): ingest(db, embedder, folder, workers=2)
    assert not [w for w in psutil.Process().children() if "sci_rag.workers" in " ".join(w.cmdline())]


# A cluster

@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'sci-rag[dask]'")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as c: yield c


def test_cluster_gives_the_same_corpus(corpus_name, embedder, tmp_path, cluster):
    "Two worker processes at an address: the digest, the passages and the rows of a local run; bad files are named alike"
    folder = make_folder(tmp_path / "papers", 24, sections=1)
    (folder / "cut.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<< /Type /Cat")
    (folder / "copy.md").write_text((folder / "d0000.md").read_text())
    os.mkfifo(folder / "pipe.txt")
    with open(folder / "huge.txt", "wb") as f: f.truncate(2 << 30)
    found = []
    for how in (dict(cluster=cluster.scheduler_address), {}):
        with open_database(name=corpus_name) as db:
            report, f = ingest(db, embedder, folder, **how), db.fingerprint()
            again = ingest(db, embedder, folder, **how).counts
            rows = db.fetch("SELECT document_id, ordinal, text, embedding::text FROM passages ORDER BY 1, 2")
            found.append((report.df.drop(columns="seconds").to_json(), f["digest"], rows, again))
            db.drop()
    assert found[0] == found[1] and found[0][3] == {"unchanged": 24, "duplicate": 1, "failed": 3}


def test_cluster_with_the_real_encoder(db, tmp_path, cluster):
    minilm = get_embedder("minilm")
    folder = make_folder(tmp_path / "papers", 4, sections=1)
    assert ingest(db, minilm, folder, cluster=cluster.scheduler_address).counts == {"added": 4}
    text, vector = db.fetch("SELECT index_text, embedding FROM passages LIMIT 1")[0]
    assert abs(minilm.encode_documents([text])[0] - vector).max() < 1e-5


def test_cluster_that_is_not_there(db, embedder, tmp_path):
    from sci_rag.core import ServiceError
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'sci-rag[dask]'")
    (tmp_path / "a.md").write_text("Rice straw holds 14 percent ash, most of it silica.")
    with pytest.raises(ServiceError, match="does not answer"): ingest(db, embedder, tmp_path, cluster="tcp://127.0.0.1:9")
    assert db.fingerprint()["documents"] == 0


class _Future:
    def __init__(self, batch): self.batch = batch
    def result(self):
        if any(d.id == "bad" for d in self.batch): raise RuntimeError("KilledWorker")
        return [d.id for d in self.batch]


class _Client:
    status = "running"
    def submit(self, batch): return _Future(batch)


def test_a_document_that_kills_workers_of_a_cluster_stands_alone():
    from sci_rag.cluster import _Attempt
    from sci_rag.core import ServiceError
    docs, client = [DocumentInput(id=i, text=i) for i in ("a", "bad", "b")], _Client()
    first, refused, last = _Attempt(client, client.submit, docs).result()
    assert (first, last, refused.doc.id) == ("a", "b", "bad") and "no worker of the cluster" in refused.reason
    client.status = "closed"
    with pytest.raises(ServiceError, match="the cluster is gone"): _Attempt(client, client.submit, docs).result()


@pytest.mark.parametrize("wrong", [dict(workers=-1), dict(timeout=-1), dict(group_size=0)])
def test_wrong_numbers(db, embedder, tmp_path, wrong):
    from sci_rag.core import ParameterError
    (tmp_path / "a.md").write_text("Rice straw holds 14 percent ash, most of it silica.")
    with pytest.raises(ParameterError): ingest(db, embedder, tmp_path, **wrong)
    assert db.embedding() is None


# Size

def test_a_long_text_and_a_long_table(db, embedder, tmp_path):
    "A thousand pages of 3 MB, and 3,000 rows in a spreadsheet: every row is found with its header"
    import openpyxl
    from made_documents import paragraph
    import random
    rng = random.Random(1)
    pages = "\n\n".join(f"{i // 20 + 1}.{i % 20 + 1} Harvest of Lot {i}\n\n" + "\n\n".join(paragraph(rng, 6) for _ in range(4)) for i in range(1000))
    (tmp_path / "long.txt").write_text(pages)
    book = openpyxl.Workbook()
    book.active.append(["Plot", "Site", "Ash", "Yield"])
    for i in range(3000): book.active.append([f"P{i:04}", SITES[i % 10], round(i / 7, 2), 100 + i % 900])
    book.save(tmp_path / "wide.xlsx")
    assert len(pages) > 3_000_000
    report = ingest(db, embedder, tmp_path)
    assert report.counts == {"added": 2}
    rows = db.fetch("SELECT p.text, index_text, token_count FROM passages p JOIN documents d ON d.id = p.document_id WHERE d.source_ref = 'wide.xlsx' AND is_table")
    assert all("Yield" in index for _, index, _ in rows) and all(n <= embedder.max_tokens for *_, n in rows)
    held = " ".join(text for text, *_ in rows)
    assert all(f"P{i:04}" in held for i in range(3000))
    assert db.fetch("SELECT count(DISTINCT section_path) FROM passages p JOIN documents d ON d.id = p.document_id WHERE d.source_ref = 'long.txt'")[0][0] >= 1000


FULL = textwrap.dedent("""
    import json, resource, sys, time
    from sci_rag.db import open_database
    from sci_rag.embed import get_embedder
    from sci_rag.ingest import ingest
    minilm = get_embedder("minilm").load()
    with open_database(name=sys.argv[1]) as db:
        minilm.encode_documents(["warm up"] * 8, progress=False)
        cpu = time.process_time()
        report = ingest(db, minilm, sys.argv[2])
        cpu = time.process_time() - cpu + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        peak = max(resource.getrusage(w).ru_maxrss for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        texts = [r[0] for r in db.fetch("SELECT index_text FROM passages ORDER BY document_id, ordinal")]
        started, own = time.perf_counter(), time.process_time()
        minilm.encode_documents(texts, progress=False); alone, own = time.perf_counter() - started, time.process_time() - own
        again = ingest(db, minilm, sys.argv[2])
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(json.dumps(dict(counts=report.counts, again=again.counts, seconds=report.seconds, rerun=again.seconds, cpu=cpu, cpu_alone=own, encode=report.encode_seconds, alone=alone, texts=len(texts), self=peak[1] / 2**20, children=children / 2**20)))
""")


@pytest.mark.slow
def test_two_hundred_documents_take_little_longer_than_their_encoding(corpus_name, tmp_path):
    "Real vectors, all formats: at most 1.2 times the encoding of the same texts alone, under 2 GiB with the largest worker"
    folder = make_folder(tmp_path / "papers", 200, sections=1, paragraphs=3)
    done = subprocess.run([sys.executable, "-c", FULL, corpus_name, str(folder)], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    r = json.loads(done.stdout.strip().splitlines()[-1])
    print(r)
    assert r["counts"] == {"added": 200} and r["again"] == {"unchanged": 200}
    assert r["self"] + r["children"] < 2, r          # the largest child is counted with what its parent had when it forked: more than two workers have
    assert r["seconds"] <= 1.2 * r["alone"], r
