"""What the tests share: a scratch corpus on the embedded server, the folder with the real test data, a browser"""
import os, shutil, uuid
from pathlib import Path

import pytest

root = Path(__file__).parent.parent
os.environ.setdefault("SCI_RAG_PROGRESS", "false")


@pytest.fixture
def corpus_name():
    "A corpus name nobody else uses; the corpus is dropped afterwards"
    from sci_rag.db import list_corpora, open_database
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield name
    if name in set(list_corpora()):
        with open_database(name=name) as db: db.drop()


def find_data(part):
    "A file or folder of the real test data, or None; SCI_RAG_TEST_DATA is a search path"
    for folder in os.environ.get("SCI_RAG_TEST_DATA", str(root.parent / "shared/data")).split(os.pathsep):
        if (Path(folder) / part).exists(): return Path(folder) / part


@pytest.fixture
def real_data():
    "find(part) -> path; skips the test where the data is not at hand"
    def find(part):
        return find_data(part) or pytest.skip(f"no {part} on SCI_RAG_TEST_DATA")
    return find


@pytest.fixture(scope="session")
def chromium():
    "Path of a Chromium for playwright; a missing one skips, and fails where the gate requires it"
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if not path:
        (pytest.fail if os.environ.get("SCI_RAG_TEST_BROWSER") == "required" else pytest.skip)("no chromium on PATH")
    return path
