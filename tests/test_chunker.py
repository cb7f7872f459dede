"Properties of parsing and chunking over generated documents, and the small inputs that break chunkers"
import random, re, time
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sci_rag.blocks import Piece, assemble, content_hash, grid, normalise
from sci_rag.chunker import ChunkParams, approx_tokens, chunk, conservation
from sci_rag.core import ParameterError
from sci_rag.parse import parse_text

quick = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


def words(text): return 2 + len(re.findall(r'\w+|[^\w\s]', text))                # additive, like WordPiece
def bytes3(text): return 2 + (len(text.encode('utf-8', 'replace')) + 2) // 3      # not additive, like a byte-level tokenizer

def dear(text): return words(text) + text.count('\n') + text.count('\t')         # what joins the parts costs too
counters = st.sampled_from([words, bytes3, dear, approx_tokens])
word = st.one_of(st.sampled_from('straw yield Colusa 138 141.5 ligno-\ncellulosic ef\ufb01cacy T-\ncell e\u0301 und Mg/ha Dr. et al. (Fig. 2) α 水稻 x\xad\ny don\'t'.split(' ')),
                 st.text('abcXYZ0159éß水.-#*_|<>`[]', min_size=1, max_size=12))
sentence = st.builds(lambda ws, end: ' '.join(ws) + end, st.lists(word, min_size=1, max_size=25), st.sampled_from(['.', '!', '?', '', '. ']))
para = st.lists(sentence, min_size=1, max_size=8).map(' '.join)
title = st.lists(st.sampled_from('Methods Results Yield of Rice Straw 2.1 Drying and Storage'.split()), min_size=1, max_size=30).map(' '.join)
cell = st.one_of(st.sampled_from(['', '138', '14.1 %', 'Colusa County', 'n.d.', 'a / b']), st.text('abc 123', max_size=60))
rows = st.integers(1, 9).flatmap(lambda n: st.lists(st.lists(cell, min_size=n, max_size=n), min_size=1, max_size=30))


def md_table(rs): return '\n'.join('| ' + ' | '.join(r) + ' |' for r in [rs[0], ['---'] * len(rs[0]), *rs[1:]])


md_block = st.one_of(para, st.builds(lambda n, t: '#' * n + ' ' + t, st.integers(1, 6), title), rows.map(md_table), st.lists(sentence, min_size=1, max_size=6).map(lambda x: '\n'.join('- ' + s.replace('\n', ' ') for s in x)),
                     para.map(lambda p: '```\n' + p + '\n```'), st.sampled_from(['foo', '12', '***', '> quoted\n> | a | b |\n> |---|---|\n> | 1 | 2 |', '<!-- x -->', '[a]: http://b', 'Table 1. Yield in Mg', '## References',
                                                                               '<table><tr><th>a</th></tr><tr><td>1</td></tr></table>', '```', '---\na: b\n---']))
markdown = st.builds(lambda bs, sep: sep.join(bs), st.lists(md_block, min_size=1, max_size=12), st.sampled_from(['\n\n', '\r\n\r\n', '\n']))
text_block = st.one_of(para, title, st.sampled_from(['2 Methods', '3. Rinse twice.', '2019 was dry', 'RESULTS', '138\n141\n150', '141', '12', '\f', '-----', 'Site   Yield\nA   138\nB   141', '- a\n- b', 'References']))
plain = st.builds(lambda bs, sep: sep.join(bs), st.lists(text_block, min_size=1, max_size=14), st.sampled_from(['\n\n', '\n', '\r\n\r\n', '\f']))
piece = st.one_of(st.builds(Piece, st.sampled_from(['prose', 'list', 'code', 'caption']), para, page=st.integers(1, 3)), st.builds(Piece, st.just('heading'), title, st.integers(1, 4)),
                  st.builds(lambda r, h: Piece('table', cells=grid(r, h)), rows, st.integers(0, 2)))
document = st.one_of(markdown.map(parse_text), plain.map(lambda t: parse_text(t, format='text')), st.lists(piece, max_size=10).map(lambda p: assemble(p, title='A made-up title')))
params = st.builds(ChunkParams, target=st.sampled_from([40, 100, 800]), max_tokens=st.sampled_from([None, 32, 64, 256]))
loose = st.text(st.sampled_from('ab1.|-#>*`=~ \n\r\t\f<!&[]:_\x00\u2028é'), max_size=120)


def check(doc, p, count, title=None):
    chunks = chunk(doc, p, count_tokens=count, title=title)
    assert conservation(doc, chunks) == []
    assert bool(chunks) == bool(doc.blocks)
    assert [c.ordinal for c in chunks] == list(range(len(chunks)))
    assert all(a.start <= b.start and a.end <= b.end for a, b in zip(chunks, chunks[1:]))
    heads = [b for b in doc.blocks if b.kind == 'heading']
    tables = [b for b in doc.blocks if b.kind == 'table']
    for c in chunks:
        assert doc.text[c.start:c.end] == c.text and c.text.rstrip() == c.text != ""
        assert c.token_count == count(c.index_text)
        limit = p.max_tokens if c.is_table else p.limit
        assert limit is None or c.token_count <= limit
        inside = [h for h in heads if h.start < c.end and c.start < h.end]
        assert not inside or 'heading' in c.flags and len(inside) == 1          # never across a heading
        if not c.is_table: assert not any(t.start < c.end and c.start < t.end for t in tables)
    for t in tables:
        parts = [c for c in chunks if c.is_table and c.start < t.end and t.start < c.end]
        assert len(parts) == 1 or all('table-part' in c.flags for c in parts) and p.max_tokens
        said, longest = ' '.join(c.index_text for c in parts), 6 if any('row-split' in c.flags for c in parts) else 1000  # a longer word may be cut
        for cl in (x for r in t.cells for x in r if x): assert all(w in said for w in normalise(cl.text, False).text.split() if len(w) <= longest)
    return chunks


@quick
@given(document, params, counters, st.one_of(st.none(), title))
def test_nothing_is_lost_and_everything_fits(doc, p, count, title): check(doc, p, count, title)


@quick
@given(document, params)
def test_same_input_same_chunks(doc, p): assert chunk(doc, p) == chunk(doc, p)


@settings(max_examples=400, deadline=None)
@given(loose, st.sampled_from(['markdown', 'text']))
def test_any_characters(text, format):
    doc = parse_text(text, format=format)
    check(doc, ChunkParams(target=40), words)
    assert bool(doc.blocks) == bool(doc.text.strip())


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80))
def test_normalised_text_maps_back(text):
    import unicodedata
    n = normalise(text)
    assert len(n.offsets) == len(n.text) + 1 and n.offsets[-1] == len(text)
    assert all(a <= b for a, b in zip(n.offsets, n.offsets[1:]))
    assert unicodedata.is_normalized('NFC', n.text)
    assert normalise(n.text).text == n.text


# -- small inputs --------------------------------------------------------------------------------

def test_nul_is_removed_everywhere():
    doc = parse_text('binding\x00 affinity', title='A\x00 title', name='second.md')
    c, = chunk(doc)
    assert '\x00' not in doc.text + doc.title + c.text + c.index_text
    assert doc.warnings == ('second.md: removed 2 NUL or surrogate characters',)


def test_ligatures_are_indexed_as_letters():
    src = 'The ef\ufb01cacy of anti-in\ufb02ammatory drugs'
    c, = chunk(parse_text(src))
    assert 'efficacy' in c.index_text and 'inflammatory' in c.index_text and c.text == src
    n = normalise(src)
    i = n.text.index('efficacy')
    assert src[n.offsets[i]:n.offsets[i + 8]] == 'ef\ufb01cacy'


def test_deep_headings_and_a_table_in_a_small_window():
    rows = [['Site', 'Yield', 'Year'], *[[f'site {i}', str(130 + i), str(1980 + i)] for i in range(40)]]
    src = '# Residues of rice in the Sacramento Valley\n\n## 2 Materials and methods of the field trials\n\n### 2.1 Feedstock handling before the dry season\n\n' + md_table(rows)
    from sci_rag.embed import get_embedder
    for e in (get_embedder('minilm'), get_embedder('hashing')):
        chunks = chunk(parse_text(src), ChunkParams(max_tokens=64), count_tokens=e.count_tokens, title='A long title about straw, its yields and what to do with it')
        assert all(e.count_tokens(c.index_text) <= 64 for c in chunks)
        table = [c for c in chunks if c.is_table]
        assert len(table) > 1 and all('Site\tYield\tYear' in c.index_text for c in table)
        for r in rows: assert any('\t'.join(r) in c.index_text for c in table)
        assert conservation(parse_text(src), chunks) == []


def test_a_limit_without_a_tokenizer_is_honoured():
    src = 'The straw of rice was dry and its yield rose. ' * 200
    for p in (ChunkParams(target=128), ChunkParams(max_tokens=128)):
        chunks = chunk(parse_text(src), p)
        assert len(chunks) > 5 and max(c.token_count for c in chunks) <= 128
    with pytest.raises(ParameterError): ChunkParams(max_tokens=2)


@pytest.mark.parametrize('src', ['# A\n## B\n## C\nfoo', '# A\n\n## B', '# A\n\n# B', '| a | b |\n|---|---|\n| 1 | 2 |', 'foo', '12', '***', 'Yes.\n\nNo.'])
def test_small_documents_keep_everything(src):
    doc = parse_text(src)
    chunks = chunk(doc)
    assert chunks and conservation(doc, chunks) == []
    said = ' '.join(c.section_path + ' ' + c.text for c in chunks)
    assert all(w in said for w in re.findall(r'\w+', src))


@pytest.mark.parametrize('src', ['chunk chunk', 'The straw was dry. ' * 3, 'The straw was dry. ' * 300])
def test_repeated_text_has_exact_offsets(src):
    chunks = chunk(parse_text(src), ChunkParams(target=60))
    assert all(src[c.start:c.end] == c.text for c in chunks)
    assert all(a.start < b.start for a, b in zip(chunks, chunks[1:]))


def test_numbers_are_not_headings_or_page_numbers():
    src = 'Yields of the dry years in Mg\n\n2019 was dry\n\n3. Rinse twice.\n\nSite    Yield\nColusa    138\n          141\nGlenn     150\n\n138\n\n141\n\n150\n\nAll of it was sold.'
    doc = parse_text(src, format='text')
    assert not [b for b in doc.blocks if b.kind == 'heading' and b.text in ('2019 was dry', '3. Rinse twice.', '141')]
    assert not doc.dropped
    assert sum('141' in c.index_text for c in chunk(doc)) == 2


def test_a_table_between_two_paragraphs():
    src = '# Yield\n\nBefore the table it was dry.\n\n| Site | Yield |\n|---|---|\n| Colusa | 138 |\n| Glenn | 141 |\n\nAfter the table it was wet.'
    a, t, b = chunk(parse_text(src))
    assert (a.is_table, t.is_table, b.is_table) == (False, True, False) and {a.section_path, t.section_path, b.section_path} == {'Yield'}
    assert all(w in t.index_text for w in ('Colusa\t138', 'Glenn\t141')) and '138' not in a.text + b.text


def test_words_broken_at_the_end_of_a_line():
    c, = chunk(parse_text('ligno-\ncellulosic residues and T-\ncell lines'))
    assert 'lignocellulosic' in c.index_text and 'T-cell' in c.index_text and c.text.startswith('ligno-\n')


def test_identity_ignores_name_line_ends_and_chunk_size():
    a, b = parse_text('# A\n\nfoo bar', name='a.md'), parse_text('# A\r\n\r\n\r\nfoo\nbar\r\n', name='copy/b.md')
    assert content_hash(a) == content_hash(b) != content_hash(parse_text('# A\n\nfoo baz'))


def test_overlap_is_about_what_was_asked_and_stays_in_its_section():
    sents = [f'Sentence number {i} tells of dry straw in the field.' for i in range(400)]
    src = '# A\n\n' + ' '.join(sents[:200]) + '\n\n# B\n\n' + ' '.join(sents[200:])
    chunks = chunk(parse_text(src), count_tokens=words)
    same = [(a, b) for a, b in zip(chunks, chunks[1:]) if a.section_path == b.section_path]
    assert same and all(120 <= words(src[b.start:a.end]) <= 152 for a, b in same)
    assert all(a.end <= b.start for a, b in zip(chunks, chunks[1:]) if a.section_path != b.section_path)


def test_large_inputs_take_seconds():
    rng = random.Random(0)
    sents = [' '.join(rng.choice('straw yield dry Colusa 138 biomass'.split()) for _ in range(14)) + '.' for _ in range(2000)]
    big = '\n\n'.join(' '.join(rng.sample(sents, 6)) for _ in range(6000))
    table = md_table([['a', 'b', 'c'], *[[f'site {i}', str(i), 'dry'] for i in range(3000)]])
    for src, format in ((big, 'markdown'), (big, 'text'), (table, 'markdown'), ('word ' * 100_000, 'text'), ('x' * 300_000, 'text'), ('-' * 50_000 + 'x', 'text'), (' ' * 50_000 + 'x', 'markdown')):
        start = time.perf_counter()
        doc = parse_text(src, format=format)
        chunks = chunk(doc, ChunkParams(max_tokens=256))
        assert conservation(doc, chunks) == [] and time.perf_counter() - start < 30


def test_a_label_that_spans_rows_is_said_in_each(tmp_path):
    from sci_rag.parse import parse
    from sci_rag.embed import HashingEmbedder
    rows = ''.join(f'<tr><td>1.{i}</td><td>{i}.5</td></tr>' for i in range(40))
    (tmp_path/'rs.html').write_text('<table><tr><th>Site</th><th>Dose</th><th>Yield</th></tr><tr><td rowspan=41>Colusa</td><td>9</td><td>8</td></tr>' + rows + '</table>')
    d = parse(tmp_path/'rs.html')
    parts = chunk(d, ChunkParams(max_tokens=64), count_tokens=HashingEmbedder().count_tokens)
    assert len(parts) > 2 and all('Colusa' in c.index_text for c in parts) and not conservation(d, parts)
