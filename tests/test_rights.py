"Rights: licence texts in the wild, order of classes, manifests with every kind of mistake"
import itertools, json, os, re, sys, time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from sci_rag.core import ManifestError, SciRagError
from sci_rag.rights import LICENSE_CLASSES, ManifestEntry, Rights, classify_license, clean_doi, combine_rights, lint_manifest, read_manifest, tighten

PUBLIC, COMMERCIAL, NONCOMMERCIAL, RESTRICTED, UNKNOWN = 'public', 'open_commercial', 'open_noncommercial', 'restricted', 'unknown'

TEXTS = [
    # the four of case I5
    ('CC-By Attribution-NonCommercial 4.0 International', NONCOMMERCIAL), ('CC BY NC ND 4.0', NONCOMMERCIAL), ('CC-BY-NC-ND ', NONCOMMERCIAL), ('http://creativecommons.org/licenses/by/3.0/', COMMERCIAL),
    # spellings of CC BY
    *[(t, COMMERCIAL) for t in ('CC BY', 'cc-by', 'CC_BY_4.0', 'CCBY', 'CCBY4.0', 'cc by 4', 'CC-BY 4.0 International', 'CC – BY – 4.0', 'CC\u2011BY\u20114.0', 'CC BY 3.0', 'aCC-BY 4.0', 'CC:BY', 'CC/BY',
        'CC BY-SA', 'cc-by-sa-4.0', 'CCBYSA', 'Creative Commons Attribution', 'Creative Commons: Attribution 3.0', 'Creative Commons Attribution-ShareAlike 4.0 International', 'Attribution 4.0 International',
        'Attribution-ShareAlike 3.0 Unported', 'by', 'by-sa', 'BY 4.0', 'ＣＣ ＢＹ ４.０', 'СС BY 4.0', 'CC\u00adBY', 'CC BY\u200b 4.0', 'Creative Commons Namensnennung 4.0 International', 'Licence Creative Commons Attribution 3.0 France',
        '//creativecommons.org/licenses/by/4.0', 'https://www.creativecommons.org/licenses/by-sa/2.5/deed.en', 'creativecommons.org/licences/by/4.0/legalcode',
        '<license license-type="open-access" xlink:href="http://creativecommons.org/licenses/by/4.0/"><license-p>CC BY</license-p></license>', 'CC&nbsp;BY&nbsp;4.0',
        'CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)', 'Creative Commons Attribution 4.0 International License (CC BY 4.0)',
        'This work is licensed under a Creative Commons Attribution License, which permits commercial and non-commercial use.',
        'CC BY 4.0, made available by the authors', 'Distributed under Creative Commons CC-BY 4.0 by the authors. © 2021 The Author(s).',
        'This is an open access article distributed under the terms of the CC BY license; anyone may copy, distribute, or reuse these articles, and no permission is required from the authors or the publishers.')],
    # non-commercial and no-derivatives
    *[(t, NONCOMMERCIAL) for t in ('CC BY-NC', 'cc-by-nc-4.0', 'CC BY-NC-SA 3.0 IGO', 'ccbync', 'CCBYNCND', 'CC BYNC', 'by-nc-nd', 'CC-NC', 'cc by nc sa', 'CC BY-ND', 'cc-by-nd-4.0', 'CC BY NoDerivs', 'CC-BY-NC-ND-4.0',
        'Creative Commons Attribution Non-Commercial', 'Creative Commons Attribution Non Commercial No Derivatives 4.0', 'Creative Commons Attribution–NonCommercial–NoDerivatives', 'Attribution-NonCommercial 4.0',
        'Creative Commons Attribution-Noncommercial-No Derivative Works 3.0 Unported', 'http://creativecommons.org/licenses/by-nc-nd/4.0/', 'http://creativecommons.org/licenses/by-nd/3.0', 'creativecommons.org/licenses/nc-sa/1.0/',
        'Creative Commons Namensnennung - Nicht-kommerziell - Keine Bearbeitungen 3.0', "Creative Commons Attribution - Pas d'Utilisation Commerciale", 'Creative Commons Reconocimiento-NoComercial 4.0', 'CC Attribution, non‐commercial',
        'Re-use permitted under CC BY-NC. No commercial re-use. See rights and permissions. Published by BMJ.', 'CC BY-NC 4.0. Commercial use is not permitted.',
        'This is an Open Access article distributed under the terms of the Creative Commons Attribution Non-Commercial License (http://creativecommons.org/licenses/by-nc/4.0/), which permits non-commercial re-use, distribution, and reproduction in any medium, provided the original work is properly cited. For commercial re-use, please contact journals.permissions@example.org',
        'Free for non-commercial use', 'Non-commercial use only', 'Creative Commons, non-commercial', 'ACS AuthorChoice', 'acs-specific: authorchoice/editors choice usage agreement', 'PolyForm-Noncommercial-1.0.0')],
    *[(t, NONCOMMERCIAL) for t in ('CC (BY-NC)', 'CC BY, NC', 'CC BY; NC', 'CC BY + NC', 'CC.BY.NC', 'CC-BY.NC', 'Creative Commons (CC) Attribution (BY) Non-Commercial (NC) 4.0', 'CC BY and NC', 'CC [BY-NC]', 'CC: BY-ND', 'Attribution-NonCommercial',
        'Creative Commons Attribution-NonDerivative-NonCommercial License, permitting copying and reproduction so long as the original work is given appropriate credit. Contents may not be used for commercial purposes, or adapted, remixed, transformed or built upon.',
        'Creative Commons Attribution-NonCommercial 3.0 Intergovernmental Organizations', 'http://rightsstatements.org/vocab/InC-NC/1.0/',
        'This is an Open Access article under the Creative Commons Attribution-NonCommercial 4.0 License which permits non-commercial use, reproduction and distribution of the work without further permission provided the original work is attributed.')],
    *[(t, COMMERCIAL) for t in ('CC [BY]', 'CC (BY) 4.0', 'Creative Commons (CC BY)', 'dual licensed MIT/Apache-2.0', 'Open Government License - Canada', 'GNU GPLv3',
        'Open Access This article is licensed under a Creative Commons Attribution 4.0 International License, which permits use, sharing, adaptation, distribution and reproduction in any medium or format, as long as you give appropriate credit to the original author(s) and the source. If material is not included in the article\'s Creative Commons licence and your intended use is not permitted by statutory regulation or exceeds the permitted use, you will need to obtain permission directly from the copyright holder. To view a copy of this licence, visit http://creativecommons.org/licenses/by/4.0/.',
        'This is an open-access article distributed under the terms of the Creative Commons Attribution License (CC BY). The use, distribution or reproduction in other forums is permitted, provided the original author(s) are credited. No use, distribution or reproduction is permitted which does not comply with these terms.')],
    *[(t, RESTRICTED) for t in ('https://rightsstatements.org/vocab/InC/1.0/', 'In Copyright', 'info:eu-repo/semantics/closedAccess', 'Embargoed until 2027', 'This is an article distributed under the terms of the Science Journals Default License.')],
    *[(t, PUBLIC) for t in ('CC PDM', 'PDM 1.0', 'http://rightsstatements.org/vocab/NoC-US/1.0/', 'This is an open access article, free of all copyright. The work is made available under the Creative Commons CC0 public domain dedication.')],
    *[(t, UNKNOWN) for t in ('no CC BY license', 'without a CC BY license', 'non-CC BY', 'CC BY-like', 'CC BY does not apply', 'formerly CC BY', 'It is unclear whether CC BY applies', 'CC BY pending', 'CC BY?', 'CC BY after an embargo of 12 months', 'CC (by Smith)',
        'Creative Commons. By Smith', "isn't available under Creative Commons CC BY", 'Article © Elsevier 2020; data are CC0', '© 2014 The Authors. This article has been contributed to by US Government employees and their work is in the public domain in the USA.')],
    # public domain
    *[(t, PUBLIC) for t in ('CC0', 'cc-0', 'CC0 1.0', 'CC0 1.0 Universal (CC0 1.0) Public Domain Dedication', 'Creative Commons Zero v1.0 Universal', 'CC Zero', 'cc0-1.0', 'https://creativecommons.org/publicdomain/zero/1.0/',
        'https://creativecommons.org/publicdomain/mark/1.0/', 'Public Domain Mark', 'public domain', 'Public-domain', 'pd', 'U.S. Government Work', 'US government work', 'United States Government work', 'work of the U.S. Government',
        'This is a work of the US Government and is not subject to copyright protection in the United States', 'Prepared by employees of the U.S. Government', '17 U.S.C. § 105', 'https://www.usa.gov/government-works', 'No known copyright restrictions',
        'no rights reserved', 'PDDL-1.0', 'Open Data Commons Public Domain Dedication & License', 'Unlicense', 'public')],
    # software and data licences
    *[(t, COMMERCIAL) for t in ('MIT', 'MIT License', 'mit', 'Apache-2.0', 'Apache License, Version 2.0', 'BSD-3-Clause', 'BSD 3-Clause License', 'GPL-3.0-or-later', 'GNU General Public License v3', 'LGPL-2.1+', 'MPL-2.0', 'ODbL-1.0', 'ODC-By-1.0',
        'Open Government Licence v3.0', '© Crown copyright 2019. Open Government Licence v3.0', 'Etalab 2.0', 'OGL-UK-3.0', 'https://spdx.org/licenses/MIT.html', 'MIT OR CC-BY-NC-4.0', 'Apache-2.0 WITH LLVM-exception', 'CC0-1.0 AND CC-BY-4.0')],
    # reading only
    *[(t, RESTRICTED) for t in ('© 2020 Elsevier. All rights reserved.', 'All rights reserved', '© 2018 Springer Nature Limited', 'Copyright 2011 Wiley', '(c) 2005 MIT Press', 'All rights are reserved, including those for text and data mining',
        'No reuse allowed without permission.', 'The copyright holder for this preprint is the author/funder. All rights reserved. No reuse allowed without permission.', 'Reproduction without permission is prohibited', 'Not to be reproduced without permission',
        '© 2019 IEEE. Personal use is permitted, but republication/redistribution requires IEEE permission.', 'http://arxiv.org/licenses/nonexclusive-distrib/1.0/', 'arXiv.org perpetual, non-exclusive license',
        'http://www.elsevier.com/open-access/userlicense/1.0/', 'https://www.elsevier.com/tdm/userlicense/1.0/', 'elsevier-specific: oa user license', 'http://doi.wiley.com/10.1002/tdm_license_1.1', 'http://www.springer.com/tdm',
        'http://onlinelibrary.wiley.com/termsAndConditions#vor', 'Non-commercial use is prohibited', 'may not be redistributed', 'restricted', 'proprietary', 'closed access', 'MIT AND Elastic-2.0',
        'This file may be used consistent with the principles of fair use under the copyright law.', 'The US Government retains a nonexclusive, paid-up, irrevocable licence to publish. © 2020 Elsevier B.V.')],
    # nobody knows
    *[(t, UNKNOWN) for t in ('', '  ', None, 5, 'n/a', 'None', 'unknown', '?', 'other', 'Creative Commons', 'CC', 'Creative Commons license by the authors', 'open access', 'Open Access, free to read', 'implied-oa', '© 2021 The Authors. Open access', 'house licence',
        'Attribution', 'CC BY 4.0. All rights reserved.', 'CC BY or CC BY-NC', 'CC BY-NC (http://creativecommons.org/licenses/by/4.0/)', 'CC BY 4.0 licence for non-commercial use only', 'CC0, no derivatives', 'not licensed under CC BY',
        "This article isn't in the public domain", 'This paper is not open access.', 'creativecommons.org/licenses/sampling+/1.0/', 'LicenseRef-own', 'MIT AND LicenseRef-own', 'MIT Press', 'the by-law of the state', 'supply AND demand', 'BY-LAW',
        'The US Government retains a nonexclusive licence.', 'No claim to original U.S. Government Works', 'public access')]]


@pytest.mark.parametrize('text,expected', TEXTS, ids=[f'{i}-{str(t)[:40]}' for i, (t, _) in enumerate(TEXTS)])
def test_licence_texts(text, expected):
    r = classify_license(text)
    assert r.license_class == expected, r
    assert r.reason


@pytest.mark.parametrize('text,spdx', [('CC BY 4.0', 'CC-BY-4.0'), ('cc-by-nc-nd 3.0', 'CC-BY-NC-ND-3.0'), ('CC BY', None), ('CC BY 7.0', None), ('http://creativecommons.org/licenses/by-nc-sa/3.0/igo/', 'CC-BY-NC-SA-3.0-IGO'),
    ('CC BY-NC-SA 3.0 IGO', 'CC-BY-NC-SA-3.0-IGO'), ('CC BY 3.0 Poland', None), ('cc0', 'CC0-1.0'), ('mit', 'MIT'), ('gpl-3.0-ONLY', 'GPL-3.0-only'), ('Attribution-ShareAlike 4.0 International', 'CC-BY-SA-4.0'), ('all rights reserved', None)])
def test_spdx(text, spdx): assert classify_license(text).spdx == spdx


# every way to write the seven licences that a small grammar can make
PARTS = {'BY': ['BY', 'by', 'Attribution'], 'NC': ['NC', 'nc', 'NonCommercial', 'Non-Commercial', 'non commercial', 'Noncommercial'], 'SA': ['SA', 'sa', 'ShareAlike', 'Share-Alike', 'share alike'],
         'ND': ['ND', 'nd', 'NoDerivs', 'NoDerivatives', 'No Derivatives', 'No-Derivative-Works']}
LICENCES = {('BY',): COMMERCIAL, ('BY', 'SA'): COMMERCIAL, ('BY', 'NC'): NONCOMMERCIAL, ('BY', 'ND'): NONCOMMERCIAL, ('BY', 'NC', 'SA'): NONCOMMERCIAL, ('BY', 'NC', 'ND'): NONCOMMERCIAL}


@st.composite
def cc_names(draw):
    parts = draw(st.sampled_from(sorted(LICENCES)))
    sep, words = draw(st.sampled_from(['-', ' ', '_', ' - ', '–', '-\u200b'])), [draw(st.sampled_from(PARTS[p])) for p in parts]
    version = draw(st.sampled_from(['', '4.0', '3.0', '2.5', '4.0 International', '3.0 Unported', 'v4.0']))
    name = sep.join([draw(st.sampled_from(['CC', 'cc', 'Creative Commons', 'creative commons'])), *words, *([version] if version else [])])
    before = draw(st.sampled_from(['', 'licensed under ', 'This is an open access article under the ', '© 2020 The Authors. ', '(']))
    after = draw(st.sampled_from(['', ' license', ' licence.', ' (see the terms)', ', which permits use with attribution to the authors', ')', '.']))
    return before + name + after, parts, re.sub('[^0-9.]', '', version)


@settings(max_examples=400, deadline=None)
@given(cc_names())
def test_generated_names(case):
    text, parts, version = case
    r = classify_license(text)
    assert r.license_class == LICENCES[parts], (text, r)
    assert r.spdx == (f'CC-{"-".join(parts)}-{version}' if version else None), (text, r)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([t for t, c in TEXTS if isinstance(t, str) and c != UNKNOWN and '&' not in t]), st.sampled_from([str.upper, str.lower, str.swapcase, lambda t: f'  {t}\n', lambda t: t.replace(' ', '  ')]))
def test_case_and_space_do_not_matter(text, change):
    a, b = classify_license(text), classify_license(change(text))
    operators = re.search(r'\b(AND|OR|WITH)\b', text)        # SPDX operators are upper case by definition
    assert operators or a.license_class == b.license_class


@settings(max_examples=400, deadline=None)
@given(st.text())
def test_any_text_gives_a_class(text):
    r = classify_license(text)
    assert r.license_class in LICENSE_CLASSES and r.reason and isinstance(hash(r), int)
    assert classify_license(text) == r


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from('CC BY NC ND SA 4.0 Creative Commons license public domain © 2020 all rights reserved not non commercial use permitted MIT OR AND ( ) the authors by'.split()), max_size=14).map(' '.join))
def test_word_salad_never_opens_what_a_closed_word_closes(text):
    r, low = classify_license(text), text.lower()
    assert r.license_class in LICENSE_CLASSES
    if 'all rights reserved' in low: assert r.license_class in (RESTRICTED, UNKNOWN), (text, r)
    if 'NC' in text.split() and 'CC' in text.split() and text.split().index('NC') == text.split().index('CC') + 1 and ' or ' not in low: assert r.license_class not in (PUBLIC, COMMERCIAL), (text, r)


@pytest.mark.parametrize('unit', ['us', 'u. s. ', 'cc', 'by-', 'non ', 'non-commercial ', '(', 'MIT AND ', 'not been ', '<a', 'a.', 'arxiv ', 'no part of this ', '© ', '&amp;', 'reproduction ', 'creativecommons.org/licenses/', '\u0301', ' '])
def test_long_texts_are_quick(unit):
    start = time.perf_counter()
    assert classify_license(unit*(200_000//len(unit))).license_class in LICENSE_CLASSES
    assert time.perf_counter() - start < 2


# the order of classes
classes = st.sampled_from(LICENSE_CLASSES)


@given(classes, classes, classes)
def test_tighten_is_an_order(a, b, c):
    assert tighten(a, a) == a and tighten(a, b) == tighten(b, a) and tighten(a, tighten(b, c)) == tighten(tighten(a, b), c)
    assert tighten(a, None) == tighten(None, a) == a and tighten(a, RESTRICTED) == RESTRICTED and tighten(a, PUBLIC) == a


@given(st.builds(Rights, classes, st.none(), st.just('declared')), st.one_of(st.none(), st.builds(Rights, classes, st.none(), st.just('found'))))
def test_a_classifier_never_opens(declared, found):
    r = combine_rights(declared, found)
    assert r.license_class == tighten(declared.license_class, found and found.license_class)
    assert 'found' in r.reason if r.license_class != declared.license_class else r == declared


def test_unknown_class_is_an_error():
    with pytest.raises(SciRagError, match='open_commercial'): tighten('open', 'public')


# manifests
@pytest.fixture
def folder(tmp_path):
    root = tmp_path/'papers'
    (root/'sub').mkdir(parents=True)
    for n in ('a.md', 'b.md', 'sub/c.md', 'ü ñ.md'): (root/n).write_text('text')
    (tmp_path/'outside.md').write_text('secret'); (tmp_path/'papers2').mkdir(); (tmp_path/'papers2'/'x.md').write_text('x')
    return root


def write(folder, *lines):
    (folder/'manifest.jsonl').write_bytes(b'\n'.join(l if isinstance(l, bytes) else (l if isinstance(l, str) else json.dumps(l)).encode() for l in lines))
    return folder/'manifest.jsonl'


def errors(path):
    df = lint_manifest(path)
    return df[df.level == 'error'][['line', 'field']].values.tolist()


@pytest.mark.parametrize('line,field', [
    ('not json', ''), ('{"path": "a.md"', ''), ('[1]', ''), ('"a.md"', ''), ('null', ''), ('{"path": "a.md", "path": "b.md"}', ''), ('{"path": "a.md", "meta": {"x": NaN}}', ''), (b'{"path": "\xff.md"}', ''), ('[' * 100_000, ''),
    ('{"path": "a.md", "year": ' + '9'*6000 + '}', ''),
    ({}, 'path'), ({'title': 'x'}, 'path'), ({'path': ''}, 'path'), ({'path': None}, 'path'), ({'path': 3}, 'path'), ({'path': 'gone.md'}, 'path'), ({'path': 'sub'}, 'path'), ({'path': '.'}, 'path'), ({'path': '../outside.md'}, 'path'),
    ({'path': 'sub/../../outside.md'}, 'path'), ({'path': '/etc/passwd'}, 'path'), ({'path': '../papers2/x.md'}, 'path'), ({'path': 'a\x00.md'}, 'path'), ({'path': 'x'*5000}, 'path'), ({'path': '\ud800.md'}, 'path'), ({'path': 'sub\\c.md'}, 'path'),
    ({'path': 'out-link.md'}, 'path'), ({'path': 'out-folder/x.md'}, 'path'), ({'path': 'loop.md'}, 'path'), ({'path': 'dangling.md'}, 'path'),
    ({'path': 'a.md', 'titel': 'x'}, 'titel'), ({'path': 'a.md', 'title': 3}, 'title'), ({'path': 'a.md', 'authors': 'A. Voss'}, 'authors'), ({'path': 'a.md', 'authors': [1]}, 'authors'), ({'path': 'a.md', 'authors': ['']}, 'authors'),
    ({'path': 'a.md', 'year': '2019'}, 'year'), ({'path': 'a.md', 'year': 2019.5}, 'year'), ({'path': 'a.md', 'year': True}, 'year'), ({'path': 'a.md', 'year': 20199}, 'year'), ({'path': 'a.md', 'year': -5}, 'year'), ({'path': 'a.md', 'year': 0}, 'year'),
    ({'path': 'a.md', 'doi': 10.1}, 'doi'), ({'path': 'a.md', 'license': ['CC0']}, 'license'), ({'path': 'a.md', 'meta': 'x'}, 'meta'), ({'path': 'a.md', 'meta': []}, 'meta'), ({'path': 'a.md', 'source': 1}, 'source')])
def test_each_mistake_alone(folder, line, field):
    (folder/'out-link.md').symlink_to(folder.parent/'outside.md'); (folder/'out-folder').symlink_to(folder.parent/'papers2'); (folder/'loop.md').symlink_to(folder/'loop.md'); (folder/'dangling.md').symlink_to(folder/'nowhere.md')
    path = write(folder, {'path': 'b.md', 'license': 'CC0'}, '', line)
    assert errors(path) == [[3, field]]
    with pytest.raises(ManifestError, match='line 3') as e: read_manifest(path)
    assert str(folder.parent) not in str(e.value)


def test_all_mistakes_at_once(folder):
    path = write(folder, {'path': 'a.md', 'year': '2019', 'titel': 'x', 'authors': 'B'}, 'oops', {'path': 'gone.md', 'year': 99999}, {'path': './a.md'}, {'path': 'b.md', 'doi': '10.1000/X'}, {'path': 'sub/c.md', 'doi': 'https://doi.org/10.1000/x'})
    assert errors(path) == [[1, 'year'], [1, 'titel'], [1, 'authors'], [2, ''], [3, 'path'], [3, 'year'], [4, 'path'], [6, 'doi']]
    with pytest.raises(ManifestError) as e: read_manifest(path)
    assert [int(n) for n in re.findall(r'line (\d+):', str(e.value))] == [1, 1, 1, 2, 3, 3, 4, 6]


def test_warnings_do_not_stop(folder):
    path = write(folder, {'path': 'a.md', 'license': 'house licence', 'url': 'see web', 'doi': 'not-a-doi'}, {'path': 'b.md'})
    assert lint_manifest(path)[['line', 'field', 'level']].values.tolist() == [[1, 'doi', 'warning'], [1, 'url', 'warning'], [1, 'license', 'warning'], [2, 'license', 'warning']]
    assert [e.rights.license_class for e in read_manifest(path)] == [UNKNOWN, UNKNOWN]


def test_good_manifest(folder):
    (folder/'inner.md').symlink_to(folder/'sub'/'c.md')
    path = write(folder, b'\xef\xbb\xbf' + json.dumps({'path': './a.md', 'title': 'Straw', 'authors': ['A. Voss', 'B. Lind'], 'year': 1998, 'doi': 'DOI: 10.1000/AbC', 'journal': 'J', 'url': 'https://example.org/a', 'license': 'CC BY 4.0',
                 'license_source': 'publisher', 'source': 'demo', 'meta': {'k': [1, None]}}).encode() + b'\r', b'', {'path': 'ü ñ.md', 'title': None}, {'path': str(folder/'b.md')}, {'path': 'inner.md'}, b'')
    a, u, b, c = read_manifest(folder)
    assert a == ManifestEntry(folder/'a.md', 'a.md', 1, 'Straw', ('A. Voss', 'B. Lind'), 1998, '10.1000/abc', 'J', 'https://example.org/a', 'CC BY 4.0', 'publisher', 'demo', {'k': [1, None]})
    assert a.rights == Rights(COMMERCIAL, 'CC-BY-4.0', 'Creative Commons BY 4.0')
    assert (u.ref, u.line, u.title, b.ref, c.ref, c.path) == ('ü ñ.md', 3, None, 'b.md', 'sub/c.md', (folder/'sub'/'c.md').resolve())
    assert read_manifest(path) == [a, u, b, c] and all(e.path.is_absolute() for e in (a, u, b, c))


@pytest.mark.parametrize('content', ['', '\n\n', '   '])
def test_empty_manifest(folder, content):
    (folder/'manifest.jsonl').write_text(content)
    with pytest.raises(ManifestError, match='names no document'): read_manifest(folder)


def test_manifest_that_is_not_there(tmp_path):
    for p in (tmp_path/'none.jsonl', tmp_path):
        for f in (read_manifest, lint_manifest):
            with pytest.raises(ManifestError, match='cannot be read'): f(p)


@pytest.mark.skipif(not hasattr(os, 'geteuid') or os.geteuid() == 0, reason='root may read everything')
def test_unreadable_file(folder):
    (folder/'a.md').chmod(0)
    assert errors(write(folder, {'path': 'a.md'})) == [[1, 'path']]


json_values = st.recursive(st.none() | st.booleans() | st.integers(-10**6, 10**6) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8), lambda c: st.lists(c, max_size=3) | st.dictionaries(st.text(max_size=5), c, max_size=3), max_leaves=6)
fields = st.sampled_from('path title authors year doi journal url license license_source source meta other'.split())


@settings(max_examples=150, deadline=None)
@given(lines=st.lists(st.one_of(st.dictionaries(fields, json_values, max_size=5).map(json.dumps), st.text(max_size=30), st.just('{"path": "a.md"}')), max_size=6))
def test_any_lines_are_linted_or_read(tmp_path_factory, lines):
    root = tmp_path_factory.mktemp('m')
    (root/'a.md').write_text('text')
    (root/'manifest.jsonl').write_bytes('\n'.join(lines).encode('utf-8', 'surrogatepass'))
    df = lint_manifest(root)
    if (df.level == 'error').any():
        with pytest.raises(ManifestError) as e: read_manifest(root)
        assert len(re.findall(r'\n  line \d+:', str(e.value))) >= (df.level == 'error').sum()
    else:
        entries = read_manifest(root)
        assert len(entries) == sum(bool(l.strip()) for l in '\n'.join(lines).encode('utf-8', 'surrogatepass').split(b'\n')) and all(isinstance(x, ManifestEntry) for x in entries)
    assert df.line.is_monotonic_increasing


@given(st.from_regex(r'10\.\d{4}/[a-z0-9]{1,8}', fullmatch=True), st.sampled_from(['', 'doi:', 'DOI: ', 'https://doi.org/', 'http://dx.doi.org/', 'doi.org/']))
def test_dois_compare(doi, before):
    assert clean_doi(before + doi.upper() + ' ') == doi == clean_doi(clean_doi(before + doi))


@pytest.mark.parametrize("text", ["https://creativecommons.org/licenses/by%2Dnc/4.0/", "CC BY NonComm", "CC BY-N C-ND", "Kein kommerzieller Gebrauch CC BY", "in the public domain? unclear",
    "CC BY. For commercial re-use, please contact journals.permissions@example.org", "license: ask the author (CC BY?)", "The author intends CC BY", "CC BY 4.0 until 2020"])
def test_a_doubtful_or_garbled_statement_is_never_open_to_commerce(text):
    assert classify_license(text).license_class in ("unknown", "open_noncommercial", "restricted")
