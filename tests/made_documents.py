"""Documents of many formats, made on the spot: the same number gives the same text"""
import random
from xml.sax.saxutils import escape

SUFFIXES = ("md", "txt", "html", "docx", "xlsx", "csv", "xml", "pdf")
_crops = "rice wheat barley maize oat rye sorghum millet".split()
_things = "straw husk ash char pellet bale stover bran fibre residue".split()
_did = "held lost gained released took up kept showed gave reached yielded".split()
_what = "silica potassium moisture carbon chlorine energy nitrogen lignin cellulose protein".split()
_where = "Colusa Glenn Butte Sutter Yolo Solano Tehama Shasta Placer Merced".split()
SITES = _where


def sentence(rng):
    return (f"In {rng.choice(_where)} the {rng.choice(_crops)} {rng.choice(_things)} {rng.choice(_did)} {rng.uniform(1, 99):.1f} percent of its {rng.choice(_what)} "
            f"after {rng.randint(2, 90)} days at {rng.randint(5, 900)} degrees, while the {rng.choice(_things)} of the control {rng.choice(_did)} {rng.uniform(1, 99):.2f} percent.")


def paragraph(rng, n=6): return " ".join(sentence(rng) for _ in range(n))


def content(i, sections=4, paragraphs=2, rows=6):
    "(title, [(heading, [paragraph])], table) of document `i`"
    rng = random.Random(i)
    body = [(f"{k + 1} {rng.choice(_what).title()} of {rng.choice(_crops).title()}", [paragraph(rng) for _ in range(paragraphs)]) for k in range(sections)]
    table = [["Site", "Ash", "Yield"], *([rng.choice(_where), f"{rng.uniform(1, 30):.1f}", str(rng.randint(100, 999))] for _ in range(rows))]
    return f"Report {i} on {_crops[i % 8]} {_things[i % 10]}", body, table


def _md(path, title, body, table):
    rows = [f"| {' | '.join(r)} |" for r in table]
    path.write_text(f"# {title}\n\n" + "\n\n".join(f"## {h}\n\n" + "\n\n".join(ps) for h, ps in body) + "\n\n" + "\n".join([rows[0], "| --- | --- | --- |", *rows[1:]]) + "\n")


def _txt(path, title, body, table):
    path.write_text(f"{title.upper()}\n\n" + "\n\n".join(f"{h}\n\n" + "\n\n".join(ps) for h, ps in body) + "\n\n" + "\n".join("   ".join(f"{c:<10}" for c in r) for r in table) + "\n")


def _cells(table): return "".join("<tr>" + "".join(f"<td>{c}</td>" for c in r) + "</tr>" for r in table)


def _html(path, title, body, table):
    path.write_text(f"<html><head><title>{title}</title></head><body><h1>{title}</h1>" + "".join(f"<h2>{h}</h2>" + "".join(f"<p>{escape(p)}</p>" for p in ps) for h, ps in body)
                    + f"<table>{_cells(table)}</table></body></html>")


def _xml(path, title, body, table):
    path.write_text(f"<article><front><article-meta><title-group><article-title>{title}</article-title></title-group></article-meta></front><body>"
                    + "".join(f"<sec><title>{h}</title>" + "".join(f"<p>{escape(p)}</p>" for p in ps) + "</sec>" for h, ps in body)
                    + f"<sec><title>Data</title><table-wrap><table>{_cells(table)}</table></table-wrap></sec></body></article>")


def _docx(path, title, body, table):
    import docx
    d = docx.Document()
    d.add_heading(title, 0)
    for h, ps in body:
        d.add_heading(h, 1)
        for p in ps: d.add_paragraph(p)
    t = d.add_table(rows=len(table), cols=len(table[0]))
    for r, row in zip(t.rows, table):
        for c, v in zip(r.cells, row): c.text = v
    d.save(path)


def _xlsx(path, title, body, table):
    import openpyxl
    book = openpyxl.Workbook()
    book.active.title = title[:30]
    for row in table: book.active.append([float(c) if c.replace(".", "").isdigit() else c for c in row])
    notes = book.create_sheet("Notes")
    for h, ps in body:
        for p in ps: notes.append([h, p])
    book.save(path)


def _csv(path, title, body, table):
    path.write_text("\n".join([f"{title} site,ash,yield,note", *(",".join([*r, f'"{p[:400]}"']) for r, p in zip(table[1:], [p for _, ps in body for p in ps]))]) + "\n")


def _pdf(path, title, body, table):
    from fpdf import FPDF
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", "B", 16); pdf.multi_cell(0, 8, title, new_x="LMARGIN", new_y="NEXT")
    for h, ps in body:
        pdf.set_font("Helvetica", "B", 12); pdf.multi_cell(0, 7, h, new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("Helvetica", "", 10)
        for p in ps: pdf.multi_cell(0, 5, p, new_x="LMARGIN", new_y="NEXT"); pdf.ln(2)
    with pdf.table() as t:
        for r in table: t.row(r)
    pdf.output(str(path))


_writers = {"md": _md, "txt": _txt, "html": _html, "docx": _docx, "xlsx": _xlsx, "csv": _csv, "xml": _xml, "pdf": _pdf}


def make(folder, i, suffix=None, **size):
    "Write document `i` in a format; returns its path"
    suffix = suffix or SUFFIXES[i % len(SUFFIXES)]
    path = folder / f"d{i:04}.{suffix}"
    _writers[suffix](path, *content(i, **size))
    return path


def make_folder(folder, n, **size):
    "A folder of `n` documents, all formats in turn"
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(n): make(folder, i, **size)
    return folder
