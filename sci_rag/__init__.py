"""Retrieval and cited answers over scientific documents; a light import: modules load when first used"""
__version__ = "0.1.0"

_where = {  # public name -> module; resolved on first use, so that `import sci_rag` loads neither torch nor a database driver
    "connect": "corpus", "Corpus": "corpus", "list_corpora": "db",
    "Scope": "scope", "Strategy": "strategy", "GeneratorSpec": "strategy", "register": "strategy", "strategies": "strategy",
    "Ranking": "retrieve", "Hit": "retrieve", "ChunkParams": "chunker", "DocumentInput": "ingest", "IngestReport": "ingest",
    "Evaluation": "evaluate", "Settings": "core", "settings": "core", "load_settings": "core", "SciRagError": "core",
    "workbench": "workbench",  # a module that can be called: importing it puts it under this name anyway
}
__all__ = [*_where]


def __getattr__(name):
    if name not in _where: raise AttributeError(f"module 'sci_rag' has no attribute {name!r}")
    from importlib import import_module
    module = import_module(f"sci_rag.{_where[name]}")
    value = module if name == _where[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__(): return sorted([*globals(), *_where])
