"""What must hold for the package as a whole"""
import subprocess, sys


def test_import_is_light():
    "Under half a second, and neither torch nor docling nor a database driver"
    code = ("import sys, time; t = time.perf_counter(); import sci_rag; s = time.perf_counter() - t;"
            "bad = {'torch', 'docling', 'psycopg', 'pandas', 'sentence_transformers'} & set(sys.modules); assert not bad, bad; print(s)")
    seconds = min(float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout) for _ in range(3))
    assert seconds < 0.5


def test_public_names_resolve():
    import sci_rag
    assert all(getattr(sci_rag, name) is not None for name in sci_rag.__all__)


def test_settings_from_a_notebook_folder(tmp_path, monkeypatch):
    "The nearest settings.ini counts, and the data directory is relative to it"
    from sci_rag.core import load_settings
    (tmp_path / "settings.ini").write_text("[DEFAULT]\ndata_dir = store\n")
    (tmp_path / "nbs").mkdir()
    monkeypatch.chdir(tmp_path / "nbs")
    assert load_settings(environ={}).data_dir == tmp_path / "store"
