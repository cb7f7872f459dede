"""In a live Jupyter kernel, whose event loop is already running, everything must work as anywhere else"""
import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

CELLS = '''
import asyncio, sci_rag
from sci_rag import DocumentInput, Scope
asyncio.get_running_loop()                      # there is one
corpus = sci_rag.connect(name={name!r}, embedder='hashing')
---
report = corpus.ingest([DocumentInput(id='a', text='Almond hulls are fed to dairy cows in winter.', license='CC0'),
                        DocumentInput(id='b', text='Rice straw holds much silica and fuses late.', license='restricted')])
assert report.ok, report
---
r = corpus.search('hulls for cows')
assert r[0].document_id == 'a' and r.explain(0) is not None and len(r.df) and r._repr_html_()
---
assert (await corpus.asearch('silica in straw'))[0].document_id == 'b'
---
try: corpus.db.fetch('SELECT nonsense FROM nowhere')
except Exception as e: print(type(e).__name__)
else: raise AssertionError('a wrong statement must raise')
---
assert corpus.search('hulls for cows')[0].document_id == 'a'      # the call after a failing one works
---
ev = corpus.evaluate(['bm25', 'vector'], {{'q1': 'hulls', 'q2': 'silica'}}, {{'q1': {{'a': 1}}, 'q2': {{'b': 1}}}}, metrics=['nDCG@10'])
assert set(ev.runs) == {{'bm25', 'vector'}}
---
assert corpus.fingerprint()['documents'] == 2 and len(corpus.documents()) == 2 and len(corpus.doctor()) and len(corpus.strategies())
assert corpus.search('anything', scope=Scope(license_classes=[])).status == 'denied'
corpus.close()
'''


def test_everything_in_a_live_kernel(corpus_name, tmp_path):
    nb = new_notebook(cells=[new_code_cell(c.strip()) for c in CELLS.format(name=corpus_name).split("---")])
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "python3", "language": "python"}
    NotebookClient(nb, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(o.get("text", "") for c in nb.cells for o in c.outputs)
    assert "UndefinedTable" in printed or "Error" in printed
