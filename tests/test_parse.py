"Files of many formats and of no format: the same blocks, all the words, one line of reason"
import os, random, re, time, zipfile
import pytest
from hypothesis import given, settings, strategies as st
from sci_rag.blocks import Piece, assemble, grid
from sci_rag.chunker import ChunkParams, chunk, conservation
from sci_rag.core import ParseError
from sci_rag.formats import read_html, read_jats, read_xml
from sci_rag.parse import decode, parse, parse_text

GRID = [['Site', 'Yield', None], ['Colusa', '138', '141'], ['Glenn', '', '150.5']]
HTML = '<table><tr><th>Site</th><th colspan="2">Yield</th></tr><tr><td>Colusa</td><td>138</td><td>141</td></tr><tr><td>Glenn</td><td></td><td>150.5</td></tr></table>'


def table_of(parsed):
    table, = (b for b in parsed.blocks if b.kind == 'table')
    return [[c and c.text for c in r] for r in table.cells]


def docx(path):
    docx = pytest.importorskip('docx')
    d = docx.Document()
    d.add_heading('Straw of rice', 0)
    d.add_heading('1 Methods', 1)
    d.add_paragraph('one', style='List Bullet')
    t = d.add_table(rows=3, cols=3)
    for r, row in enumerate(GRID):
        for c, v in enumerate(row): t.cell(r, c).text = v or ''
    t.cell(0, 1).merge(t.cell(0, 2))
    p = d.add_paragraph('It ')
    p.add_run('burns').bold = True
    p.add_run(' well.')
    d.save(path)


def test_one_table_in_every_format(tmp_path):
    openpyxl = pytest.importorskip('openpyxl')
    book = openpyxl.Workbook()
    for row in [['Site', 'Yield', None], ['Colusa', 138, 141], ['Glenn', None, 150.5]]: book.active.append(row)
    book.active.merge_cells('B1:C1')
    book.save(tmp_path/'a.xlsx')
    docx(tmp_path/'a.docx')
    (tmp_path/'a.html').write_text('<h1>Straw</h1>' + HTML)
    (tmp_path/'a.md').write_text('# Straw\n\n' + HTML)
    (tmp_path/'a.xml').write_text(f'<article><body><table-wrap>{HTML}</table-wrap></body></article>')
    for name in ('a.xlsx', 'a.docx', 'a.html', 'a.md', 'a.xml'):
        parsed = parse(tmp_path/name)
        assert table_of(parsed) == GRID, name
        assert [b for b in parsed.blocks if b.kind == 'table'][0].cells[0][1].colspan == 2 and conservation(parsed, chunk(parsed)) == []
    (tmp_path/'a.csv').write_text('Site,2018,2019\nColusa,138,141\n"Glenn, CA",,150.5\n')
    assert table_of(parse(tmp_path/'a.csv'))[2] == ['Glenn, CA', '', '150.5']


def test_docx_keeps_words_headings_and_lists(tmp_path):
    docx(tmp_path/'a.docx')
    parsed = parse(tmp_path/'a.docx')
    assert [(b.kind, b.level, b.text) for b in parsed.blocks if b.kind != 'table'] == [('heading', 1, 'Straw of rice'), ('heading', 2, '1 Methods'), ('list', 0, '- one'), ('prose', 0, 'It burns well.')]
    assert parsed.title == 'Straw of rice' and parsed.parser == 'docx'


BAD = {'empty.md': (b'', 'the file is empty'), 'blank.txt': (b' \n\f', 'no text found'), 'junk.txt': (bytes(range(256)) * 20, 'binary'), 'pdf.txt': (b'%PDF-1.4 x', 'is a PDF'), 'png.md': (b'\x89PNG\r\n', 'PNG'),
       'text.docx': (b'just text', 'not a ZIP archive'), 'old.docx': (b'\xd0\xcf\x11\xe0' + b'x' * 99, 'old or encrypted'), 'text.xlsx': (b'just text', 'not a XLSX file'), 'bad.xml': (b'<article><body>', 'not well-formed'),
       'rss.xml': (b'<rss/>', 'not a JATS article'), 'a.xyz': (b'x', 'no parser'), 'empty.html': (b'<html><script>x</script></html>', 'no text found'), 'empty.csv': (b'\n\n', 'no text found')}


@pytest.mark.parametrize('name', BAD)
def test_bad_files_give_one_line(tmp_path, name):
    content, reason = BAD[name]
    (tmp_path/name).write_bytes(content)
    with pytest.raises(ParseError) as e: parse(tmp_path/name)
    assert reason in str(e.value) and name in str(e.value) and '\n' not in str(e.value)


def test_files_that_are_none(tmp_path):
    docx(tmp_path/'a.docx')
    (tmp_path/'cut.docx').write_bytes((tmp_path/'a.docx').read_bytes()[:4000])
    with zipfile.ZipFile(tmp_path/'zip.docx', 'w') as z: z.writestr('a.txt', 'x')
    (tmp_path/'folder.md').mkdir()
    (tmp_path/'loop.md').symlink_to(tmp_path/'loop.md')
    with open(tmp_path/'huge.txt', 'wb') as f: f.truncate(2_000_000_000)
    for name, reason in {'cut.docx': 'truncated', 'zip.docx': 'holds no word/document.xml', 'folder.md': 'not a file', 'loop.md': '', 'huge.txt': 'more than the limit', 'none.md': 'no such file'}.items():
        with pytest.raises(ParseError) as e: parse(tmp_path/name)
        assert reason in str(e.value) and '\n' not in str(e.value)


@pytest.mark.skipif(os.name != 'posix' or os.geteuid() == 0, reason='root may read everything')
def test_unreadable_file(tmp_path):
    (tmp_path/'a.md').write_text('x')
    (tmp_path/'a.md').chmod(0)
    with pytest.raises(ParseError, match='cannot be read'): parse(tmp_path/'a.md')


def test_bombs_are_only_long(tmp_path):
    start = time.perf_counter()
    assert 'deep' in read_html('<table><tr><td>' * 30_000 + 'deep').text
    assert 'deep' in read_html('<div><ul><li>' * 30_000 + 'deep').text
    assert read_html('<table>' + '<tr><td colspan=99999 rowspan=99999>x' * 3000 + '</table>').blocks
    assert parse_text('<table><tr><td>' * 5_000 + 'deep').blocks and parse_text('> ' * 5_000 + 'deep').blocks and parse_text('- ' * 5_000 + 'deep').blocks
    entities = '<!DOCTYPE a [<!ENTITY a "x"><!ENTITY b "' + '&a;' * 100 + '"><!ENTITY c "' + '&b;' * 100 + '">]>'
    assert len(read_jats(read_xml((entities + '<article><body><p>' + '&c;' * 100 + '</p></body></article>').encode(), '')).text) < 1000
    with pytest.raises(ParseError):
        (tmp_path/'deep.xml').write_text('<article><body>' + '<sec>' * 100_000 + 'x' + '</sec>' * 100_000 + '</body></article>')
        parse(tmp_path/'deep.xml')
    assert time.perf_counter() - start < 30


@pytest.mark.parametrize('encoding', ['utf-8', 'utf-8-sig', 'utf-16', 'utf-16-le', 'utf-16-be', 'utf-32', 'cp1252'])
def test_encodings(tmp_path, encoding):
    (tmp_path/'a.txt').write_bytes('Rüben, Möhren und Kürbis – alles getrocknet.'.encode(encoding))
    parsed = parse(tmp_path/'a.txt')
    assert parsed.text == 'Rüben, Möhren und Kürbis – alles getrocknet.'
    assert bool(parsed.warnings) == (encoding == 'cp1252') and all('a.txt' in w for w in parsed.warnings)


words = st.lists(st.sampled_from('straw yield 138 ash &amp; <b>dry</b> <i>Oryza</i> H<sub>2</sub>O'.split()), min_size=1, max_size=6).map(' '.join)
inline = words
block = st.one_of(st.builds('<p>{}</p>'.format, inline), st.builds('<h{0}>{1}</h{0}>'.format, st.integers(1, 6), inline), st.builds('<div>{}<p>{}</div>'.format, inline, inline),
                  st.builds('<ul><li>{}<li>{}<ul><li>{}</ul></ul>'.format, inline, inline, inline), st.builds('<table><caption>{}</caption><tr><th>{}<td rowspan=2>{}<tr><td>{}</table>'.format, inline, inline, inline, inline),
                  st.builds('{}<br>{}'.format, inline, inline), st.builds('<pre>{}</pre>'.format, inline), st.builds('<nav>{}</nav>'.format, inline), st.builds('<blockquote>{}</blockquote><td>'.format, inline))


@settings(max_examples=150, deadline=None)
@given(st.lists(block, min_size=1, max_size=8).map(''.join))
def test_html_loses_no_word(page):
    parsed = read_html(page)
    said = parsed.text + ' '.join(d.text for d in parsed.dropped)
    for w in ('straw', 'yield', '138', 'ash', 'dry', 'Oryza', 'H2O', '&'):
        assert said.count(w) >= {'H2O': page.count('H<sub>2</sub>O'), '&': page.count('&amp;')}.get(w, page.count(w))   # more: a spanning cell shows in each row it covers
    assert conservation(parsed, chunk(parsed, ChunkParams(max_tokens=64))) == []


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from('<>/="& abdhlprtu123\n'), max_size=150))
def test_any_html(page):
    try: parsed = read_html(page)
    except ParseError: return
    assert conservation(parsed, chunk(parsed)) == []


def test_docling_gives_the_same_table(tmp_path):
    pytest.importorskip('docling')
    (tmp_path/'a.html').write_text('<h1>Straw</h1><p>It <b>burns</b> well.</p>' + HTML)
    parsed = parse(tmp_path/'a.html', parser='docling')
    assert table_of(parsed) == GRID and parsed.parser == 'docling'
    assert [b.text for b in parsed.blocks][:2] == ['Straw', 'It burns well.']


# -- unmarked text -------------------------------------------------------------------------------

def kinds(text): return [(b.kind, ' '.join(b.text.split())[:40]) for b in parse_text(text, format='text').blocks]


def test_headings_three_ways():
    text = 'RICE STRAW\n\nAbstract\n\nIt burns well in all of the tests.\n\n2 Methods\nWe cut it in autumn and weighed it at once.\n\n2.1 Feedstock handling\n\nIt was dried.\n\nField Trials in Spring\n\nThey went well.'
    assert [t for k, t in kinds(text) if k == 'heading'] == ['RICE STRAW', 'Abstract', '2 Methods', '2.1 Feedstock handling', 'Field Trials in Spring']


def test_lists_of_steps_are_no_headings():
    assert 'heading' not in {k for k, _ in kinds('1. Wash the straw\n2. Dry it\n3. Rinse twice\n')}
    assert 'heading' not in {k for k, _ in kinds('1. Wash the straw\n\n2. Dry it\n\n3. Rinse twice\n')}
    assert 'heading' not in {k for k, _ in kinds('2019 was dry\n\n141\n\n138\n\n3. Rinse twice.\n\n12 samples were taken')}


def test_page_numbers_go_and_columns_stay():
    pages = '\f'.join(f'The straw of field {i} was cut and dried in the sun.\nIt was weighed.\n\n{i}\n' for i in range(1, 4))
    parsed = parse_text(pages, format='text')
    assert [d.text for d in parsed.dropped] == ['1', '2', '3'] and [b.page for b in parsed.blocks] == [1, 2, 3] and parsed.pages == 3
    column = parse_text('Yield of all sites in Mg\n\n138\n141\n150\n\nThey rose.', format='text')
    assert not column.dropped and '141' in column.text
    table = parse_text('Site      Yield\nColusa      138\n            141\nGlenn       150\n', format='text')
    assert table_of(table) == [['Site', 'Yield'], ['Colusa', '138'], ['', '141'], ['Glenn', '150']]


@pytest.mark.parametrize("text", ["straw.\n\n- straw.\n\n<table><tr><th>a</th></tr><tr><td>1</td></tr></table>\n\n- straw.",
                                  "- one\n<table><tr><th>a</th></tr><tr><td>1</td></tr></table>\n- two", "> q\n\n<table><tr><td>1</td></tr></table>\n\n> r\n"])
def test_an_html_table_between_two_lists_joins_nothing(text):
    d = parse_text(text, format="markdown")
    assert [b.text for b in d.blocks if b.kind == "table"] and all(d.text[b.start:b.end] == b.text for b in d.blocks)
    assert not any("table" in b.text for b in d.blocks if b.kind != "table")
